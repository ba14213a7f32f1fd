#include "reference/microscaling.h"

#include <cmath>
#include <limits>

namespace kiln::reference {
namespace {

constexpr Format kE2M1Format{2, 1, Format::Specials::kNone};

}  // namespace

long double e8m0(uint8_t bits) {
  return bits == 0xff ? std::numeric_limits<long double>::quiet_NaN() : std::ldexp(1.0L, bits - 127);
}

long double e2m1(uint8_t bits) { return to_long_double(decode(kE2M1Format, bits & 0xf)); }

uint8_t to_e2m1(long double value) {
  if (std::isnan(value)) return static_cast<uint8_t>(std::signbit(value) ? 0xf : 0x7);
  return static_cast<uint8_t>(encode(kE2M1Format, dyadic(value), Overflow::kSaturate));
}

Array<long double> unpack_scaled(Microscale type, const Array<uint8_t>& values, const Array<uint8_t>& scales,
                                 size_t axis) {
  const bool packed = type == Microscale::kE2M1;
  const Shape shape = with_extent(values.shape, axis, values.shape[axis] * (packed ? 2 : 1));
  return generate<long double>(shape, [&](const Shape& index) {
    Shape value_index = index, scale_index = index;
    value_index[axis] /= packed ? 2 : 1;
    scale_index[axis] /= kMicroscaleBlock;
    const uint8_t byte = values.at(value_index);
    const long double value = packed ? e2m1(index[axis] % 2 == 0 ? byte : byte >> 4)
                                     : to_real(type == Microscale::kE4M3 ? Type::kF8E4M3 : Type::kF8E5M2, byte);
    return value * e8m0(scales.at(scale_index));
  });
}

}  // namespace kiln::reference
