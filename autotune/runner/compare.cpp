#include "compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
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

std::string compare_floats(dsl::ElementType element, dsl::ElementType rounding, std::span<const std::byte> expected,
                           std::span<const std::byte> actual) {
  const auto size = static_cast<size_t>(dsl::info(element).bytes);
  const auto count = static_cast<int64_t>(expected.size() / size);
  const Tolerance by_type = tolerance_of(element), by_rounding = tolerance_of(rounding);
  const Tolerance tolerance = by_type.norm > by_rounding.norm ? by_type : by_rounding;
  const auto value = [&](std::span<const std::byte> from, int64_t i) {
    return dsl::double_from_bits(element, word_at(from, static_cast<size_t>(i), size));
  };
  double squares = 0, difference = 0;
  int64_t finite = 0;
#pragma omp parallel for schedule(static) reduction(+ : squares, difference, finite)
  for (int64_t i = 0; i < count; ++i) {
    const double e = value(expected, i), a = value(actual, i);
    if (!std::isfinite(e) || !std::isfinite(a)) continue;
    squares += e * e;
    difference += (a - e) * (a - e);
    ++finite;
  }
  const double rms = std::sqrt(squares / static_cast<double>(std::max<int64_t>(finite, 1)));
  Differences differences(element, expected, actual);
  for (int64_t i = 0; i < count; ++i) {
    const double e = value(expected, i), a = value(actual, i);
    const bool same = std::isfinite(e) && std::isfinite(a)
                          ? std::fabs(a - e) <= tolerance.element * (std::fabs(e) + rms)
                          : e == a || (std::isnan(e) && std::isnan(a));
    if (!same) differences.add(static_cast<size_t>(i));
  }
  if (!differences.none()) return differences.text();
  if (std::sqrt(difference) <= tolerance.norm * std::sqrt(squares)) return "";
  char text[120];
  std::snprintf(text, sizeof text, "the norm of the difference is %.3g of the norm, above %.3g",
                std::sqrt(difference / squares), tolerance.norm);
  return text;
}

}  // namespace

std::string compare_arrays(dsl::ElementType element, dsl::ElementType rounding, std::span<const std::byte> expected,
                           std::span<const std::byte> actual) {
  if (expected.size() != actual.size()) return "the sizes differ";
  if (std::equal(expected.begin(), expected.end(), actual.begin())) return "";
  return dsl::is_float(element) ? compare_floats(element, rounding, expected, actual)
                                : compare_ints(element, expected, actual);
}

}  // namespace kiln::autotune
