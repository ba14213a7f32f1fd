#include "compare.h"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace kiln::autotune {
namespace {

// What the norm of the difference may be of the norm, and the difference of an element of its size and the root mean
// square. f32 and f64 sums of thousands of terms lose some bits more than their one rounding at the end.
struct Tolerance {
  double norm, element;
};
Tolerance tolerance_of(dsl::ElementType type) {
  switch (type) {
    case dsl::ElementType::kF8E5M2:
      return {0.5, 1.0};
    case dsl::ElementType::kF8E4M3:
      return {0.25, 0.5};
    case dsl::ElementType::kBF16:
      return {0x1p-6, 0x1p-4};
    case dsl::ElementType::kF16:
      return {0x1p-9, 0x1p-6};
    case dsl::ElementType::kF32:
      return {0x1p-14, 0x1p-10};
    default:
      return {0x1p-36, 0x1p-30};
  }
}

uint64_t word_at(std::span<const std::byte> bytes, size_t index, size_t size) {
  uint64_t out = 0;
  std::memcpy(&out, bytes.data() + index * size, size);
  return out;
}

std::string value_text(dsl::ElementType element, uint64_t bits) {
  if (dsl::is_float(element)) {
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", dsl::double_from_bits(element, bits));
    return text;
  }
  const int shift = 64 - dsl::info(element).bytes * 8;
  if (dsl::info(element).is_signed) return std::to_string(static_cast<int64_t>(bits << shift) >> shift);
  return std::to_string(bits);
}

// Where it begins to differ, and how often.
class Differences {
 public:
  Differences(dsl::ElementType element, std::span<const std::byte> expected, std::span<const std::byte> actual)
      : element_(element), size_(static_cast<size_t>(dsl::info(element).bytes)), expected_(expected), actual_(actual) {}

  void add(size_t index) {
    if (count_++ == 0) first_ = index;
  }
  void add(size_t first, size_t count) {
    if (count_ == 0) first_ = first;
    count_ += count;
  }
  bool none() const { return count_ == 0; }
  std::string text() const {
    return std::to_string(count_) + " of " + std::to_string(expected_.size() / size_) + " elements differ; at " +
           std::to_string(first_) + " it is " + value_text(element_, word_at(actual_, first_, size_)) + ", not " +
           value_text(element_, word_at(expected_, first_, size_));
  }

