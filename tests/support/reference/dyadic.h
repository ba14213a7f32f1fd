// Exact numbers of the form ±m·2^e, with infinities and NaN: every value of every element type is one, so a conversion
// is "decode, round once, encode" and cannot round twice by accident.
#pragma once

#include "reference/types.h"

namespace kiln::reference {

// The widest float that the compiler has: products of two f64 are exact in 113 bits.
#ifdef __SIZEOF_FLOAT128__
using Quad = __float128;
#else
using Quad = long double;
#endif

struct Dyadic {
  enum class Kind : uint8_t { kFinite, kInfinite, kNan };

  Kind kind = Kind::kFinite;
  bool negative = false;
  UWide magnitude = 0;  // 0 for a zero, which has a sign too
  int exponent = 0;

  bool is_nan() const { return kind == Kind::kNan; }
  bool is_infinite() const { return kind == Kind::kInfinite; }
  bool is_finite() const { return kind == Kind::kFinite; }
  bool is_zero() const { return is_finite() && magnitude == 0; }
};

int bit_width(UWide value);  // 0 for 0

Dyadic dyadic(long double value);
Dyadic dyadic_of_quad(Quad value);
Dyadic dyadic_of_int(Wide value);

// Exact when the magnitude has at most 64 significant bits, as those of all element types have.
long double to_long_double(const Dyadic& value);

}  // namespace kiln::reference
