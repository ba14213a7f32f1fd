// What is said of a processor that nobody knows: the nearest that are known.
#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <vector>

#include "kiln/target/gpu.h"

namespace kiln::target {
namespace {

constexpr size_t kLongestShown = 80;

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

using Names = std::vector<std::string_view>;

template <class Gpu>
Names names_of(std::span<const Gpu> all) {
  Names out;
  for (const Gpu& gpu : all) out.push_back(gpu.name);
  return out;
}

// Those with the fewest letters to change; all, where these are many.
Names nearest_by_letters(std::string_view name, const Names& all) {
  constexpr size_t kSimilar = 2;
  size_t least = kSimilar + 1;
  for (std::string_view each : all) least = std::min(least, distance(name, each));
  if (least > kSimilar) return all;
  Names out;
  for (std::string_view each : all) {
    if (distance(name, each) == least) out.push_back(each);
  }
  return out;
}

// "sm_95" stands between sm_90 and sm_100, "sm_95a" between sm_90a and sm_100a.
std::optional<Names> nearest_by_number(std::string_view name) {
  constexpr std::string_view kPrefix = "sm_";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  int number = 0;
  const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (bad != std::errc()) return std::nullopt;
  const bool is_specific = end != digits.data() + digits.size();
  const NvidiaGpu *below = nullptr, *above = nullptr;
  for (const NvidiaGpu& gpu : nvidia_gpus()) {
    if (gpu.capability == number && gpu.is_specific != is_specific) return Names{gpu.name};
    if (gpu.is_specific != is_specific) continue;
    if (gpu.capability <= number) below = &gpu;
    if (gpu.capability >= number && above == nullptr) above = &gpu;
  }
  Names out;
  if (below != nullptr) out.push_back(below->name);
  if (above != nullptr && above != below) out.push_back(above->name);
  return out;
}

// "a, b and c"
std::string listed(const Names& names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    out += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + std::string(names[i]);
  }
  return out;
}

Error unknown(std::string_view target, std::string_view whose, std::string_view family, std::string_view name,
              const Names& nearest) {
  return invalid_argument("target `" + std::string(target.substr(0, kLongestShown)) + "`: no processor of " +
                          std::string(whose) + " that is known has the name `" +
                          std::string(name.substr(0, kLongestShown)) + "`; the nearest " +
                          (nearest.size() == 1 ? "is " : "are ") + listed(nearest) + ", and `" + std::string(family) +
                          "` alone is the device of this machine");
}

}  // namespace

Result<void> check_gpu_target(std::string_view target) {
  const size_t colon = target.find(':');
  const std::string_view family = target.substr(0, colon);
  if (colon == std::string_view::npos || (family != "cuda" && family != "amd")) return {};
  const std::string_view name = target.substr(colon + 1, kLongestShown);
  if (family == "amd") {
    if (find_amd_gpu(name) != nullptr) return {};
    return unknown(target, "AMD", family, name, nearest_by_letters(name, names_of(amd_gpus())));
  }
  if (find_nvidia_gpu(name) != nullptr) return {};
  const std::optional<Names> by_number = nearest_by_number(name);
  return unknown(target, "NVIDIA", family, name,
                 by_number ? *by_number : nearest_by_letters(name, names_of(nvidia_gpus())));
}

}  // namespace kiln::target
