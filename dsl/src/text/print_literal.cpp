// Numbers of the text form: to text and back, bit by bit.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <compare>
#include <cstdio>
#include <limits>

#include "kiln/dsl/decimal.h"
#include "kiln/dsl/float_mode.h"
#include "kiln/dsl/text_format.h"

namespace kiln::dsl {
namespace {

uint64_t mask_of(ElementType element) {
  const int bits = info(element).bits;
  return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

uint64_t quiet_nan(ElementType element) {
  return bits_from_double(element, std::numeric_limits<double>::quiet_NaN()) & mask_of(element);
}

template <class T>
std::string shortest(T value) {
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

// Narrow floats have no to_chars: the fewest digits that come back to the same bits, or all of them where that is the
// shorter text (448, not 4.5e+02).
std::string shortest_narrow(ElementType element, uint64_t bits) {
  const double value = double_from_bits(element, bits);
  char buffer[64];
  for (int digits = 1; digits <= 17; ++digits) {
    auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, digits).ptr;
    double back = 0;
    std::from_chars(buffer, end, back);
    if (bits_from_double(element, back) != bits) continue;
    std::string few(buffer, end), all = shortest(value);
    return all.size() <= few.size() ? all : few;
  }
  return shortest(value);
}

std::string float_text(ElementType element, uint64_t bits) {
  const double value = double_from_bits(element, bits);
  if (std::isnan(value)) {
    if (bits == quiet_nan(element)) return "nan";
    char buffer[32];
    return {buffer,
            static_cast<size_t>(std::snprintf(buffer, sizeof buffer, "0x%llx", static_cast<unsigned long long>(bits)))};
  }
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string out = element == ElementType::kF64   ? shortest(value)
                    : element == ElementType::kF32 ? shortest(std::bit_cast<float>(static_cast<uint32_t>(bits)))
                                                   : shortest_narrow(element, bits);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

// A decimal number as 0.d1d2d3… · 10^point, without zeros at either end; of 0 there are no digits.
struct Decimal {
  std::string digits;
  int64_t point = 0;

  std::strong_ordering operator<=>(const Decimal& other) const {
    if (digits.empty() || other.digits.empty()) return digits.size() <=> other.digits.size();
    if (point != other.point) return point <=> other.point;
    return digits <=> other.digits;
  }
};

// Of a text that std::from_chars takes for a number. An exponent beyond all floats may be any such.
Decimal decimal_of(std::string_view text) {
  Decimal out;
  size_t i = 0;
  bool is_behind_point = false;
  for (; i < text.size() && text[i] != 'e'; ++i) {
    if (text[i] == '.') {
      is_behind_point = true;
    } else if (text[i] != '0' || !out.digits.empty()) {
      out.digits += text[i];
      out.point += is_behind_point ? 0 : 1;
    } else if (is_behind_point) {
      --out.point;
    }
  }
  if (i < text.size()) {
    constexpr int64_t kBeyond = int64_t{1} << 40;
    const bool negative = text[i + 1] == '-';
    const std::string_view exponent = text.substr(i + (negative || text[i + 1] == '+' ? 2 : 1));
    int64_t value = 0;
    const auto [end, status] = std::from_chars(exponent.data(), exponent.data() + exponent.size(), value);
    value = status == std::errc() ? std::min(value, kBeyond) : kBeyond;
    out.point += negative ? -value : value;
  }
  out.digits.erase(out.digits.find_last_not_of('0') + 1);
  return out;
}

// Where the nearest double is not the number itself, the neighbour on the number's other side or it, whichever has an
// odd last bit: rounding that once more, to a type of at most 51 bits, is rounding the number.
double round_to_odd(double nearest, std::string_view text) {
  char buffer[800];  // all digits of any double
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, nearest, std::chars_format::scientific, 780).ptr;
  const auto order = decimal_of(text) <=> decimal_of({buffer, end});
  if (order == 0 || (std::bit_cast<uint64_t>(nearest) & 1)) return nearest;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(nearest) + (order > 0 ? 1 : -1));
}

// Nothing where the text is no number, or one too large for T. What is too small for it is 0.
template <class T>
std::optional<T> read_decimal(std::string_view digits) {
  T value{};
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size()) return std::nullopt;
  if (status == std::errc()) return value;
  const bool is_small = status == std::errc::result_out_of_range && decimal_of(digits).point <= 0;
  return is_small ? std::optional(T{0}) : std::nullopt;
}

}  // namespace

std::optional<uint64_t> float_from_decimal(ElementType element, std::string_view text) {
  const bool negative = text.starts_with('-');
  const std::string_view digits = text.substr(negative ? 1 : 0);
  if (digits.starts_with('-')) return std::nullopt;
  const uint64_t sign = negative ? uint64_t{1} << (info(element).bits - 1) : 0;
  const auto value = read_decimal<double>(digits);
  if (!value) return std::nullopt;
  if (!std::isfinite(*value)) return bits_from_double(element, negative ? -*value : *value);
  if (is_small_float(element)) return bits_from_double(element, round_to_odd(*value, digits)) | sign;
  // f32 from the text too: through f64 it would round twice. Beyond it, f64 says what becomes of the number.
  const auto single = element == ElementType::kF32 ? read_decimal<float>(digits) : std::nullopt;
  return (single ? std::bit_cast<uint32_t>(*single) : bits_from_double(element, *value)) | sign;
}

std::string literal_text(ElementType element, uint64_t bits) {
  const FloatMode mode;
  bits &= mask_of(element);
  if (is_float(element)) return float_text(element, bits);
  if (!info(element).is_signed) return std::to_string(bits);
  const int shift = 64 - info(element).bits;
  return std::to_string(static_cast<int64_t>(bits << shift) >> shift);
}

std::optional<uint64_t> parse_literal(ElementType element, std::string_view digits, bool negative) {
  const FloatMode mode;
  const uint64_t sign = negative ? uint64_t{1} << (info(element).bits - 1) : 0;
  if (digits.starts_with("0x")) {
    uint64_t bits = 0;
    auto [end, status] = std::from_chars(digits.data() + 2, digits.data() + digits.size(), bits, 16);
    if (status != std::errc() || end != digits.data() + digits.size() || (bits & ~mask_of(element)) || negative)
      return std::nullopt;
    return bits;
  }
  if (is_int(element)) {
    uint64_t magnitude = 0;
    auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), magnitude);
    if (status != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    const uint64_t limit = info(element).is_signed ? (mask_of(element) >> 1) + (negative ? 1 : 0)
                           : negative              ? 0
                                                   : mask_of(element);
    if (magnitude > limit) return std::nullopt;
    return (negative ? -magnitude : magnitude) & mask_of(element);
  }
  if (digits == "nan") return quiet_nan(element) | sign;
  if (digits == "inf") {
    // Conversion to f8e5m2 saturates, so its infinity must be named by its bits.
    const uint64_t bits =
        element == ElementType::kF8E5M2 ? 0x7c : bits_from_double(element, std::numeric_limits<double>::infinity());
    if (!std::isinf(double_from_bits(element, bits))) return std::nullopt;  // the type has none
    return bits | sign;
  }
  const auto bits = float_from_decimal(element, digits);
  if (!bits || !std::isfinite(double_from_bits(element, *bits))) return std::nullopt;
  return *bits | sign;
}

}  // namespace kiln::dsl
