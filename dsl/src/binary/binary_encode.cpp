// IR to CBOR records; see binary_format.h for the layout.
#include "binary/binary_format.h"
#include "kiln/dsl/expr_binary.h"
#include "kiln/dsl/walk.h"

namespace kiln::dsl {
namespace {

struct WriteAttr {
  CborWriter& out;

  void operator()(int64_t value) const { out.integer(value); }
  void operator()(const Expr& expr) const { write_expr(expr, out); }
  void operator()(const std::vector<Expr>& list) const {
    out.array(list.size());
    for (const Expr& expr : list) write_expr(expr, out);
  }
  void operator()(ElementType element) const {
    out.array(2);
    out.integer(0);
    out.integer(static_cast<int64_t>(element));
  }
  void operator()(Literal literal) const {
    out.array(2);
    out.integer(1);
    out.bits(literal.bits);
  }
  void operator()(const std::string& text) const { out.text(text); }
};

void write_ops(const std::vector<Op>& ops, CborWriter& out) {
  out.array(ops.size());
  for (const Op& op : ops) {
    out.array(4 + op.regions.size());
    out.integer(static_cast<int64_t>(op.code));
    out.array(op.operands.size());
    for (ValueId operand : op.operands) out.integer(operand);
    out.array(op.attrs.size());
    for (const Attr& attr : op.attrs) std::visit(WriteAttr{out}, attr);
    out.bits(op.results.size());
    for (const Region& region : op.regions) {
      out.array(2);
      out.bits(region.args.size());
      write_ops(region.ops, out);
    }
  }
}

void write_files(const Kernel& kernel, CborWriter& out) {
  out.array(kernel.files.size());
  for (const std::string& file : kernel.files) out.text(file);
}

void write_locations(const Kernel& kernel, CborWriter& out) {
  size_t count = 0;
  for_each_op(kernel, [&](const Op&) { ++count; });
  out.array(3 * count);
  for_each_op(kernel, [&](const Op& op) {
    for (uint32_t number : {op.loc.file, op.loc.line, op.loc.column}) out.integer(number);
  });
}

void write_target_defaults(const Kernel& kernel, CborWriter& out) {
  out.array(kernel.target_defaults.size());
  for (const auto& [target, values] : kernel.target_defaults) {
    out.array(2);
    out.text(target);
    out.array(values.size());
    for (const auto& [name, value] : values) {
      out.array(2);
      out.text(name);
      out.integer(value);
    }
  }
}

void write_arrays(const Kernel& kernel, CborWriter& out) {
  out.array(kernel.arrays.size());
  for (const ArrayInfo& array : kernel.arrays) {
    out.array(3);
    out.text(array.param);
    write_expr(array.elements, out);
    out.array(array.range ? 2 : 0);
    if (!array.range) continue;
    write_expr(array.range->first, out);
    write_expr(array.range->second, out);
  }
}

// Whether any condition has a message.
bool says_why(const Kernel& kernel) {
  return std::any_of(kernel.constraints.begin(), kernel.constraints.end(),
                     [](const Condition& condition) { return !condition.message.empty(); });
}

}  // namespace

void write_canonical_fields(const Kernel& kernel, CborWriter& out) {
  out.text(kCanonicalTag);
  out.text(kernel.name);
  out.array(kernel.params.size());
  for (const Param& param : kernel.params) {
    out.array(4);
    out.integer(static_cast<int64_t>(param.type.element));
    for (bool flag : {param.type.pointer, param.readonly, param.may_alias}) out.boolean(flag);
  }
  out.bits(kernel.constexprs.size());
  out.array(kernel.grid.size());
  for (const Expr& extent : kernel.grid) write_expr(extent, out);
  out.array(kernel_options().size());
  for (const KernelOption& option : kernel_options()) {
    const std::string_view value = option.value(kernel.options);
    if (value == option.word)
      out.text(value);
    else
      out.boolean(value == "true");
  }
  write_ops(kernel.body.ops, out);
}

void write_lines(const Kernel& kernel, CborWriter& out) {
  out.array(2);
  write_files(kernel, out);
  write_locations(kernel, out);
}

void write_debug(const Kernel& kernel, CborWriter& out) {
  out.array(says_why(kernel) ? 11 : 10);
  out.text(kDebugTag);
  out.array(kernel.params.size());
  for (const Param& param : kernel.params) out.text(param.name);
  out.array(kernel.constexprs.size());
  for (const Constexpr& item : kernel.constexprs) {
    out.array(2);
    out.text(item.name);
    if (item.default_value)
      out.integer(*item.default_value);
    else
      out.null();
  }
  out.array(kernel.space.size());
  for (const SpaceAxis& axis : kernel.space) {
    out.array(axis.target.empty() ? 2 : 3);
    out.text(axis.name);
    out.array(axis.values.size());
    for (int64_t value : axis.values) out.integer(value);
    if (!axis.target.empty()) out.text(axis.target);
  }
  write_files(kernel, out);
  out.array(kernel.values.size());
  for (const Value& value : kernel.values) out.text(value.name);
  write_locations(kernel, out);
  write_target_defaults(kernel, out);
  out.array(kernel.constraints.size());
  for (const Condition& constraint : kernel.constraints) write_expr(constraint.expr, out);
  write_arrays(kernel, out);
  if (!says_why(kernel)) return;
  out.array(kernel.constraints.size());
  for (const Condition& constraint : kernel.constraints) out.text(constraint.message);
}

}  // namespace kiln::dsl
