#include "gpu/shared/shared_panels.h"

#include <algorithm>

#include "gpu/block/block_shape.h"
#include "gpu/layout/shared_layout.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int64_t kShortestLine = 32, kLongestLine = 128, kLines = 8;

}  // namespace

std::optional<SharedPanels> shared_panels_of(const dsl::Type& type, int fast) {
  if (type.rank() != 2 || type.pointer) return std::nullopt;
  const int bits = dsl::info(type.element).bits;
  if (bits < 8) return std::nullopt;
  const std::vector<int64_t> shape = padded_shape(type);
  const int64_t line = shape[static_cast<size_t>(fast)] * bits / 8, lines = shape[static_cast<size_t>(1 - fast)];
  if (line < kShortestLine || lines < kLines) return std::nullopt;
  SharedPanels out;
  out.fast = fast;
  out.swizzle_bytes = static_cast<int>(std::min(line, kLongestLine));
  out.memory = shared_panels(shape, bits, out.swizzle_bytes, {fast, 1 - fast}).elements;
  out.bytes = line * lines;
  return out;
}

}  // namespace kiln::codegen::gpu
