#include "array_sizes.h"

#include <algorithm>

namespace kiln::planner {
namespace {

// The load that a step is, or a cast of one.
const Step* load_behind(const Nest& nest, StepId id) {
  const Step* step = &nest.steps[id];
  while (step->kind == Step::Kind::kCompute && step->op == TensorOp::kCast) step = &nest.steps[step->operands[0]];
  return step->kind == Step::Kind::kLoad ? step : nullptr;
}

void add_unknown(const Nest& nest, StepId id, Indices& out) {
  const Step& step = nest.steps[id];
  if (step.kind == Step::Kind::kLoad) out[step.tensor] = std::nullopt;
  for (const StepId operand : step.operands) add_unknown(nest, operand, out);
}

// As an expression over the kernel's parameters; nothing where it mentions another dim.
std::optional<Expr> over_params(const Expr& expr, const WrittenKernel& written) {
  bool is_known = true;
  const Expr out = replaced(expr, [&](const dsl::Atom& atom) -> std::optional<Expr> {
    for (size_t i = 0; i < written.arguments.size(); ++i) {
      const KernelArgument& argument = written.arguments[i];
      const bool is_it = !argument.is_tensor && !argument.scalar && argument.dim == atom.index;
      if (is_it) return Expr::param_ref(static_cast<uint32_t>(i));
    }
    is_known = false;
    return std::nullopt;
  });
  return is_known ? std::optional(out) : std::nullopt;
}

// Without a quotient where there need be none.
Expr divided(const Expr& bytes, int64_t size) {
  const auto& terms = bytes.terms();
  if (!std::ranges::all_of(terms, [&](const dsl::Term& term) { return term.coefficient % size == 0; })) {
    return Expr::apply(dsl::AtomKind::kDiv, bytes, Expr(size));
  }
  Expr out;
  for (dsl::Term term : terms) {
    term.coefficient /= size;
    out = out + of_term(term);
  }
  return out;
}

std::optional<dsl::ArrayInfo> array_of(const WrittenKernel& written, ValueId tensor, const dsl::Param& param,
                                       const Expr& bytes) {
  const dsl::ElementType element = param.type.element;
  const auto elements = over_params(divided(bytes, std::max(1, dsl::info(element).bits / 8)), written);
  if (!elements) return std::nullopt;
  dsl::ArrayInfo out{param.name, *elements, std::nullopt};
  if (!written.indices) return dsl::is_float(element) ? std::optional(out) : std::nullopt;
  const auto places = written.indices->find(tensor);
  if (places == written.indices->end()) return out;
  const auto extent = places->second ? over_params(*places->second, written) : std::nullopt;
  if (!extent) return std::nullopt;
  out.range = std::pair(Expr(), *extent);
  return out;
}

}  // namespace

Indices indices_of(const Nest& nest) {
  Indices out;
  for (const Step& step : nest.steps) {
    if (step.kind != Step::Kind::kPlace) continue;
    const Step* load = load_behind(nest, step.operands[0]);
    if (load == nullptr) {
      add_unknown(nest, step.operands[0], out);
      continue;
    }
    const auto [known, is_new] = out.try_emplace(load->tensor, step.offset);
    if (!is_new && known->second && *known->second != step.offset) {
      known->second = Expr::apply(dsl::AtomKind::kMin, *known->second, step.offset);
    }
  }
  return out;
}

void state_arrays(const WrittenKernel& written, const std::function<Expr(ValueId)>& bytes, dsl::Kernel& kernel) {
  for (size_t i = 0; i < written.arguments.size(); ++i) {
    if (!written.arguments[i].is_tensor) continue;
    const dsl::Param& param = kernel.params[i];
    const auto known = std::ranges::find(kernel.arrays, param.name, &dsl::ArrayInfo::param);
    if (known != kernel.arrays.end() && known->stated) continue;
    if (known != kernel.arrays.end()) kernel.arrays.erase(known);
    const ValueId tensor = written.arguments[i].tensor;
    if (auto array = array_of(written, tensor, param, bytes(tensor))) kernel.arrays.push_back(std::move(*array));
  }
}

dsl::SpaceAxis axis_around(const std::string& name, int64_t block) {
  dsl::SpaceAxis out{name, {}};
  for (const int64_t divisor : {4, 2}) {
    if (block % divisor == 0) out.values.push_back(block / divisor);
  }
  for (const int64_t factor : {1, 2, 4}) out.values.push_back(block * factor);
  return out;
}

}  // namespace kiln::planner
