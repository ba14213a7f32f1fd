#include "kiln/dsl/types.h"

#include <algorithm>
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
  bool has_infinity = true;  // f8e4m3 has none: its all-ones exponent holds ordinary numbers and one NaN
  bool saturate = false;     // out of range gives the largest finite number

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint64_t sign() const { return uint64_t{1} << (exponent_bits + mantissa_bits); }
  uint64_t mantissa_mask() const { return (uint64_t{1} << mantissa_bits) - 1; }
  uint64_t exponent_mask() const { return sign() - 1 - mantissa_mask(); }
  uint64_t nan() const {
    return exponent_mask() | (has_infinity ? uint64_t{1} << (mantissa_bits - 1) : mantissa_mask());
  }
  // The largest finite number; without infinities only the all-ones pattern is taken (by NaN).
  uint64_t largest() const { return has_infinity ? exponent_mask() - 1 : nan() - 1; }
};
constexpr FloatFormat kDouble{11, 52};

// A function of a float type's format, which is a constant there: all lanes of the interpreter pass here.
template <class Function>
auto with_format(ElementType type, Function function) {
  switch (type) {
    case ElementType::kF16:
      return function([] { return FloatFormat{5, 10}; });
    case ElementType::kBF16:
      return function([] { return FloatFormat{8, 7}; });
    case ElementType::kF8E4M3:
      return function([] { return FloatFormat{4, 3, false, true}; });
    case ElementType::kF8E5M2:
      return function([] { return FloatFormat{5, 2, true, true}; });
    case ElementType::kF64:
      return function([] { return kDouble; });
    default:
      return function([] { return FloatFormat{8, 23}; });
  }
}

// Half to even.
uint64_t shift_right_rounded(uint64_t x, int places) {
  if (places == 0) return x;
  if (places > 63) return 0;
  const uint64_t kept = x >> places, rest = x & ((uint64_t{1} << places) - 1), half = uint64_t{1} << (places - 1);
  return kept + (rest > half || (rest == half && (kept & 1)) ? 1 : 0);
}

// ± mantissa · 2^exponent, rounded once. By ints, as all that follows, so that the result is the same in every float
// mode of the thread.
uint64_t round_to(const FloatFormat& format, bool negative, uint64_t mantissa, int exponent) {
  const uint64_t sign = negative ? format.sign() : 0;
  if (mantissa == 0) return sign;
  const int binade = std::max(63 - std::countl_zero(mantissa) + exponent, 1 - format.bias());
  // In steps of the format in this binade; fewer than 2^mantissa_bits are subnormal, and a carry runs into the exponent
  // field by itself.
  const int places = binade - format.mantissa_bits - exponent;
  const uint64_t steps = places < 0 ? mantissa << -places : shift_right_rounded(mantissa, places);
  const uint64_t bits = steps + (static_cast<uint64_t>(binade + format.bias() - 1) << format.mantissa_bits);
  return sign | (bits <= format.largest() ? bits : format.saturate ? format.largest() : format.exponent_mask());
}

uint64_t round_int_to(const FloatFormat& format, int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  return round_to(format, value < 0, value < 0 ? -bits : bits, 0);
}

uint64_t encode(const FloatFormat& format, double value) {
  const uint64_t wide = std::bit_cast<uint64_t>(value), fraction = wide & kDouble.mantissa_mask();
  const int field = static_cast<int>((wide & kDouble.exponent_mask()) >> kDouble.mantissa_bits);
  const bool negative = wide & kDouble.sign();
  if (field == (1 << kDouble.exponent_bits) - 1) {
    const uint64_t sign = negative ? format.sign() : 0;
    if (fraction == 0) return sign | (format.saturate ? format.largest() : format.exponent_mask());
    return sign | format.nan() | (format.mantissa_bits == 23 ? fraction >> (kDouble.mantissa_bits - 23) : 0);
  }
  const uint64_t mantissa = field > 0 ? fraction | uint64_t{1} << kDouble.mantissa_bits : fraction;
  return round_to(format, negative, mantissa, std::max(field, 1) - kDouble.bias() - kDouble.mantissa_bits);
}

