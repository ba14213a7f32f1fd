// Numbers of 16 and 8 bits; see small_floats.h.
#include "small_floats.h"

#include <algorithm>
#include <array>
#include <limits>

namespace kiln::amdgcn_emulator {
namespace {

uint32_t largest_exponent(const SmallFormat& format) { return (1u << format.exponent_bits) - 1; }

uint32_t nan_of(const SmallFormat& format) {
  if (format.unsigned_zero) return 1u << (format.exponent_bits + format.mantissa_bits);
  uint32_t exponent = largest_exponent(format) << format.mantissa_bits;
  if (format.infinity) return exponent | 1u << (format.mantissa_bits - 1);
  return exponent | ((1u << format.mantissa_bits) - 1);
}

uint32_t largest_finite(const SmallFormat& format) {
  uint32_t all = (1u << (format.exponent_bits + format.mantissa_bits)) - 1;
  if (format.unsigned_zero) return all;
  return format.infinity ? all - (1u << format.mantissa_bits) : all - 1;
}

// Whether a magnitude with `rest` (0: exact, 1: below one half, 2: one half, 3: above) is rounded away from zero.
bool rounds_away(bool odd, bool negative, unsigned rest, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearestEven:
      return rest == 3 || (rest == 2 && odd);
    case Rounding::kUp:
      return rest != 0 && !negative;
    case Rounding::kDown:
      return rest != 0 && negative;
    case Rounding::kTowardZero:
      return false;
  }
  return false;
}

}  // namespace

double decode_small(uint32_t bits, const SmallFormat& format) {
  uint32_t sign_bit = 1u << (format.exponent_bits + format.mantissa_bits);
  if (format.unsigned_zero && (bits & (2 * sign_bit - 1)) == sign_bit) return std::numeric_limits<double>::quiet_NaN();
  double sign = bits & sign_bit ? -1 : 1;
  uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  uint32_t exponent = bits >> format.mantissa_bits & largest_exponent(format);
  if (!format.unsigned_zero && exponent == largest_exponent(format)) {
    if (format.infinity)
      return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
    if (mantissa == (1u << format.mantissa_bits) - 1) return std::numeric_limits<double>::quiet_NaN();
  }
  int scale = 1 - format.bias - format.mantissa_bits;
  if (exponent == 0) return sign * std::ldexp(mantissa, scale);
  return sign * std::ldexp(mantissa | 1u << format.mantissa_bits, static_cast<int>(exponent) - 1 + scale);
}

float decode_byte(uint32_t bits, const SmallFormat& format) {
  using Values = std::array<float, 256>;
  auto values_of = [](const SmallFormat& of) {
    Values values;
    for (uint32_t byte = 0; byte < 256; ++byte) values[byte] = static_cast<float>(decode_small(byte, of));
    return values;
  };
  static const std::array<Values, 4> tables = {values_of(kFp8), values_of(kBf8), values_of(kFp8Fnuz),
                                               values_of(kBf8Fnuz)};
  const unsigned table = (format.unsigned_zero ? 2u : 0u) + (format.mantissa_bits == kBf8.mantissa_bits ? 1u : 0u);
  return tables[table][bits & 0xff];
}

uint32_t encode_small(double value, const SmallFormat& format, Rounding rounding, bool saturate) {
  uint64_t bits = std::bit_cast<uint64_t>(value);
  bool negative = bits >> 63;
  uint32_t sign = negative ? 1u << (format.exponent_bits + format.mantissa_bits) : 0;
  if (std::isnan(value)) return format.unsigned_zero ? nan_of(format) : sign | nan_of(format);
  uint32_t too_large = format.infinity ? largest_exponent(format) << format.mantissa_bits : nan_of(format);
  if (saturate) too_large = largest_finite(format);
  if (std::isinf(value)) return sign | too_large;
  if (value == 0) return format.unsigned_zero ? 0 : sign;
  int exponent = std::ilogb(value);
  int place = std::max(exponent, 1 - format.bias) - format.mantissa_bits;  // of the last bit
  double scaled = std::ldexp(std::fabs(value), -place);
  double whole = std::floor(scaled);
  double part = scaled - whole;
  unsigned rest = part == 0 ? 0 : part < 0.5 ? 1 : part == 0.5 ? 2 : 3;
  auto mantissa = static_cast<uint64_t>(whole);
  if (rounds_away(mantissa & 1, negative, rest, rounding)) ++mantissa;
  // A carry out of the mantissa is one more in the exponent: both stand side by side.
  uint64_t step = static_cast<uint64_t>(place - (1 - format.bias - format.mantissa_bits));
  uint64_t encoded = mantissa + (step << format.mantissa_bits);
  if (encoded > largest_finite(format)) {
    bool toward = rounding == Rounding::kTowardZero || (rounding == Rounding::kUp && negative) ||
                  (rounding == Rounding::kDown && !negative);
    if (saturate || toward) return sign | largest_finite(format);
    return format.unsigned_zero ? nan_of(format) : sign | too_large;
  }
  if (format.unsigned_zero && encoded == 0) return 0;
  return sign | static_cast<uint32_t>(encoded);
}

uint32_t encode_stochastic(float value, const SmallFormat& format, uint32_t noise, bool saturate) {
  if (!std::isfinite(value)) return encode_small(value, format, Rounding::kTowardZero, saturate);
  // The noise is as fine as an f32's bits below the last place of the result.
  int exponent = value == 0 ? 1 - format.bias : std::max(std::ilogb(value), 1 - format.bias);
  int dropped = 23 - format.mantissa_bits;
  double fraction = static_cast<double>(noise >> (32 - dropped)) / static_cast<double>(1u << dropped);
  double magnitude = std::fabs(static_cast<double>(value)) + std::ldexp(fraction, exponent - format.mantissa_bits);
  return encode_small(std::copysign(magnitude, value), format, Rounding::kTowardZero, saturate);
}

unsigned bits_of_kind(unsigned kind) { return kind <= 1 ? 8 : kind <= 3 ? 6 : 4; }

// Of six and four bits every code is a number.
static double decode_finite(uint32_t bits, const SmallFormat& format) {
  const auto fraction = static_cast<int>(bits & ((1u << format.mantissa_bits) - 1));
  const auto exponent = static_cast<int>(bits >> format.mantissa_bits & ((1u << format.exponent_bits) - 1));
  const int whole = exponent == 0 ? 0 : 1 << format.mantissa_bits;
  const double magnitude = std::ldexp(whole + fraction, std::max(exponent, 1) - format.bias - format.mantissa_bits);
  return bits >> (format.mantissa_bits + format.exponent_bits) & 1 ? -magnitude : magnitude;
}

double decode_kind(uint32_t bits, unsigned kind) {
  constexpr SmallFormat fp6{2, 3, 1, false, false}, bf6{3, 2, 3, false, false}, fp4{2, 1, 1, false, false};
  switch (kind) {
    case 0:
      return decode_small(bits, kFp8);
    case 1:
      return decode_small(bits, kBf8);
    case 2:
      return decode_finite(bits, fp6);
    case 3:
      return decode_finite(bits, bf6);
    default:
      return decode_finite(bits, fp4);
  }
}

}  // namespace kiln::amdgcn_emulator
