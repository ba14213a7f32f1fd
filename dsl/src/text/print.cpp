// IR to text. A value keeps its name where it has a usable one; the others are numbered in the order of printing.
#include <unordered_set>

#include "kiln/dsl/text.h"
#include "kiln/dsl/text_format.h"
#include "kiln/target/schedule_options.h"

namespace kiln::dsl {
namespace {

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel), value_names_(kernel.values.size()) {
    // Parameters and constexprs share one space of names, since expressions mention both.
    std::unordered_set<std::string> taken;
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      params_.push_back(unique(kernel.params[i].name, "arg" + std::to_string(i), taken));
    }
    for (size_t i = 0; i < kernel.constexprs.size(); ++i) {
      constexprs_.push_back(unique(kernel.constexprs[i].name, "C" + std::to_string(i), taken));
    }
    names_.param_name = [this](uint32_t i) { return i < params_.size() ? params_[i] : "?"; };
    names_.constexpr_name = [this](uint32_t i) { return i < constexprs_.size() ? constexprs_[i] : "?"; };
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      const ValueId id = kernel.params[i].value;
      if (id < value_names_.size()) value_names_[id] = params_[i];
      taken_values_.insert(params_[i]);
    }
  }

  std::string run() {
    out_ = "kernel " + (is_name(kernel_.name) ? kernel_.name : "kernel") + "(";
    for (size_t i = 0; i < params_.size(); ++i) {
      const Param& param = kernel_.params[i];
      out_ += (i ? ", %" : "%") + params_[i] + ": " + to_string(param.type, names_) +
              (param.readonly ? " readonly" : "") + (param.may_alias ? " may_alias" : "");
    }
    out_ += ") {\n";
    header();
    for (const Op& op : kernel_.body.ops) print_op(op, 1);
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  static std::string unique(const std::string& wanted, const std::string& fallback,
                            std::unordered_set<std::string>& taken) {
    std::string name = is_name(wanted) ? wanted : fallback;
    while (!taken.insert(name).second) name += "_";
    return name;
  }

  void header() {
    for (size_t i = 0; i < constexprs_.size(); ++i) {
      const auto& value = kernel_.constexprs[i].default_value;
      out_ += "  constexpr " + constexprs_[i] + (value ? " = " + std::to_string(*value) : "") + "\n";
    }
    for (const auto& [target, values] : kernel_.target_defaults) {
      out_ += "  defaults " + in_quotes(target) + " {";
      std::string items;
      for (const auto& [name, value] : values) {
        items += (items.empty() ? "" : ", ") + config_name(name) + " = " + target::option_value_text(name, value);
      }
      out_ += items + "}\n";
    }
    for (const SpaceAxis& axis : kernel_.space) {
      out_ += "  space " + (axis.target.empty() ? "" : in_quotes(axis.target) + " ") + config_name(axis.name) + " = [";
      for (size_t i = 0; i < axis.values.size(); ++i) {
        out_ += (i ? ", " : "") + target::option_value_text(axis.name, axis.values[i]);
      }
      out_ += "]\n";
    }
    for (const Condition& constraint : kernel_.constraints) {
      out_ += "  where " + to_string(constraint.expr, names_) +
              (constraint.message.empty() ? "" : ", " + in_quotes(constraint.message)) + "\n";
    }
    for (const ArrayInfo& array : kernel_.arrays) {
      out_ += "  array " + param_name(array.param) + " = " + to_string(array.elements, names_);
      if (array.range) {
        out_ += " in [" + to_string(array.range->first, names_) + ", " + to_string(array.range->second, names_) + "]";
      }
      out_ += "\n";
    }
    out_ += "  grid " + list(std::vector<Expr>(kernel_.grid.begin(), kernel_.grid.end())) + "\n";
    for (const KernelOption& option : kernel_options()) {
      const std::string_view value = option.value(kernel_.options);
      if (value != option.value({})) {
        out_ += "  option " + std::string(option.name) + " = " + std::string(value) + "\n";
      }
    }
    out_ += "\n";
  }

  // Of a constexpr, which may print under another name, or of a schedule option.
  std::string config_name(const std::string& name) const {
    auto index = kernel_.find_constexpr(name);
    return index ? constexprs_[*index] : name;
  }

  std::string param_name(const std::string& name) const {
    auto index = kernel_.find_param(name);
    return index ? params_[*index] : name;
  }

  std::string list(const std::vector<Expr>& exprs) const {
    std::string out = "[";
    for (size_t i = 0; i < exprs.size(); ++i) out += (i ? ", " : "") + to_string(exprs[i], names_);
    return out + "]";
  }

  std::string define(ValueId id) {
    if (id >= value_names_.size()) return "%?";
    std::string name = kernel_.values[id].name;
    if (!is_name(name) || !taken_values_.insert(name).second) name = std::to_string(next_number_++);
    value_names_[id] = name;
    return "%" + name;
  }

  std::string use(ValueId id) const {
    return id < value_names_.size() && !value_names_[id].empty() ? "%" + value_names_[id] : "%?";
  }

  std::string uses(const std::vector<ValueId>& ids) const {
    std::string out;
    for (ValueId id : ids) out += (out.empty() ? "" : ", ") + use(id);
    return out;
  }

  void print_op(const Op& op, int depth) {
    const std::string indent(static_cast<size_t>(depth) * 2, ' ');
    out_ += indent;
    for (size_t i = 0; i < op.results.size(); ++i) out_ += (i ? ", " : "") + define(op.results[i]);
    out_ += (op.results.empty() ? "" : " = ") + info(op.code).name;
    if (op.code == OpCode::kFor) {
      loop_head(op);
    } else if (op.code == OpCode::kWhile) {
      while_head(op);
    } else if (!op.operands.empty()) {
      out_ += " " + uses(op.operands);
    }
    print_attrs(op);
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ValueId id = op.results[i];
      out_ += (i ? ", " : " : ") + (id < kernel_.values.size() ? to_string(kernel_.type(id), names_) : "?");
    }
    for (size_t i = 0; i < op.regions.size(); ++i) print_region(op, i, depth);
    out_ += "\n";
  }

  void print_region(const Op& op, size_t index, int depth) {
    const Region& region = op.regions[index];
    if (op.code == OpCode::kIf && index == 1) {
      // A second branch that does nothing is not written.
      if (region.ops.size() == 1 && region.ops[0].operands.empty() && region.ops[0].code == OpCode::kYield) return;
      out_ += " else";
    }
    if (op.code == OpCode::kWhile && index == 1) out_ += " do";
    // The heads of `for` and `while` have named the arguments of their first regions.
    const bool named = index == 0 && (op.code == OpCode::kFor || op.code == OpCode::kWhile);
    if (!named && op.code != OpCode::kIf) {
      out_ += " (";
      for (size_t i = 0; i < region.args.size(); ++i) out_ += (i ? ", " : "") + define(region.args[i]);
      out_ += ")";
    }
    out_ += " {\n";
    for (const Op& inner : region.ops) print_op(inner, depth + 1);
    out_ += std::string(static_cast<size_t>(depth) * 2, ' ') + "}";
  }

  void loop_head(const Op& op) {
    if (op.operands.size() < 3 || op.regions.size() != 1 || op.regions[0].args.size() != op.operands.size() - 2) {
      out_ += " ?";  // not a loop that verify() accepts
      return;
    }
    const std::vector<ValueId>& args = op.regions[0].args;
    out_ += " " + define(args[0]) + " = " + use(op.operands[0]) + " to " + use(op.operands[1]) + " step " +
            use(op.operands[2]);
    carry(args, 1, op.operands, 3);
  }

  void while_head(const Op& op) {
    if (op.regions.size() != 2 || op.regions[0].args.size() != op.operands.size()) {
      out_ += " ?";  // not a loop that verify() accepts
      return;
    }
    carry(op.regions[0].args, 0, op.operands, 0);
  }

  // The arguments from `arg` on, each with its first value.
  void carry(const std::vector<ValueId>& args, size_t arg, const std::vector<ValueId>& operands, size_t operand) {
    if (arg == args.size()) return;
    out_ += " carry (";
    for (size_t i = arg; i < args.size(); ++i) {
      out_ += (i > arg ? ", " : "") + define(args[i]) + " = " + use(operands[operand + i - arg]);
    }
    out_ += ")";
  }

  void print_attrs(const Op& op) {
    const auto& table = info(op.code).attrs;
    std::string out;
    for (size_t i = 0; i < op.attrs.size() && i < table.size(); ++i) {
      if (default_attr(table[i]) == op.attrs[i]) continue;
      out += (out.empty() ? "" : ", ") + table[i].name + " = " + attr_text(op, table[i], op.attrs[i]);
    }
    if (!out.empty()) out_ += " {" + out + "}";
  }

  // What a parser would read as a literal is printed as one; a constexpr may be named like one.
  std::string number_text(const Op& op, const Expr& expr) const {
    const ElementType* element = op.attrs.size() > 1 ? std::get_if<ElementType>(&op.attrs[1]) : nullptr;
    auto known = expr.as_constant();
    if (element && known && int_fits(*element, *known)) return literal_text(*element, bits_from_int(*element, *known));
    const std::string text = to_string(expr, names_);
    const bool alike = text == "inf" || text == "nan" || text == "-inf" || text == "-nan";
    return alike ? "(" + text + ")" : text;
  }

  std::string attr_text(const Op& op, const AttrInfo& expected, const Attr& attr) const {
    if (const int64_t* number = std::get_if<int64_t>(&attr)) {
      if (expected.kind != AttrKind::kEnum) return std::to_string(*number);
      const auto index = static_cast<uint64_t>(*number);
      return index < expected.values.size() ? expected.values[index] : "?";
    }
    if (const Expr* expr = std::get_if<Expr>(&attr))
      return expected.kind == AttrKind::kLiteral ? number_text(op, *expr) : to_string(*expr, names_);
    if (const auto* shape = std::get_if<std::vector<Expr>>(&attr)) return list(*shape);
    if (const ElementType* element = std::get_if<ElementType>(&attr)) return std::string(info(*element).name);
    if (const auto* text = std::get_if<std::string>(&attr)) return in_quotes(*text);
    // A literal is of the element type that the op's other attribute names.
    for (const Attr& other : op.attrs) {
      if (const ElementType* element = std::get_if<ElementType>(&other)) {
        return literal_text(*element, std::get<Literal>(attr).bits);
      }
    }
    return "?";
  }

  const Kernel& kernel_;
  std::vector<std::string> params_, constexprs_, value_names_;
  std::unordered_set<std::string> taken_values_;
  ExprNames names_;
  uint64_t next_number_ = 0;
  std::string out_;
};

}  // namespace

std::string print(const Kernel& kernel) { return Printer(kernel).run(); }

}  // namespace kiln::dsl
