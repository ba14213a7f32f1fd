// Spaces of configs: their axes, which configs of them are valid, and how far two are apart.
#include "kiln/autotune/space.h"

#include <algorithm>
#include <map>
#include <set>

#include "kiln/dsl/config.h"
#include "kiln/dsl/instantiate.h"
#include "search/derive_space.h"

namespace kiln::autotune {
namespace {

// Above this a space is a mistake: it would take longer to list than to search.
constexpr size_t kMaxConfigs = size_t{1} << 20;
// More keep a GPU busy by themselves: parts of their loops would only add up more.
constexpr int64_t kMostSplitPrograms = 512;

// Whether workers that share all iterations have more to do than one program each, with its part of the loop, but less
// than nine tenths of two: else programs by themselves do as well.
bool come_out_uneven(int64_t programs, int64_t workers) {
  return programs > workers && 10 * programs < 9 * 2 * workers;
}

// The schedule ping_pong has two consumer groups where a program has four warps; with more it has one, and is
// persistent alone.
bool has_one_consumer_group(const Config& config) {
  const auto warps = config.find(std::string(dsl::kNumWarps));
  return dsl::schedule_option(config, dsl::kWarpSpecialise) == target::value_of(target::Schedule::kPingPong) &&
         warps != config.end() && warps->second != 4;
}

// Whether a config is valid for the workload. The IR depends on constexprs only, so that configs that differ in launch
// options share one instantiation.
class Validity {
 public:
  Validity(const dsl::Kernel& kernel, const Space& space, const Workload& workload)
      : kernel_(kernel), space_(space), workload_(workload), facts_(facts_of(kernel, workload)) {}

  Result<void> check(const Config& config) {
    const dsl::Bindings known = bindings(kernel_, workload_, config);
    for (const dsl::Condition& constraint : space_.constraints) {
      auto holds = constraint.expr.evaluate(known);
      if (!holds) return invalid_argument("kernel `" + kernel_.name + "`: where: " + holds.error().message);
      if (*holds == 0) {
        return invalid_argument("kernel `" + kernel_.name + "`: where " +
                                dsl::to_string(constraint.expr, kernel_.expr_names()) + " is false (config " +
                                to_string(config) + ")");
      }
    }
    dsl::ConstexprValues constexprs = config;
    std::erase_if(constexprs, [](const auto& item) { return dsl::is_schedule_option(item.first); });
    auto [known_before, added] = instantiated_.try_emplace(constexprs, int64_t{0});
    if (added) known_before->second = programs(constexprs, known);
    if (!known_before->second) return known_before->second.error();
    return check_split(config, *known_before->second);
  }

 private:
  Result<void> check_split(const Config& config, int64_t programs) const {
    const auto parts = config.find(std::string(dsl::kSplitK)), workers = config.find(std::string(dsl::kStreamK));
    const int64_t split = parts == config.end() ? programs : programs * parts->second;
    const auto refuse = [&](const std::string& why) {
      return invalid_argument("kernel `" + kernel_.name + "`: its programs are " + why + " (config " +
                              to_string(config) + ")");
    };
    if (parts != config.end() && split > kMostSplitPrograms) return refuse("too many to be split");
    if (workers != config.end() && workers->second > 0 && !come_out_uneven(split, workers->second)) {
      return refuse("too few or too many for workers that share their loops");
    }
    return {};
  }

  Result<int64_t> programs(const dsl::ConstexprValues& constexprs, const dsl::Bindings& known) const {
    auto concrete = dsl::instantiate(kernel_, constexprs, facts_);
    if (!concrete) return concrete.error();
    auto grid = dsl::evaluate_grid(concrete->grid, known, &*concrete);
    if (!grid) return invalid_argument("kernel `" + kernel_.name + "`: " + grid.error().message);
    const int64_t count = int64_t{(*grid)[0]} * (*grid)[1] * (*grid)[2];
    if (count == 0) return invalid_argument("kernel `" + kernel_.name + "`: the workload has no programs to measure");
    return count;
  }

