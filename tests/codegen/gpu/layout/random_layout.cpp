#include "random_layout.h"

#include <algorithm>

namespace kiln::codegen::gpu {

Columns random_invertible(Random& random, int bits) {
  Columns out;
  Span span;
  while (span.rank() < bits) {
    const Bits column = random() & ((Bits{1} << bits) - 1);
    if (span.contains(column)) continue;
    span.insert(column);
    out.push_back(column);
  }
  return out;
}

std::vector<int64_t> random_shape(Random& random, int element_bits) {
  std::vector<int64_t> out(static_cast<size_t>(pick(random, 1, 4)), 1);
  for (int i = 0; i < element_bits; ++i)
    out[static_cast<size_t>(pick(random, 0, static_cast<int>(out.size()) - 1))] *= 2;
  return out;
}

Layout random_layout(Random& random, const std::vector<int64_t>& shape, const LayoutOptions& options) {
  Layout out(shape);
  const int element_bits = out.element_bits();
  const int thread_bits = options.lane_bits + options.warp_bits + options.block_bits;
  const int register_bits = std::max(0, element_bits - thread_bits) + options.free_bits;
  Columns elements = unit_vectors(element_bits);
  if (options.swizzled) elements = random_invertible(random, element_bits);
  // What is beyond the tile stands for nothing, or, where the layout is swizzled, for elements that others hold too.
  while (static_cast<int>(elements.size()) < thread_bits + register_bits) {
    const bool copy = options.swizzled && element_bits > 0 && pick(random, 0, 1) == 0;
    elements.push_back(copy ? random() & ((Bits{1} << element_bits) - 1) : 0);
  }
  std::ranges::shuffle(elements, random);
  auto next = elements.begin();
  const auto hand_out = [&](Dim dim, int bits) {
    for (int i = 0; i < bits; ++i) out.add(dim, *next++);
  };
  hand_out(Dim::kRegister, register_bits);
  hand_out(Dim::kLane, options.lane_bits);
  hand_out(Dim::kWarp, options.warp_bits);
  hand_out(Dim::kBlock, options.block_bits);
  return out;
}

}  // namespace kiln::codegen::gpu
