#include "gpu/dot/dot_fragments.h"

#include "gpu/layout/algebra.h"

namespace kiln::codegen::gpu {
namespace {

template <class List>
auto fragment(List& all, int64_t number, const Layout& layout) {
  const auto size = static_cast<size_t>(layout.size(Dim::kRegister));
  using Slice = std::conditional_t<std::is_const_v<List>, llvm::ArrayRef<Value*>, llvm::MutableArrayRef<Value*>>;
  return Slice(all).slice(static_cast<size_t>(number) * size, size);
}

}  // namespace

Result<Registers> fragment_accumulators(Context& ctx, ValueId id, const DotLayouts& layouts) {
  auto few = ctx.get(id, layouts.accumulator);
  if (!few) return few;
  const Deduplicated unique = without_copies_in_registers(layouts.fragments->accumulators);
  Registers out;
  for (Bits reg = 0; reg < static_cast<Bits>(layouts.fragments->accumulators.size(Dim::kRegister)); ++reg) {
    out.push_back((*few)[multiply(unique.kept, reg)]);
  }
  return out;
}

Registers without_copies(const Registers& accumulators, const DotLayouts& layouts) {
  const Deduplicated unique = without_copies_in_registers(layouts.fragments->accumulators);
  Registers out;
  for (Bits reg = 0; reg < static_cast<Bits>(layouts.accumulator.size(Dim::kRegister)); ++reg) {
    out.push_back(accumulators[multiply(unique.original, reg)]);
  }
  return out;
}

void multiply_fragments(Context& ctx, const DotFragments& all, const Registers& a, const Registers& b,
                        Registers& accumulators, int64_t batch, int64_t k) {
  const MatrixInstruction& instruction = all.instruction;
  for (int64_t m = 0; m < all.m; ++m) {
    for (int64_t n = 0; n < all.n; ++n) {
      const auto sum = fragment(accumulators, (batch * all.m + m) * all.n + n, instruction.accumulator);
      const std::vector<Value*> next =
          instruction.emit(ctx.ir, fragment(a, (batch * all.k + k) * all.m + m, instruction.a),
                           fragment(b, (batch * all.k + k) * all.n + n, instruction.b), sum);
      std::copy(next.begin(), next.end(), sum.begin());
    }
  }
}

void multiply_scaled_fragments(Context& ctx, const DotFragments& all, const Registers& a, const Registers& b,
                               const Registers& a_scales, const Registers& b_scales, Registers& accumulators,
                               int64_t k) {
  const ScaledInstruction& instruction = all.scaled->instruction;
  for (int64_t m = 0; m < all.m; ++m) {
    for (int64_t n = 0; n < all.n; ++n) {
      const int64_t of_a = k * all.m + m, of_b = k * all.n + n;
      const auto sum = fragment(accumulators, m * all.n + n, instruction.accumulator);
      const std::vector<Value*> next = instruction.emit(
          ctx.ir, fragment(a, of_a, instruction.a), fragment(b, of_b, instruction.b),
          fragment(a_scales, of_a, instruction.a_scales), fragment(b_scales, of_b, instruction.b_scales), sum);
      std::copy(next.begin(), next.end(), sum.begin());
    }
  }
}

}  // namespace kiln::codegen::gpu
