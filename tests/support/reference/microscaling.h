// OCP Microscaling Formats (MX) 1.0: blocks of 32 elements along K share one e8m0 scale. An operand of dot_scaled is
// unpacked here to real numbers, and multiplied by dot().
#pragma once

#include <cstdint>

#include "reference/arrays.h"
#include "reference/formats.h"

namespace kiln::reference {

enum class Microscale : uint8_t { kE2M1, kE4M3, kE5M2 };

inline constexpr int64_t kMicroscaleBlock = 32;

// 2^(bits-127); 0xFF is NaN.
long double e8m0(uint8_t bits);
// 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, from the low four bits.
long double e2m1(uint8_t bits);
// Nearest even; saturates, NaN included: the format has none. A NaN gives the largest of its sign.
uint8_t to_e2m1(long double value);

// The values times their scales. Along `axis`, which is K: e2m1 values lie two to a byte, the first in the low nibble,
// so the result is twice as long; `scales` has ceil(K/32) elements. A NaN scale makes its whole block NaN, zeros too.
Array<long double> unpack_scaled(Microscale type, const Array<uint8_t>& values, const Array<uint8_t>& scales,
                                 size_t axis);

}  // namespace kiln::reference