 private:
  dsl::ElementType element_;
  size_t size_;
  std::span<const std::byte> expected_, actual_;
  size_t first_ = 0, count_ = 0;
};

std::string compare_ints(dsl::ElementType element, std::span<const std::byte> expected,
                         std::span<const std::byte> actual) {
  const auto size = static_cast<size_t>(dsl::info(element).bytes);
  Differences differences(element, expected, actual);
  for (size_t i = 0; i < expected.size() / size; ++i) {
    if (std::memcmp(expected.data() + i * size, actual.data() + i * size, size) != 0) differences.add(i);
  }
  return differences.none() ? "" : differences.text();
}

// Beside it a GPU is fed, and other configs are compiled.
int comparing_threads() { return std::max(1, omp_get_max_threads() / 2); }

// Sums of a pass over two arrays.
struct Sums {
  double squares = 0, difference = 0, widest = 0;  // of elements that are finite in both
  int64_t finite = 0, odd = 0;                     // odd: not finite in one, and not the same in both
};

bool same_value(double e, double a) { return e == a || (std::isnan(e) && std::isnan(a)); }

template <class Value>
Sums sums_of(int64_t count, const Value& value) {
  Sums out;
  double squares = 0, difference = 0, widest = 0;
  int64_t finite = 0, odd = 0;
#pragma omp parallel for num_threads(comparing_threads()) schedule(static) \
    reduction(+ : squares, difference, finite, odd) reduction(max : widest)
  for (int64_t i = 0; i < count; ++i) {
    const auto [e, a] = value(i);
    const double away = std::fabs(a - e);
    if (!(away <= std::numeric_limits<double>::max())) {
      odd += same_value(e, a) ? 0 : 1;
      continue;
    }
    squares += e * e;
    difference += away * away;
    widest = std::max(widest, away);
    ++finite;
  }
  return {squares, difference, widest, finite, odd};
}

template <class Value>
std::string compare_values(const Tolerance& tolerance, Differences& differences, int64_t count, const Value& value) {
  const Sums sums = sums_of(count, value);
  const double rms = std::sqrt(sums.squares / static_cast<double>(std::max<int64_t>(sums.finite, 1)));
  if (sums.odd > 0 || sums.widest > tolerance.element * rms) {
    int64_t first = count, different = 0;
#pragma omp parallel for num_threads(comparing_threads()) schedule(static) reduction(+ : different) \
    reduction(min : first)
    for (int64_t i = 0; i < count; ++i) {
      const auto [e, a] = value(i);
      const bool finite = std::isfinite(e) && std::isfinite(a);
      if (finite ? std::fabs(a - e) <= tolerance.element * (std::fabs(e) + rms) : same_value(e, a)) continue;
      ++different;
      first = std::min(first, i);
    }
    if (different > 0) differences.add(static_cast<size_t>(first), static_cast<size_t>(different));
    if (!differences.none()) return differences.text();
  }
  if (std::sqrt(sums.difference) <= tolerance.norm * std::sqrt(sums.squares)) return "";
  char text[120];
  std::snprintf(text, sizeof text, "the norm of the difference is %.3g of the norm, above %.3g",
                std::sqrt(sums.difference / sums.squares), tolerance.norm);
  return text;
}

template <class Word>
Word word(std::span<const std::byte> bytes, int64_t index) {
  Word out;
  std::memcpy(&out, bytes.data() + static_cast<size_t>(index) * sizeof(Word), sizeof(Word));
  return out;
}

// The values of all words of a float of at most 16 bits.
std::vector<float> table_of(dsl::ElementType element) {
  std::vector<float> out(size_t{1} << (8 * dsl::info(element).bytes));
  for (size_t bits = 0; bits < out.size(); ++bits) out[bits] = static_cast<float>(dsl::double_from_bits(element, bits));
  return out;
}

std::string compare_floats(dsl::ElementType element, dsl::ElementType rounding, std::span<const std::byte> expected,
                           std::span<const std::byte> actual) {
  const auto count = static_cast<int64_t>(expected.size() / static_cast<size_t>(dsl::info(element).bytes));
  const Tolerance by_type = tolerance_of(element), by_rounding = tolerance_of(rounding);
  const Tolerance tolerance = by_type.norm > by_rounding.norm ? by_type : by_rounding;
  Differences differences(element, expected, actual);
  const auto compare = [&](const auto& at) {
    return compare_values(tolerance, differences, count,
                          [&](int64_t i) { return std::pair<double, double>(at(expected, i), at(actual, i)); });
  };
  switch (element) {
    case dsl::ElementType::kF64:
      return compare([](auto bytes, int64_t i) { return word<double>(bytes, i); });
    case dsl::ElementType::kF32:
      return compare([](auto bytes, int64_t i) { return word<float>(bytes, i); });
    case dsl::ElementType::kBF16:
      return compare(
          [](auto bytes, int64_t i) { return std::bit_cast<float>(uint32_t{word<uint16_t>(bytes, i)} << 16); });
    default:
      break;
  }
  const std::vector<float> table = table_of(element);
  if (dsl::info(element).bytes == 1) {
    return compare([&](auto bytes, int64_t i) { return table[word<uint8_t>(bytes, i)]; });
  }
  return compare([&](auto bytes, int64_t i) { return table[word<uint16_t>(bytes, i)]; });
}

}  // namespace

std::string compare_arrays(dsl::ElementType element, dsl::ElementType rounding, std::span<const std::byte> expected,
                           std::span<const std::byte> actual) {
  if (expected.size() != actual.size()) return "the sizes differ";
  if (expected.empty() || std::memcmp(expected.data(), actual.data(), expected.size()) == 0) return "";
  return dsl::is_float(element) ? compare_floats(element, rounding, expected, actual)
                                : compare_ints(element, expected, actual);
}

}  // namespace kiln::autotune
