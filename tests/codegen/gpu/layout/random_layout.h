// Random layouts, from a seed.
#pragma once

#include <random>

#include "gpu/layout/layout.h"

namespace kiln::codegen::gpu {

using Random = std::mt19937_64;
inline int pick(Random& random, int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); }

// A matrix with an inverse.
Columns random_invertible(Random& random, int bits);
std::vector<int64_t> random_shape(Random& random, int element_bits);

struct LayoutOptions {
  int lane_bits = 5, warp_bits = 2, block_bits = 0;
  int free_bits = 0;      // beyond those that the tile needs: copies somewhere
  bool swizzled = false;  // elements are mixed by a random matrix
};
// Each element of the tile is somewhere.
Layout random_layout(Random& random, const std::vector<int64_t>& shape, const LayoutOptions& options);

}  // namespace kiln::codegen::gpu