  const dsl::Kernel& kernel_;
  const Space& space_;
  const Workload& workload_;
  dsl::Facts facts_;
  std::map<dsl::ConstexprValues, Result<int64_t>> instantiated_;
};

// The kernel's axes for a target: of each name the one that is for the fewest.
std::vector<dsl::SpaceAxis> axes_for(const dsl::Kernel& kernel, const std::string& target) {
  std::vector<dsl::SpaceAxis> out;
  for (const dsl::SpaceAxis& axis : kernel.space) {
    if (!axis.target.empty() && !dsl::defaults_apply(axis.target, target)) continue;
    const auto same = std::find_if(out.begin(), out.end(), [&](const auto& other) { return other.name == axis.name; });
    if (same == out.end()) {
      out.push_back(axis);
    } else if (axis.target.size() > same->target.size()) {
      *same = axis;
    }
  }
  return out;
}

}  // namespace

Result<Space> space_for(const dsl::Kernel& kernel, const std::string& target, const std::vector<dsl::SpaceAxis>& axes) {
  const std::vector<dsl::SpaceAxis> own = axes_for(kernel, target);
  Space out{!axes.empty() ? axes : !own.empty() ? own : derive_axes(kernel, target), kernel.constraints};
  std::set<std::string> names;
  for (dsl::SpaceAxis& axis : out.axes) {
    const std::string where = "kernel `" + kernel.name + "`: space `" + axis.name + "`: ";
    const bool option = dsl::is_schedule_option(axis.name) && !kernel.find_constexpr(axis.name);
    if (!option && !kernel.find_constexpr(axis.name)) {
      return invalid_argument(where + "it is neither a constexpr nor one of " + target::schedule_option_names());
    }
    if (!names.insert(axis.name).second) return invalid_argument(where + "it stands twice");
    if (axis.values.empty()) return invalid_argument(where + "it has no values");
    for (int64_t value : axis.values) {
      if (!option) break;
      if (auto fine = dsl::check_schedule_option(axis.name, value); !fine)
        return invalid_argument(where + fine.error().message);
    }
    std::sort(axis.values.begin(), axis.values.end());
    axis.values.erase(std::unique(axis.values.begin(), axis.values.end()), axis.values.end());
  }
  std::erase_if(out.axes, [&](const dsl::SpaceAxis& axis) {
    if (kernel.find_constexpr(axis.name)) return false;
    // CPUs have few threads: of them only who asks for it splits loops; and only who knows of other GPUs how many
    // workers they have.
    const std::string_view family = dsl::target_family(target);
    const bool is_for_others =
        (axis.name == dsl::kSplitK && family == "cpu") || (axis.name == dsl::kStreamK && family != "cuda");
    return (is_for_others && axes.empty()) || !has_schedule_option(kernel, target, axis.name);
  });
  return out;
}

Result<std::vector<Config>> enumerate(const dsl::Kernel& kernel, const std::string& target, const Space& space,
                                      const Workload& workload) {
  auto fallback = dsl::complete_constexprs(kernel, workload.fixed, target);
  std::vector<Config> all;
  if (fallback) all.push_back(*fallback);
  size_t count = 1;
  for (const dsl::SpaceAxis& axis : space.axes) {
    if (!workload.fixed.contains(axis.name)) count *= axis.values.size();
    if (count > kMaxConfigs)
      return invalid_argument("kernel `" + kernel.name + "`: its space has more than a million configs");
  }
  for (size_t number = 0; number < count; ++number) {
    dsl::ConstexprValues chosen = workload.fixed;
    size_t rest = number;
    for (auto axis = space.axes.rbegin(); axis != space.axes.rend(); ++axis) {
      if (workload.fixed.contains(axis->name)) continue;
      chosen[axis->name] = axis->values[rest % axis->values.size()];
      rest /= axis->values.size();
    }
    auto config = dsl::complete_constexprs(kernel, chosen, target);
    if (!config) return config.error();
    if (has_one_consumer_group(*config)) continue;
    // What a config without the option has: the same code is not measured twice.
    std::erase_if(*config, [](const auto& item) {
      const target::ScheduleOption* option = target::find_schedule_option(item.first);
      return option != nullptr && item.second == option->none;
    });
    if (all.empty() || *config != all.front()) all.push_back(std::move(*config));
  }

  auto out = valid_configs(kernel, space, workload, all);
  if (out && fallback && out->front() != *fallback) {
    auto nearest = std::min_element(out->begin(), out->end(), [&](const Config& a, const Config& b) {
      return distance(space, *fallback, a) < distance(space, *fallback, b);
    });
    std::rotate(out->begin(), nearest, nearest + 1);
  }
  return out;
}

Result<std::vector<Config>> valid_configs(const dsl::Kernel& kernel, const Space& space, const Workload& workload,
                                          const std::vector<Config>& configs) {
  Validity validity(kernel, space, workload);
  std::vector<Config> out;
  std::optional<Error> refusal;
  for (const Config& config : configs) {
    if (auto valid = validity.check(config); valid) {
      out.push_back(config);
    } else if (!refusal) {
      refusal = valid.error();
    }
  }
  if (out.empty()) return refusal ? *refusal : invalid_argument("kernel `" + kernel.name + "`: there are no configs");
  return out;
}

std::vector<double> places(const Space& space, const Config& config) {
  std::vector<double> out;
  for (const dsl::SpaceAxis& axis : space.axes) {
    auto found = config.find(axis.name);
    if (found == config.end()) {
      out.push_back(-1);
      continue;
    }
    auto above = std::upper_bound(axis.values.begin(), axis.values.end(), found->second);
    out.push_back(std::max(0.0, static_cast<double>(above - axis.values.begin()) - 1));
  }
  return out;
}

int distance(const Space& space, const Config& a, const Config& b) {
  const std::vector<double> from = places(space, a), to = places(space, b);
  double steps = 0;
  for (size_t i = 0; i < from.size(); ++i) steps += std::abs(from[i] - to[i]);
  return static_cast<int>(steps);
}

}  // namespace kiln::autotune
