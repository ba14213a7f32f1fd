#include "graph/compare.h"

#include <cmath>
#include <cstdio>

namespace kiln::test {
namespace {

double epsilon(dsl::ElementType type) {
  switch (type) {
    case dsl::ElementType::kF64:
      return 0x1p-52;
    case dsl::ElementType::kF32:
      return 0x1p-23;
    case dsl::ElementType::kF16:
      return 0x1p-10;
    case dsl::ElementType::kBF16:
      return 0x1p-7;
    case dsl::ElementType::kF8E4M3:
      return 0x1p-3;
    default:
      return 0x1p-2;
  }
}

}  // namespace

std::optional<dsl::ElementType> coarsest_float(const graph::Graph& graph) {
  std::optional<dsl::ElementType> out;
  for (const graph::TensorType& type : graph.types) {
    if (!dsl::is_float(type.element)) continue;
    if (!out || epsilon(type.element) > epsilon(*out)) out = type.element;
  }
  return out;
}

namespace {

std::string where(size_t output, int64_t place) {
  return "output " + std::to_string(output) + ", element " + std::to_string(place) + ": ";
}

std::string float_difference(size_t output, const graph::Array& actual, const graph::Array& expected,
                             const Tolerance& tolerance) {
  double largest = 1;
  for (int64_t place = 0; place < expected.count(); ++place) {
    const double number = std::abs(expected.number(place));
    if (std::isfinite(number)) largest = std::max(largest, number);
  }
  const double unit =
      std::max(epsilon(expected.element), tolerance.coarsest ? epsilon(*tolerance.coarsest) : 0.0) * tolerance.ulps;
  for (int64_t place = 0; place < expected.count(); ++place) {
    const double a = actual.number(place), b = expected.number(place);
    if ((std::isnan(a) && std::isnan(b)) || a == b) continue;
    double lost = 0;
    if (!tolerance.wide.empty()) {
      const double exact = tolerance.wide[output].number(place);
      if (std::isfinite(exact) != std::isfinite(b)) continue;  // rounding decides
      lost = std::abs(exact - b);
    }
    if (std::abs(a - b) <= unit * largest + 16 * lost) continue;
    char text[100];
    std::snprintf(text, sizeof text, "%.17g, not %.17g", a, b);
    return where(output, place) + text;
  }
  return "";
}

}  // namespace

std::string difference(std::span<const graph::Array> actual, std::span<const graph::Array> expected,
                       const Tolerance& tolerance) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (actual[i].shape != expected[i].shape) return "output " + std::to_string(i) + " has another shape";
    if (dsl::is_float(expected[i].element)) {
      const std::string wrong = float_difference(i, actual[i], expected[i], tolerance);
      if (!wrong.empty()) return wrong;
      continue;
    }
    for (int64_t place = 0; place < expected[i].count(); ++place) {
      const uint64_t a = actual[i].bits(place), b = expected[i].bits(place);
      if (a != b) return where(i, place) + std::to_string(a) + ", not " + std::to_string(b);
    }
  }
  return "";
}

}  // namespace kiln::test
