#include "kiln/target/nearest.h"

#include <algorithm>
#include <numeric>

namespace kiln::target {
namespace {

// Letters to change, to add or to leave out, until one is the other (Levenshtein).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string_view> nearest_names(std::string_view name, std::span<const std::string_view> all) {
  constexpr size_t kSimilar = 2, kLongest = 80;
  name = name.substr(0, kLongest);
  size_t least = kSimilar + 1;
  for (std::string_view each : all) least = std::min(least, distance(name, each));
  std::vector<std::string_view> out;
  if (least > kSimilar) return out;
  for (std::string_view each : all) {
    if (distance(name, each) == least) out.push_back(each);
  }
  return out;
}

std::string listed(std::span<const std::string_view> names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    out += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + std::string(names[i]);
  }
  return out;
}

}  // namespace kiln::target
