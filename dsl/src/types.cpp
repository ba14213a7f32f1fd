#include "kiln/dsl/types.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace kiln::dsl {
namespace {

constexpr std::array<ElementTypeInfo, kElementTypeCount> kInfo = {{
    {"i1", 1, 1, false, false},
    {"i8", 8, 1, false, true},
    {"i16", 16, 2, false, true},
    {"i32", 32, 4, false, true},
    {"i64", 64, 8, false, true},
    {"u8", 8, 1, false, false},
    {"u16", 16, 2, false, false},
    {"u32", 32, 4, false, false},
    {"u64", 64, 8, false, false},
    {"f16", 16, 2, true, true},
    {"bf16", 16, 2, true, true},
    {"f32", 32, 4, true, true},
    {"f64", 64, 8, true, true},
    {"f8e4m3", 8, 1, true, true},
    {"f8e5m2", 8, 1, true, true},
}};

// A binary floating-point format with an implicit leading bit and gradual underflow.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  // f8e4m3 has none: its all-ones exponent holds ordinary numbers and one NaN
  bool saturate;      // out of range gives the largest finite number
};

FloatFormat format_of(ElementType type) {
  switch (type) {
    case ElementType::kF16:
      return {5, 10, true, false};
    case ElementType::kBF16:
      return {8, 7, true, false};
    case ElementType::kF8E4M3:
      return {4, 3, false, true};
    case ElementType::kF8E5M2:
      return {5, 2, true, true};
    default:
      return {0, 0, false, false};
  }
}

uint64_t encode(const FloatFormat& format, double value) {
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (format.exponent_bits + format.mantissa_bits) : 0;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint64_t exponent_mask = ((uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
  const uint64_t mantissa_mask = (uint64_t{1} << format.mantissa_bits) - 1;
  const uint64_t infinity = exponent_mask;
  const uint64_t nan =
      format.has_infinity ? infinity | uint64_t{1} << (format.mantissa_bits - 1) : exponent_mask | mantissa_mask;
  // The largest finite number; without infinities only the all-ones pattern is taken (by NaN).
  const uint64_t largest = format.has_infinity ? infinity - 1 : nan - 1;
  if (std::isnan(value)) return sign | nan;
  const double magnitude = std::fabs(value);
  uint64_t bits = 0;
  if (std::isinf(magnitude)) {
    bits = largest + 1;
  } else if (magnitude != 0) {
    int exponent = std::max(std::ilogb(magnitude), 1 - bias);
    // Scaled so that one unit is one step of the format; nearbyint rounds to nearest even.
    double steps = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
    // A step count below 2^mantissa_bits is subnormal; a carry runs into the exponent field by itself.
    bits = static_cast<uint64_t>(steps) + (static_cast<uint64_t>(exponent + bias - 1) << format.mantissa_bits);
  }
  if (bits > largest) bits = format.saturate ? largest : infinity;
  return sign | bits;
}

double decode(const FloatFormat& format, uint64_t bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint64_t mantissa = bits & ((uint64_t{1} << format.mantissa_bits) - 1);
  const uint64_t exponent = (bits >> format.mantissa_bits) & ((uint64_t{1} << format.exponent_bits) - 1);
  const bool negative = (bits >> (format.exponent_bits + format.mantissa_bits)) & 1;
  const uint64_t top = (uint64_t{1} << format.exponent_bits) - 1;
  double magnitude = 0;
  if (exponent == top && format.has_infinity) {
    magnitude = mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (exponent == top && mantissa == (uint64_t{1} << format.mantissa_bits) - 1) {
    magnitude = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<double>(mantissa), 1 - bias - format.mantissa_bits);
  } else {
    magnitude = std::ldexp(static_cast<double>(mantissa | uint64_t{1} << format.mantissa_bits),
                           static_cast<int>(exponent) - bias - format.mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

uint64_t low_bits(uint64_t value, int bits) { return bits == 64 ? value : value & ((uint64_t{1} << bits) - 1); }

uint64_t saturate_to_int(const ElementTypeInfo& type, double value) {
  if (std::isnan(value)) return 0;
  value = std::trunc(value);
  const int magnitude_bits = type.bits - (type.is_signed ? 1 : 0);
  const double limit = std::ldexp(1.0, magnitude_bits);
  if (value >= limit) return low_bits(~uint64_t{0}, magnitude_bits);
  if (!type.is_signed) return value <= 0 ? 0 : static_cast<uint64_t>(value);
  if (value <= -limit) return low_bits(uint64_t{1} << magnitude_bits, type.bits);
  return low_bits(static_cast<uint64_t>(static_cast<int64_t>(value)), type.bits);
}

}  // namespace

const ElementTypeInfo& info(ElementType type) { return kInfo.at(static_cast<size_t>(type)); }

std::optional<ElementType> parse_element_type(std::string_view name) {
  for (int i = 0; i < kElementTypeCount; ++i) {
    if (kInfo[i].name == name) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

uint64_t bits_from_double(ElementType type, double value) {
  switch (type) {
    case ElementType::kF64:
      return std::bit_cast<uint64_t>(value);
    case ElementType::kF32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case ElementType::kI1:
      return value != 0 ? 1 : 0;
    default:
      return is_float(type) ? encode(format_of(type), value) : saturate_to_int(info(type), value);
  }
}

double double_from_bits(ElementType type, uint64_t bits) {
  switch (type) {
    case ElementType::kF64:
      return std::bit_cast<double>(bits);
    case ElementType::kF32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    case ElementType::kBF16:
      return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    default:
      break;
  }
  if (is_float(type)) return decode(format_of(type), bits);
  if (!info(type).is_signed) return static_cast<double>(bits);
  const int shift = 64 - info(type).bits;
  return static_cast<double>(static_cast<int64_t>(bits << shift) >> shift);
}

uint64_t bits_from_int(ElementType type, int64_t value) {
  if (type == ElementType::kI1) return value != 0 ? 1 : 0;
  // int64 → f32 through double would round twice.
  if (type == ElementType::kF32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  if (is_float(type)) return bits_from_double(type, static_cast<double>(value));
  return low_bits(static_cast<uint64_t>(value), info(type).bits);
}

bool int_fits(ElementType type, int64_t value) {
  const ElementTypeInfo& element = info(type);
  // As an integer: 2^53 + 1 would round to 2^53 before it is compared.
  constexpr int64_t kExact = int64_t{1} << 53;
  if (element.is_float)
    return value >= -kExact && value <= kExact &&
           double_from_bits(type, bits_from_double(type, static_cast<double>(value))) == static_cast<double>(value);
  if (!element.is_signed) return value >= 0 && (element.bits == 64 || value < (int64_t{1} << element.bits));
  if (element.bits == 64) return true;
  const int64_t limit = int64_t{1} << (element.bits - 1);
  return value >= -limit && value < limit;
}

}  // namespace kiln::dsl
