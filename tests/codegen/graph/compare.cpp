#include "compare.h"

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

std::string difference(std::span<const graph::Array> actual, std::span<const graph::Array> expected, double ulps,
                       std::optional<dsl::ElementType> coarsest) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (actual[i].shape != expected[i].shape) return "output " + std::to_string(i) + " has another shape";
    const bool is_float = dsl::is_float(expected[i].element);
    double largest = 0;
    for (int64_t place = 0; is_float && place < expected[i].count(); ++place) {
      const double number = std::abs(expected[i].number(place));
      if (std::isfinite(number)) largest = std::max(largest, number);
    }
    for (int64_t place = 0; place < expected[i].count(); ++place) {
      const std::string where = "output " + std::to_string(i) + ", element " + std::to_string(place) + ": ";
      if (!is_float) {
        if (actual[i].bits(place) == expected[i].bits(place)) continue;
        return where + std::to_string(actual[i].bits(place)) + ", not " + std::to_string(expected[i].bits(place));
      }
      const double a = actual[i].number(place), b = expected[i].number(place);
      if (std::isnan(a) && std::isnan(b)) continue;
      if (a == b) continue;
      const double unit = std::max(epsilon(expected[i].element), coarsest ? epsilon(*coarsest) : 0.0);
      const double bound = ulps * unit * std::max(std::abs(b), largest);
      if (std::abs(a - b) <= bound) continue;
      char text[100];
      std::snprintf(text, sizeof text, "%.17g, not %.17g", a, b);
      return where + text;
    }
  }
  return "";
}

}  // namespace kiln::test
