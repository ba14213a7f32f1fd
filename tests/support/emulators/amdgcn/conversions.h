// Conversions that vector and scalar instructions share.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "small_floats.h"

namespace kiln::amdgcn_emulator {

// Towards zero; what is too large becomes the largest number, and NaN zero.
template <class I, class V>
I to_integer(V value) {
  if (std::isnan(value)) return 0;
  constexpr auto low = static_cast<double>(std::numeric_limits<I>::min());
  constexpr auto high = static_cast<double>(std::numeric_limits<I>::max());
  double whole = std::trunc(static_cast<double>(value));
  return whole <= low    ? std::numeric_limits<I>::min()
         : whole >= high ? std::numeric_limits<I>::max()
                         : static_cast<I>(whole);
}

// [-1, 1] (or [0, 1]) to the whole range of I, to nearest.
template <class I>
I to_normalised(double value) {
  if (std::isnan(value)) return 0;
  constexpr double low = std::numeric_limits<I>::is_signed ? -1 : 0;
  double clamped = value < low ? low : value > 1 ? 1 : value;
  return static_cast<I>(std::nearbyint(clamped * std::numeric_limits<I>::max()));
}

inline uint32_t pack(uint32_t low, uint32_t high) { return (low & 0xffff) | high << 16; }

inline uint32_t pack_truncated(float a, float b) {
  return pack(encode_small(a, kHalf, Rounding::kTowardZero), encode_small(b, kHalf, Rounding::kTowardZero));
}

}  // namespace kiln::amdgcn_emulator
