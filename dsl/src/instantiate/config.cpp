#include "kiln/dsl/config.h"

#include <algorithm>

namespace kiln::dsl {
namespace {

constexpr int64_t kMostSplitK = 64, kMostCluster = 2, kMostWarpSpecialise = 4, kMostStreamK = 1024;
constexpr std::array<std::string_view, 3> kFamilies = {"cpu", "cuda", "amd"};

// Whether a launch option makes a difference to a target.
bool has_launch_option(std::string_view target, std::string_view name) {
  const std::string_view family = target_family(target);
  const bool is_of_amd = name == kWavesPerEu || name == kChiplets;
  if (family == "interp") return false;
  if (name == kSplitK || name == kStreamK) return true;
  if (family == "cpu") return false;
  if (name == kWarpSpecialise || name == kCluster) return target == "cuda:sm_90a" || family.empty();
  return !is_of_amd || family == "amd" || family.empty();
}

Result<void> check_names(const Kernel& kernel, const ConstexprValues& values) {
  for (const auto& [name, value] : values) {
    if (kernel.find_constexpr(name)) continue;
    if (is_launch_option(name)) {
      if (auto fine = check_launch_option(name, value); !fine) {
        return invalid_argument("kernel `" + kernel.name + "`: " + fine.error().message);
      }
      continue;
    }
    std::string known;
    for (const Constexpr& item : kernel.constexprs) known += (known.empty() ? "" : ", ") + item.name;
    return invalid_argument("kernel `" + kernel.name + "` has no constexpr `" + name + "`" +
                            (known.empty() ? "; it has none" : "; it has " + known));
  }
  return {};
}

}  // namespace

bool is_launch_option(std::string_view name) {
  return std::find(kLaunchOptions.begin(), kLaunchOptions.end(), name) != kLaunchOptions.end();
}

Result<void> check_launch_option(std::string_view name, int64_t value) {
  const bool warps = name == kNumWarps;
  if (name == kWarpSpecialise) {
    if (value >= 0 && value <= kMostWarpSpecialise) return {};
    return invalid_argument("launch option `" + std::string(name) + "` is " + std::to_string(value) +
                            "; it must be 0 to " + std::to_string(kMostWarpSpecialise));
  }
  if (name == kStreamK) {
    if (value >= 0 && value <= kMostStreamK) return {};
    return invalid_argument("launch option `" + std::string(name) + "` is " + std::to_string(value) +
                            "; it must be 0 to " + std::to_string(kMostStreamK));
  }
  const int64_t most = name == kSplitK ? kMostSplitK : name == kCluster ? kMostCluster : 8;
  const bool fine = warps ? value == 1 || value == 2 || value == 4 || value == 8 || value == 16 || value == 32
                          : value >= 1 && value <= most;
  if (fine) return {};
  return invalid_argument("launch option `" + std::string(name) + "` is " + std::to_string(value) + "; it must be " +
                          (warps ? "1, 2, 4, 8, 16 or 32" : "1 to " + std::to_string(most)));
}

std::string_view target_family(std::string_view target) { return target.substr(0, target.find(':')); }

bool defaults_apply(std::string_view name, std::string_view target) {
  return name == target || name == target_family(target);
}

std::string target_defaults_problem(const Kernel& kernel, std::string_view target, const ConstexprValues& values) {
  if (std::find(kFamilies.begin(), kFamilies.end(), target_family(target)) == kFamilies.end() ||
      target.ends_with(':')) {
    std::string known;
    for (std::string_view family : kFamilies) known += (known.empty() ? "" : ", ") + std::string(family);
    return "there are no targets `" + std::string(target.substr(0, 80)) + "`; there are " + known;
  }
  for (const auto& [name, value] : values) {
    if (kernel.find_constexpr(name)) continue;
    if (!is_launch_option(name)) return "`" + name + "` is neither a constexpr nor " + std::string(kLaunchOptionNames);
    if (auto fine = check_launch_option(name, value); !fine) return fine.error().message;
  }
  return "";
}

Result<ConstexprValues> complete_constexprs(const Kernel& kernel, const ConstexprValues& values,
                                            std::string_view target) {
  if (auto fine = check_names(kernel, values); !fine) return fine.error();
  ConstexprValues out = values;
  // A family's name comes before those of its members; what stands in the map already stays.
  for (auto entry = kernel.target_defaults.rbegin(); entry != kernel.target_defaults.rend(); ++entry) {
    if (defaults_apply(entry->first, target)) out.insert(entry->second.begin(), entry->second.end());
  }
  for (const Constexpr& item : kernel.constexprs) {
    if (item.default_value) out.emplace(item.name, *item.default_value);
    if (!out.contains(item.name)) {
      return invalid_argument("kernel `" + kernel.name + "`: constexpr `" + item.name +
                              "` has no value and no default");
    }
  }
  std::erase_if(
      out, [&](const auto& item) { return is_launch_option(item.first) && !has_launch_option(target, item.first); });
  return out;
}

}  // namespace kiln::dsl
