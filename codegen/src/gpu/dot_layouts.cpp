#include "gpu/dot_layouts.h"

#include <bit>

#include "gpu/coalesce.h"
#include "gpu/layout/algebra.h"
#include "passes/op_builder.h"

namespace kiln::codegen::gpu {
namespace {

int log2_of(int64_t x) { return std::countr_zero(static_cast<uint64_t>(x)); }

// How warps share the fragments of the result: as square as the tile allows, so that operands are read least often.
struct WarpGrid {
  int64_t m = 1, n = 1, idle = 1;
};
WarpGrid warp_grid(int64_t rows, int64_t columns, int64_t m_fragments, int64_t n_fragments, int64_t warps) {
  WarpGrid out;
  while (out.m * out.n < warps) {
    const bool m_left = out.m < m_fragments, n_left = out.n < n_fragments;
    if (!m_left && !n_left) break;
    if (m_left && (!n_left || rows / out.m >= columns / out.n)) {
      out.m *= 2;
    } else {
      out.n *= 2;
    }
  }
  out.idle = warps / (out.m * out.n);
  return out;
}

// Each thread a block of neighbours of the result.
Layout blocks_of_result(const std::vector<int64_t>& shape, const BlockShape& block) {
  AccessShape access;
  for (size_t i = shape.size(); i-- > 0;) access.order.push_back(static_cast<int>(i));
  access.vector = 4;
  return coalesced(shape, access, block);
}

}  // namespace

DotLayouts dot_layouts(const dsl::Kernel& kernel, const dsl::Op& dot, const TargetInfo& target,
                       const BlockShape& block) {
  const auto type = [&](size_t i) -> const dsl::Type& { return kernel.type(dot.operands[i]); };
  const std::vector<int64_t> a = padded_shape(type(0)), sum = padded_shape(type(2));
  DotLayouts out;
  const auto instruction = target.matrix_instruction(type(0).element, type(1).element, type(2).element,
                                                     static_cast<dsl::Precision>(int_attr(dot, 0)));
  const bool fits = instruction && sum.size() == 2 && sum[0] >= instruction->accumulator.shape()[0] &&
                    sum[1] >= instruction->accumulator.shape()[1] && a[1] >= instruction->a.shape()[1];
  if (!fits) {
    out.accumulator = blocks_of_result(sum, block);
    return out;
  }
  const std::vector<int64_t> tile = instruction->accumulator.shape();
  const int64_t m = sum[0] / tile[0], n = sum[1] / tile[1], k = a[1] / instruction->a.shape()[1];
  const WarpGrid warps = warp_grid(sum[0], sum[1], m, n, block.warps);
  out.m_fragments = m / warps.m;
  out.n_fragments = n / warps.n;
  out.k_fragments = k;
  const auto bits = [](int64_t x) { return log2_of(x); };
  // Registers count n fastest, then m, then k; warps n fastest.
  const Layout rest = from_steps({m, n}, {{Dim::kRegister, 1, bits(out.n_fragments)},
                                          {Dim::kRegister, 0, bits(out.m_fragments)},
                                          {Dim::kWarp, 1, bits(warps.n)},
                                          {Dim::kWarp, 0, bits(warps.m)},
                                          {Dim::kWarp, kNoAxis, bits(warps.idle)}});
  const Layout a_rest = from_steps({m, k}, {{Dim::kRegister, 0, bits(out.m_fragments)},
                                            {Dim::kRegister, 1, bits(k)},
                                            {Dim::kWarp, kNoAxis, bits(warps.n)},
                                            {Dim::kWarp, 0, bits(warps.m)},
                                            {Dim::kWarp, kNoAxis, bits(warps.idle)}});
  const Layout b_rest = from_steps({k, n}, {{Dim::kRegister, 1, bits(out.n_fragments)},
                                            {Dim::kRegister, 0, bits(k)},
                                            {Dim::kWarp, 1, bits(warps.n)},
                                            {Dim::kWarp, kNoAxis, bits(warps.m)},
                                            {Dim::kWarp, kNoAxis, bits(warps.idle)}});
  out.instruction = instruction;
  out.accumulator = product(instruction->accumulator, rest);
  out.a = product(instruction->a, a_rest);
  out.b = product(instruction->b, b_rest);
  return out;
}

}  // namespace kiln::codegen::gpu
