// Tiles in shared memory: which element lies at each offset, as a layout from Dim::kOffset, with padding beside it.
//
// Shared memory is made of banks of four bytes; threads that want different words of one bank wait for each other. So
// elements that are wanted at once are moved apart: by xor with bits of the row (swizzled), or by gaps (padded).
#pragma once

#include "gpu/layout/layout.h"

namespace kiln::codegen::gpu {

struct SharedLayout {
  Layout elements;           // from offsets without padding; has an inverse
  int64_t pad_every = 0;     // after each so many elements there is a gap; 0: none
  int64_t pad_elements = 0;  // of so many elements

  // The offset in elements, padding included, and the size of the tile.
  int64_t offset_of(Bits element) const;
  int64_t size() const { return padded(elements.size(Dim::kOffset) - 1) + 1; }
  int64_t padded(int64_t offset) const;
};

// Elements one after another, order[0] being the axis that runs fastest.
SharedLayout shared_linear(const std::vector<int64_t>& shape, const std::vector<int>& order);
SharedLayout shared_padded(const std::vector<int64_t>& shape, const std::vector<int>& order, int64_t pad_every,
                           int64_t pad_elements);
// Groups of `vector` elements along order[0] stay together; group g of line r is at place g ^ (r / per_phase % phases)
// of its line, lines following order[1], then order[2]…, modulo the groups of a line.
SharedLayout shared_swizzled(const std::vector<int64_t>& shape, int64_t vector, int64_t per_phase, int64_t phases,
                             const std::vector<int>& order);

// As TMA and wgmma have it (NVIDIA's "Swizzling modes"): lines of swizzle_bytes (128, 64, 32), their groups of 16
// bytes moved by xor with bits 7-9 of the address (128 bytes; 64: bits 7-8; 32: bit 7). A tile with wider lines is
// panels of such lines, one after another. order[0] is the axis that runs fastest.
SharedLayout shared_panels(const std::vector<int64_t>& shape, int element_bits, int swizzle_bytes,
                           const std::vector<int>& order);

}  // namespace kiln::codegen::gpu
