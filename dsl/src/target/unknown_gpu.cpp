// What is said of a processor that nobody knows: the nearest that are known.
#include <charconv>
#include <optional>
#include <vector>

#include "kiln/target/gpu.h"
#include "kiln/target/nearest.h"

namespace kiln::target {
namespace {

constexpr size_t kLongestShown = 80;

using Names = std::vector<std::string_view>;

template <class Gpu>
Names names_of(std::span<const Gpu> all) {
  Names out;
  for (const Gpu& gpu : all) out.push_back(gpu.name);
  return out;
}

// All, where none is similar.
Names nearest_by_letters(std::string_view name, const Names& all) {
  Names out = nearest_names(name, all);
  return out.empty() ? all : out;
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