[[gnu::always_inline]] inline double decode(const FloatFormat& format, uint64_t bits) {
  const uint64_t sign = bits & format.sign() ? kDouble.sign() : 0;
  const int shift = kDouble.mantissa_bits - format.mantissa_bits, top = (1 << format.exponent_bits) - 1;
  uint64_t mantissa = bits & format.mantissa_mask();
  int exponent = static_cast<int>((bits & format.exponent_mask()) >> format.mantissa_bits);
  const auto special = [&](uint64_t rest) { return std::bit_cast<double>(sign | kDouble.exponent_mask() | rest); };
  constexpr uint64_t kQuiet = uint64_t{1} << (kDouble.mantissa_bits - 1);
  if (exponent == top && format.has_infinity) return special(mantissa ? kQuiet | mantissa << shift : 0);
  if (exponent == top && mantissa == format.mantissa_mask()) return special(kQuiet);
  if (exponent == 0) {
    if (mantissa == 0) return std::bit_cast<double>(sign);
    const int places = std::countl_zero(mantissa) - (63 - format.mantissa_bits);
    mantissa = mantissa << places & format.mantissa_mask();
    exponent = 1 - places;
  }
  const auto field = static_cast<uint64_t>(exponent - format.bias() + kDouble.bias());
  return std::bit_cast<double>(sign | field << kDouble.mantissa_bits | mantissa << shift);
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
    case ElementType::kI1:
      return std::bit_cast<uint64_t>(value) << 1 != 0 ? 1 : 0;
    default:
      if (!is_float(type)) return saturate_to_int(info(type), value);
      return with_format(type, [=](auto format) { return encode(format(), value); });
  }
}

double double_from_bits(ElementType type, uint64_t bits) {
  if (type == ElementType::kF64) return std::bit_cast<double>(bits);
  if (is_float(type)) return with_format(type, [=](auto format) { return decode(format(), bits); });
  if (!info(type).is_signed) return std::bit_cast<double>(round_to(kDouble, false, bits, 0));
  const int shift = 64 - info(type).bits;
  return std::bit_cast<double>(round_int_to(kDouble, static_cast<int64_t>(bits << shift) >> shift));
}

uint64_t lowest_bits(ElementType type) {
  if (type == ElementType::kF8E5M2) return 0xfc;
  if (is_float(type)) return bits_from_double(type, -std::numeric_limits<double>::infinity());
  return info(type).is_signed ? uint64_t{1} << (info(type).bits - 1) : 0;
}

uint64_t highest_bits(ElementType type) {
  if (type == ElementType::kF8E5M2) return 0x7c;
  if (is_float(type)) return bits_from_double(type, std::numeric_limits<double>::infinity());
  const uint64_t all = ~uint64_t{0} >> (64 - info(type).bits);
  return info(type).is_signed ? all >> 1 : all;
}

uint64_t bits_from_int(ElementType type, int64_t value) {
  if (type == ElementType::kI1) return value != 0 ? 1 : 0;
  if (is_float(type)) return with_format(type, [=](auto format) { return round_int_to(format(), value); });
  return low_bits(static_cast<uint64_t>(value), info(type).bits);
}

bool int_fits(ElementType type, int64_t value) {
  const ElementTypeInfo& element = info(type);
  // As an integer: 2^53 + 1 would round to 2^53 before it is compared.
  constexpr int64_t kExact = int64_t{1} << 53;
  if (element.is_float)
    return value >= -kExact && value <= kExact &&
           double_from_bits(type, bits_from_int(type, value)) == static_cast<double>(value);
  if (!element.is_signed) return value >= 0 && (element.bits == 64 || value < (int64_t{1} << element.bits));
  if (element.bits == 64) return true;
  const int64_t limit = int64_t{1} << (element.bits - 1);
  return value >= -limit && value < limit;
}

}  // namespace kiln::dsl
