// Which sizes a launch's config is chosen for together: those of one class.
#pragma once

#include <bit>
#include <cstdint>

namespace kiln::dsl {

// A number each for 0 to 4; above them two for each power of two: (2ⁿ, 3·2ⁿ⁻¹], (3·2ⁿ⁻¹, 2ⁿ⁺¹]. Two sizes of a class
// differ by less than a half, and what fits a power of two does so for all of its class.
constexpr uint64_t size_class(uint64_t size) {
  if (size <= 4) return size;
  const auto width = static_cast<uint64_t>(std::bit_width(size - 1));  // 2^(width-1) < size ≤ 2^width
  const bool upper = size > uint64_t{3} << (width - 2);
  return 2 * width + (upper ? 1 : 0);
}

}  // namespace kiln::dsl
