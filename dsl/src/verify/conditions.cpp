#include "kiln/dsl/conditions.h"

#include <set>

namespace kiln::dsl {
namespace {

// What an expression mentions: constexprs, then parameters, in their order.
using Names = std::set<std::pair<AtomKind, uint32_t>>;

void collect_names(const Expr& expr, Names& out) {
  for (const Term& term : expr.terms()) {
    for (const Atom& atom : term.atoms) {
      if (atom.args) {
        collect_names(atom.args->first, out);
        collect_names(atom.args->second, out);
      } else {
        out.emplace(atom.kind, atom.index);
      }
    }
  }
}

// " (cols=2000, BLOCK=1024)", or nothing where the expression mentions nothing.
std::string values_text(const Kernel& kernel, const Expr& expr, const Bindings& bindings) {
  Names names;
  collect_names(expr, names);
  std::string params, constexprs;
  for (const auto& [kind, index] : names) {
    const bool is_param = kind == AtomKind::kParam;
    const auto& values = is_param ? bindings.params : bindings.constexprs;
    if (index >= values.size() || !values[index]) continue;
    (is_param ? params : constexprs) += ", " + (is_param ? kernel.params[index].name : kernel.constexprs[index].name) +
                                        "=" + std::to_string(*values[index]);
  }
  const std::string all = params + constexprs;
  return all.empty() ? all : " (" + all.substr(2) + ")";
}

}  // namespace

std::string unmet_text(const Kernel& kernel, const Condition& condition, const Bindings& bindings) {
  // Of an instance, which has the sentence already.
  if (condition.expr.as_constant() && !condition.message.empty()) return condition.message;
  return to_string(condition.expr, kernel.expr_names()) + " is false" + values_text(kernel, condition.expr, bindings) +
         (condition.message.empty() ? "" : ": " + condition.message);
}

void bind_ints(const Kernel& kernel, std::span<const Argument> arguments, std::vector<std::optional<int64_t>>& params) {
  params.assign(kernel.params.size(), std::nullopt);
  for (size_t i = 0; i < params.size() && i < arguments.size(); ++i) {
    const Type& type = kernel.params[i].type;
    if (type.pointer || is_float(type.element)) continue;
    const ElementTypeInfo& element = info(type.element);
    const int shift = 64 - element.bits;
    const uint64_t high = arguments[i].bits << shift;
    params[i] = element.is_signed ? static_cast<int64_t>(high) >> shift : static_cast<int64_t>(high >> shift);
  }
}

Result<void> check_conditions(const Kernel& kernel, const Bindings& bindings) {
  for (const Condition& condition : kernel.constraints) {
    const auto holds = condition.expr.evaluate(bindings);
    if (!holds) {
      return invalid_argument("kernel `" + kernel.name + "`: " + to_string(condition.expr, kernel.expr_names()) + ": " +
                              holds.error().message);
    }
    if (*holds == 0)
      return invalid_argument("kernel `" + kernel.name + "`: " + unmet_text(kernel, condition, bindings));
  }
  return {};
}

}  // namespace kiln::dsl
