// Binary float formats, from their definitions: a sign bit, an exponent field with bias 2^(e-1)-1 and a mantissa field;
// exponent field 0 holds zero and the subnormals.
//   f16, f32, f64: IEEE 754-2019. bf16: f32 with 7 bits of mantissa.
//   f8e4m3, f8e5m2: OCP 8-bit Floating Point (OFP8) 1.0. E4M3 has no infinities and one NaN, S.1111.111; its largest
//   value is 448. E5M2 follows IEEE 754; its largest value is 57344.
//   e2m1, e8m0: OCP Microscaling Formats (MX) 1.0; see microscaling.h.
#pragma once

#include <vector>

#include "reference/dyadic.h"
#include "reference/types.h"

namespace kiln::reference {

struct Format {
  // What the largest exponent field means.
  enum class Specials : uint8_t {
    kIeee,     // infinity where the mantissa is 0, else NaN
    kNanOnly,  // NaN where the mantissa is all ones, else ordinary values
    kNone,     // ordinary values
  };

  int exponent_bits;
  int mantissa_bits;
  Specials specials;

  int width() const { return 1 + exponent_bits + mantissa_bits; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  // The smallest subnormal, and the spacing of the lowest two binades, is 2^least_unit.
  int least_unit() const { return 1 - bias() - mantissa_bits; }
  Bits sign_bit() const { return Bits{1} << (exponent_bits + mantissa_bits); }
  Bits infinity() const { return ((Bits{1} << exponent_bits) - 1) << mantissa_bits; }  // kIeee only
  Bits quiet_nan() const;                                                              // not kNone
  Bits largest() const;                                                                // finite
};

// What becomes of a magnitude that rounds above the largest finite value, and of infinity.
enum class Overflow : uint8_t {
  kDefault,   // infinity for f16, bf16, f32 and f64; the largest finite value for f8
  kSaturate,  // the largest finite value
  kSpecial,   // infinity, or NaN in a format without: what `saturate=false` asks for
};

Format format(Type type);

Dyadic decode(const Format& format, Bits bits);
// Rounds once, to nearest even. NaN becomes the quiet NaN of the same sign; a format without NaN takes none.
Bits encode(const Format& format, const Dyadic& value, Overflow overflow);
// Stochastic rounding: with ulp the spacing of the format in the binade of |x|, at least the smallest subnormal, the
// magnitude is floor(|x|/ulp + random·2^-32)·ulp, exactly. Overflow is judged afterwards, as for nearest.
Bits encode_stochastic(const Format& format, const Dyadic& value, uint32_t random, Overflow overflow);

// The same by element type.
Dyadic decode(Type type, Bits bits);
Bits encode(Type type, const Dyadic& value, Overflow overflow = Overflow::kDefault);
Bits encode_stochastic(Type type, const Dyadic& value, uint32_t random, Overflow overflow = Overflow::kDefault);
Bits from_real(Type type, long double value, Overflow overflow = Overflow::kDefault);
long double to_real(Type type, Bits bits);

bool is_nan(Type type, Bits bits);   // false for ints
bool is_zero(Type type, Bits bits);  // of either sign

}  // namespace kiln::reference
