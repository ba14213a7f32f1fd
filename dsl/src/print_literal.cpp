// Numbers of the text form: to text and back, bit by bit.
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "kiln/dsl/float_mode.h"
#include "text_format.h"

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

template <class T>
std::optional<T> read_decimal(std::string_view digits) {
  T value{};
  auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size()) return std::nullopt;
  if (status == std::errc::result_out_of_range) {
    // Too large or too small for the type; a double that is neither says which.
    double wide = 0;
    auto again = std::from_chars(digits.data(), digits.data() + digits.size(), wide);
    if (again.ec != std::errc() || std::fabs(wide) > 1) return std::nullopt;
    return T{0};
  }
  return status == std::errc() ? std::optional<T>(value) : std::nullopt;
}

}  // namespace

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
  if (element == ElementType::kF32) {
    auto value = read_decimal<float>(digits);
    return value ? std::optional<uint64_t>(std::bit_cast<uint32_t>(*value) | sign) : std::nullopt;
  }
  auto value = read_decimal<double>(digits);
  if (!value) return std::nullopt;
  const uint64_t bits = bits_from_double(element, *value);
  if (!std::isfinite(double_from_bits(element, bits))) return std::nullopt;
  return bits | sign;
}

}  // namespace kiln::dsl
