#include "reference/dyadic.h"

#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

namespace kiln::reference {

int bit_width(UWide value) {
  const auto high = static_cast<uint64_t>(value >> 64);
  return high != 0 ? 64 + std::bit_width(high) : std::bit_width(static_cast<uint64_t>(value));
}

Dyadic dyadic(long double value) {
  Dyadic out;
  out.negative = std::signbit(value);
  if (std::isnan(value)) {
    out.kind = Dyadic::Kind::kNan;
  } else if (std::isinf(value)) {
    out.kind = Dyadic::Kind::kInfinite;
  } else if (value != 0) {
    int exponent = 0;
    const long double fraction = std::frexp(std::fabs(value), &exponent);
    out.magnitude = static_cast<UWide>(std::ldexp(fraction, LDBL_MANT_DIG));
    out.exponent = exponent - LDBL_MANT_DIG;
  }
  return out;
}

Dyadic dyadic_of_quad(Quad value) {
#ifdef __SIZEOF_FLOAT128__
  // IEEE 754 binary128: 15 bits of exponent with bias 16383, 112 of mantissa.
  const auto bits = std::bit_cast<UWide>(value);
  const UWide mantissa = bits & ((UWide{1} << 112) - 1);
  const int field = static_cast<int>(bits >> 112) & 0x7fff;
  Dyadic out;
  out.negative = (bits >> 127) != 0;
  if (field == 0x7fff) {
    out.kind = mantissa != 0 ? Dyadic::Kind::kNan : Dyadic::Kind::kInfinite;
  } else {
    out.magnitude = field == 0 ? mantissa : mantissa | UWide{1} << 112;
    out.exponent = (field == 0 ? 1 : field) - 16383 - 112;
  }
  return out;
#else
  return dyadic(value);
#endif
}

Dyadic dyadic_of_int(Wide value) {
  Dyadic out;
  out.negative = value < 0;
  out.magnitude = out.negative ? -static_cast<UWide>(value) : static_cast<UWide>(value);
  return out;
}

long double to_long_double(const Dyadic& value) {
  long double out = 0;
  if (value.is_nan()) {
    out = std::numeric_limits<long double>::quiet_NaN();
  } else if (value.is_infinite()) {
    out = std::numeric_limits<long double>::infinity();
  } else {
    out = std::ldexp(static_cast<long double>(value.magnitude), value.exponent);
  }
  return std::copysign(out, value.negative ? -1.0L : 1.0L);
}

}  // namespace kiln::reference
