#include "gpu/block/block_shape.h"

#include <bit>

#include "gpu/layout/algebra.h"

namespace kiln::codegen::gpu {

std::vector<int64_t> padded_shape(const dsl::Type& type) {
  std::vector<int64_t> out;
  for (int64_t extent : dsl::concrete_shape(type)) {
    out.push_back(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent))));
  }
  return out;
}

Layout replicated(const std::vector<int64_t>& shape, const BlockShape& block) {
  Layout out(shape);
  out.add(Dim::kRegister, unit_vectors(out.element_bits()));
  for (int n = 1; n < block.lanes; n *= 2) out.add(Dim::kLane, 0);
  for (int n = 1; n < block.warps; n *= 2) out.add(Dim::kWarp, 0);
  return out;
}

}  // namespace kiln::codegen::gpu
