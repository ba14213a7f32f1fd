#include "form_kernel.h"

#include "kiln/dsl/op_builder.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using dsl::Expr;
using dsl::OpCode;
using dsl::Region;
using dsl::Type;
using dsl::ValueId;

class Writer {
 public:
  explicit Writer(std::string name) : build_(kernel_, kernel_.body.ops, {}) { kernel_.name = std::move(name); }

  void op(const target::OpForm& form, ElementType element, const AsmText& assembly);
  dsl::Kernel kernel() && { return std::move(kernel_); }

 private:
  ValueId parameter(const Type& type, bool readonly) {
    kernel_.values.push_back({type, ""});
    const auto id = static_cast<ValueId>(kernel_.values.size() - 1);
    std::string name = "p";
    name += std::to_string(kernel_.params.size());
    kernel_.values[id].name = name;
    kernel_.params.push_back({std::move(name), type, readonly, id});
    return id;
  }

  ValueId pointer(ElementType element, bool readonly) { return parameter({element, true, {}}, readonly); }

  // Of a value in a row-major array.
  ValueId index(const std::vector<Expr>& shape) {
    ValueId out = dsl::kNoValue;
    int64_t stride = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      ValueId along = build_.add(OpCode::kArange, {}, {Expr(0), shape[axis]});
      for (size_t other = 0; other < shape.size(); ++other) {
        if (other != axis) along = build_.add(OpCode::kExpandDims, {along}, {static_cast<int64_t>(other)});
      }
      along = build_.add(OpCode::kBroadcast, {along}, {shape});
      const ValueId scale = build_.splat(build_.constant(ElementType::kI32, static_cast<uint64_t>(stride)), shape);
      along = build_.add(OpCode::kMul, {along, scale});
      out = out == dsl::kNoValue ? along : build_.add(OpCode::kAdd, {out, along});
      stride *= shape[axis].as_constant().value();
    }
    return out;
  }

  ValueId places(ElementType element, const std::vector<Expr>& shape, bool readonly) {
    const ValueId base = pointer(element, readonly);
    if (shape.empty()) return base;
    return build_.add(OpCode::kAddptr, {build_.splat(base, shape), index(shape)});
  }

  ValueId operand(const Type& type) {
    if (type.descriptor) {
      const ValueId base = pointer(type.element, false), extent = parameter(dsl::scalar_type(ElementType::kI32), false);
      return build_.add(OpCode::kDescriptor, {base, extent, extent, extent}, {type.shape, int64_t{0}});
    }
    if (type.pointer) return places(type.element, type.shape, false);
    if (type.shape.empty()) return parameter(type, false);
    return build_.add(OpCode::kLoad, {places(type.element, type.shape, true)});
  }

  void store(ValueId value) {
    const Type type = kernel_.type(value);
    if (type.descriptor) {
      const ValueId first = parameter(dsl::scalar_type(ElementType::kI32), false);
      return store(build_.add(OpCode::kLoadTile, {value, first, first}));
    }
    if (type.pointer) return store(build_.add(OpCode::kLoad, {value}));
    build_.effect(OpCode::kStore, {places(type.element, type.shape, false), value});
  }

  // Regions that hand on what they get: of `while` first whether to go on, of a combination what stands on the left.
  std::vector<Region> regions(OpCode op, const std::vector<Type>& operands, const std::vector<dsl::Attr>& attrs,
                              const std::vector<ValueId>& chosen) {
    std::vector<Region> out;
    for (const dsl::RegionTypes& types : dsl::region_types(op, operands, attrs)) {
      Region region;
      for (const Type& arg : types.args) {
        kernel_.values.push_back({arg, ""});
        region.args.push_back(static_cast<ValueId>(kernel_.values.size() - 1));
      }
      std::vector<ValueId> yields(region.args);
      if (op == OpCode::kFor) yields.erase(yields.begin());
      if (op == OpCode::kIf) yields = {chosen[out.size()]};
      if (op == OpCode::kWhile && out.empty()) yields = {chosen[0]};
      if (op == OpCode::kReduce || op == OpCode::kScan) yields.resize(yields.size() / 2);
      region.ops.push_back({OpCode::kYield, yields, {}, {}, {}, {}});
      out.push_back(std::move(region));
    }
    return out;
  }

  dsl::Kernel kernel_;
  dsl::OpBuilder build_;
};

void Writer::op(const target::OpForm& form, ElementType element, const AsmText& assembly) {
  target::OpInstance instance = target::instance_of(form, element).value();
  if (form.op == OpCode::kInlineAsm) {
    instance.attrs[0] = assembly.text;
    instance.attrs[1] = assembly.constraints;
  }
  std::vector<ValueId> operands;
  for (const Type& type : instance.operands) operands.push_back(operand(type));
  const Type value = dsl::tile_type(element, {64});
  std::vector<ValueId> chosen;
  if (form.op == OpCode::kIf) chosen = {operand(value), operand(value)};
  if (form.op == OpCode::kWhile) chosen = {operand(dsl::scalar_type(ElementType::kI1))};
  std::vector<Type> yields;
  if (form.op == OpCode::kIf) yields = {value};
  const std::vector<Type> results = dsl::infer_types(form.op, instance.operands, instance.attrs, {}, yields).value();
  dsl::Op op{form.op, operands, {}, instance.attrs, regions(form.op, instance.operands, instance.attrs, chosen), {}};
  for (const Type& type : results) {
    kernel_.values.push_back({type, ""});
    op.results.push_back(static_cast<ValueId>(kernel_.values.size() - 1));
  }
  const std::vector<ValueId> made = op.results;
  kernel_.body.ops.push_back(std::move(op));
  for (ValueId result : made) store(result);
}

}  // namespace

dsl::Kernel form_kernel(const target::OpForm& form, ElementType element, const AsmText& assembly) {
  Writer writer("form");
  // What ends a region stands in none of its own.
  writer.op(form.op == OpCode::kYield ? target::OpForm{OpCode::kIf} : form, element, assembly);
  return std::move(writer).kernel();
}

}  // namespace kiln::test
