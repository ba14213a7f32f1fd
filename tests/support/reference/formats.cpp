#include "reference/formats.h"

#include <algorithm>

namespace kiln::reference {
namespace {

// A magnitude cut to a whole number of units 2^unit: magnitude·2^exponent = (quotient + remainder/2^shift)·2^unit.
struct Cut {
  int unit, shift;
  UWide quotient, remainder;
};

Cut cut(const Format& format, const Dyadic& value) {
  const int binade = bit_width(value.magnitude) - 1 + value.exponent;  // floor(log2 |value|)
  const int unit = std::max(binade - format.mantissa_bits, format.least_unit());
  const int shift = unit - value.exponent;
  if (shift <= 0) return {unit, 0, value.magnitude << -shift, 0};
  if (shift >= 128) return {unit, shift, 0, value.magnitude};
  const UWide quotient = value.magnitude >> shift;
  return {unit, shift, quotient, value.magnitude - (quotient << shift)};
}

bool nearest_rounds_up(const Cut& c) {
  // The remainder against 2^(shift-1): by its width first, since 2^(shift-1) may not fit.
  if (c.remainder == 0 || bit_width(c.remainder) < c.shift) return false;
  const bool tie = c.remainder == UWide{1} << (c.shift - 1);
  return !tie || (c.quotient & 1) != 0;
}

bool stochastic_rounds_up(const Cut& c, uint32_t random) {
  // remainder/2^shift + random/2^32 >= 1, in whole numbers of 2^-32; what is below them cannot reach the whole number
  // that is missing.
  UWide part = 0;
  if (c.shift <= 32) {
    part = c.remainder << (32 - c.shift);
  } else if (c.shift - 32 < 128) {
    part = c.remainder >> (c.shift - 32);
  }
  return part + random >= UWide{1} << 32;
}

template <class RoundsUp>
Bits encode_with(const Format& format, const Dyadic& value, Overflow overflow, RoundsUp rounds_up) {
  const Bits sign = value.negative ? format.sign_bit() : 0;
  if (value.is_nan()) return sign | format.quiet_nan();
  if (value.is_zero()) return sign;
  const Bits above = overflow == Overflow::kSaturate              ? format.largest()
                     : format.specials == Format::Specials::kIeee ? format.infinity()
                                                                  : format.quiet_nan();
  if (value.is_infinite()) return sign | above;
  const Cut c = cut(format, value);
  const UWide units = c.quotient + (rounds_up(c) ? 1 : 0);
  // Codes of positive values are consecutive: a carry out of the mantissa steps into the next binade, and the leading
  // bit of a normal value adds the 1 that tells its exponent field from the subnormals'.
  const UWide code = (static_cast<UWide>(c.unit - format.least_unit()) << format.mantissa_bits) + units;
  return sign | (code > format.largest() ? above : static_cast<Bits>(code));
}

Overflow resolved(Type type, Overflow overflow) {
  if (overflow != Overflow::kDefault) return overflow;
  return width(type) == 8 ? Overflow::kSaturate : Overflow::kSpecial;
}

}  // namespace

Bits Format::quiet_nan() const {
  if (specials == Specials::kNanOnly) return sign_bit() - 1;
  return infinity() | Bits{1} << (mantissa_bits - 1);
}

Bits Format::largest() const {
  switch (specials) {
    case Specials::kIeee:
      return infinity() - 1;
    case Specials::kNanOnly:
      return sign_bit() - 2;
    case Specials::kNone:
      break;
  }
  return sign_bit() - 1;
}

Format format(Type type) {
  switch (type) {
    case Type::kF16:
      return {5, 10, Format::Specials::kIeee};
    case Type::kBF16:
      return {8, 7, Format::Specials::kIeee};
    case Type::kF32:
      return {8, 23, Format::Specials::kIeee};
    case Type::kF8E4M3:
      return {4, 3, Format::Specials::kNanOnly};
    case Type::kF8E5M2:
      return {5, 2, Format::Specials::kIeee};
    default:
      return {11, 52, Format::Specials::kIeee};
  }
}

Dyadic decode(const Format& format, Bits bits) {
  const Bits code = bits & (format.sign_bit() - 1);
  Dyadic out;
  out.negative = (bits & format.sign_bit()) != 0;
  if (format.specials == Format::Specials::kIeee && code >= format.infinity()) {
    out.kind = code == format.infinity() ? Dyadic::Kind::kInfinite : Dyadic::Kind::kNan;
    return out;
  }
  if (format.specials == Format::Specials::kNanOnly && code == format.quiet_nan()) {
    out.kind = Dyadic::Kind::kNan;
    return out;
  }
  const Bits mantissa = code & ((Bits{1} << format.mantissa_bits) - 1);
  const int field = static_cast<int>(code >> format.mantissa_bits);
  out.magnitude = field == 0 ? mantissa : mantissa | Bits{1} << format.mantissa_bits;
  out.exponent = format.least_unit() + std::max(field - 1, 0);
  return out;
}

Bits encode(const Format& format, const Dyadic& value, Overflow overflow) {
  return encode_with(format, value, overflow, nearest_rounds_up);
}

Bits encode_stochastic(const Format& format, const Dyadic& value, uint32_t random, Overflow overflow) {
  return encode_with(format, value, overflow, [&](const Cut& c) { return stochastic_rounds_up(c, random); });
}

Dyadic decode(Type type, Bits bits) { return decode(format(type), bits); }

Bits encode(Type type, const Dyadic& value, Overflow overflow) {
  return encode(format(type), value, resolved(type, overflow));
}

Bits encode_stochastic(Type type, const Dyadic& value, uint32_t random, Overflow overflow) {
  return encode_stochastic(format(type), value, random, resolved(type, overflow));
}

Bits from_real(Type type, long double value, Overflow overflow) { return encode(type, dyadic(value), overflow); }

long double to_real(Type type, Bits bits) { return to_long_double(decode(type, bits)); }

bool is_nan(Type type, Bits bits) { return is_float(type) && decode(type, bits).is_nan(); }

bool is_zero(Type type, Bits bits) { return is_float(type) ? decode(type, bits).is_zero() : bits == 0; }

}  // namespace kiln::reference
