#include "gpu/dot_layouts.h"

#include <bit>

#include "gpu/coalesce.h"
#include "gpu/layout/algebra.h"
#include "gpu/shared_panels.h"
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

struct Extents {
  int64_t m, n, k;
};

int bits_of(int64_t x) { return log2_of(x); }

// Registers count n fastest, then m; warps n fastest. Of fragments, `idle` warps having copies.
Layout accumulator_rest(int64_t m, int64_t n, const WarpGrid& warps) {
  return from_steps({m, n}, {{Dim::kRegister, 1, bits_of(n / warps.n)},
                             {Dim::kRegister, 0, bits_of(m / warps.m)},
                             {Dim::kWarp, 1, bits_of(warps.n)},
                             {Dim::kWarp, 0, bits_of(warps.m)},
                             {Dim::kWarp, kNoAxis, bits_of(warps.idle)}});
}

std::optional<DotLayouts> by_instruction(const MatrixInstruction& instruction, const Extents& dot, int warp_count) {
  const std::vector<int64_t> tile = instruction.accumulator.shape();
  if (dot.m < tile[0] || dot.n < tile[1] || dot.k < instruction.a.shape()[1]) return std::nullopt;
  const int64_t m = dot.m / tile[0], n = dot.n / tile[1], k = dot.k / instruction.a.shape()[1];
  const WarpGrid warps = warp_grid(dot.m, dot.n, m, n, warp_count);
  DotLayouts out;
  out.m_fragments = m / warps.m;
  out.n_fragments = n / warps.n;
  out.k_fragments = k;
  const Layout a_rest = from_steps({m, k}, {{Dim::kRegister, 0, bits_of(out.m_fragments)},
                                            {Dim::kRegister, 1, bits_of(k)},
                                            {Dim::kWarp, kNoAxis, bits_of(warps.n)},
                                            {Dim::kWarp, 0, bits_of(warps.m)},
                                            {Dim::kWarp, kNoAxis, bits_of(warps.idle)}});
  const Layout b_rest = from_steps({k, n}, {{Dim::kRegister, 1, bits_of(out.n_fragments)},
                                            {Dim::kRegister, 0, bits_of(k)},
                                            {Dim::kWarp, 1, bits_of(warps.n)},
                                            {Dim::kWarp, kNoAxis, bits_of(warps.m)},
                                            {Dim::kWarp, kNoAxis, bits_of(warps.idle)}});
  out.instruction = instruction;
  out.accumulator = product(instruction.accumulator, accumulator_rest(m, n, warps));
  out.a = product(instruction.a, a_rest);
  out.b = product(instruction.b, b_rest);
  return out;
}

// Groups of warps take rows of the result first, so that what a row needs stays in a group.
std::optional<DotLayouts> by_group(const GroupInstruction& group, const Extents& dot, int warp_count) {
  constexpr int64_t kLeastColumns = 8;
  if (warp_count % group.warps != 0 || dot.m < group.rows || dot.k < group.k || dot.n < kLeastColumns) {
    return std::nullopt;
  }
  WarpGrid groups;
  const int64_t count = warp_count / group.warps, m = dot.m / group.rows;
  groups.m = std::min(count, m);
  groups.n = std::min(count / groups.m, dot.n / kLeastColumns);
  groups.idle = count / (groups.m * groups.n);
  DotLayouts out;
  out.columns = static_cast<int>(std::min<int64_t>(group.max_columns, dot.n / groups.n));
  const int64_t n = dot.n / out.columns;
  out.m_fragments = m / groups.m;
  out.n_fragments = n / groups.n;
  out.k_fragments = dot.k / group.k;
  const Layout a_rest = from_steps({m, out.k_fragments}, {{Dim::kRegister, 1, bits_of(out.k_fragments)},
                                                          {Dim::kRegister, 0, bits_of(out.m_fragments)},
                                                          {Dim::kWarp, kNoAxis, bits_of(groups.n)},
                                                          {Dim::kWarp, 0, bits_of(groups.m)},
                                                          {Dim::kWarp, kNoAxis, bits_of(groups.idle)}});
  out.group = group;
  out.accumulator = product(group.accumulator(out.columns), accumulator_rest(m, n, groups));
  out.a = product(group.a, a_rest);
  return out;
}

// Whether an operand's elements can lie in shared memory as a group of warps wants them.
bool fits_panels(const dsl::Type& a, const dsl::Type& b) {
  return (shared_panels_of(a, 0) || shared_panels_of(a, 1)) && (shared_panels_of(b, 0) || shared_panels_of(b, 1));
}

}  // namespace

DotLayouts dot_layouts(const dsl::Kernel& kernel, const dsl::Op& dot, const TargetInfo& target,
                       const BlockShape& block) {
  const auto type = [&](size_t i) -> const dsl::Type& { return kernel.type(dot.operands[i]); };
  const std::vector<int64_t> a = padded_shape(type(0)), sum = padded_shape(type(2));
  const auto precision = static_cast<dsl::Precision>(int_attr(dot, 0));
  if (sum.size() == 2) {
    const Extents extents{sum[0], sum[1], a[1]};
    const auto group = target.group_instruction(type(0).element, type(1).element, type(2).element, precision);
    if (group && fits_panels(type(0), type(1))) {
      if (auto layouts = by_group(*group, extents, block.warps)) return *layouts;
    }
    const auto instruction = target.matrix_instruction(type(0).element, type(1).element, type(2).element, precision);
    if (instruction) {
      if (auto layouts = by_instruction(*instruction, extents, block.warps)) return *layouts;
    }
  }
  DotLayouts out;
  out.accumulator = blocks_of_result(sum, block);
  return out;
}

}  // namespace kiln::codegen::gpu
