#include "kiln/autotune/choose.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "kiln/autotune/shipped.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/instantiate.h"
#include "search/tune_entries.h"

namespace kiln::autotune {
namespace {

constexpr size_t kFewConfigs = 64;       // that are looked at without a word of their worth
constexpr size_t kFewWinners = 16;       // the nearest
constexpr double kSure = 1.15;           // of what the default takes: less, and the model does not know
constexpr double kAsGood = 1.05;         // what is compiled already does as well
constexpr double kNearShape = 1;         // powers of two between shapes of which the same config is the best
constexpr int64_t kAligned = 16;         // a fact of sizes that code is made for
constexpr double kOtherAlignment = 1.5;  // powers of two, about
constexpr double kLossByDistance = .02;  // for each power of two between a winner's shape and this one

void add_constexprs(const dsl::Expr& expr, std::set<uint32_t>& out) {
  for (const dsl::Term& term : expr.terms()) {
    for (const dsl::Atom& atom : term.atoms) {
      if (atom.kind == dsl::AtomKind::kConstexpr) out.insert(atom.index);
      if (!atom.args) continue;
      add_constexprs(atom.args->first, out);
      add_constexprs(atom.args->second, out);
    }
  }
}

size_t configs_of(const Space& space, const Workload& workload) {
  size_t out = 1;
  for (const dsl::SpaceAxis& axis : space.axes) {
    if (!workload.fixed.contains(axis.name)) out *= axis.values.size();
  }
  return out;
}

// Without the axes that do not cut the grid: they keep their defaults.
Space thinned(const dsl::Kernel& kernel, Space space) {
  std::set<uint32_t> cuts;
  for (const dsl::Expr& extent : kernel.grid) add_constexprs(extent, cuts);
  std::erase_if(space.axes, [&](const dsl::SpaceAxis& axis) {
    const auto index = kernel.find_constexpr(axis.name);
    return index ? !cuts.contains(static_cast<uint32_t>(*index)) : axis.name != dsl::kNumWarps;
  });
  return space;
}

// An option that says the same as none makes no difference.
Config normal(Config config) {
  std::erase_if(config, [](const auto& item) {
    const target::ScheduleOption* option = target::find_schedule_option(item.first);
    return option != nullptr && item.second == option->none;
  });
  return config;
}

// Whether a grid of twice the sizes is one: launches of other shapes of the class take the config too.
bool has_room(const dsl::Kernel& kernel, const Workload& workload, const Config& config) {
  dsl::Bindings twice = bindings(kernel, workload, config);
  for (auto& value : twice.params) {
    if (value && *value > 0 && *value < INT64_MAX / 2) *value *= 2;
  }
  return dsl::evaluate_grid(kernel.grid, twice, &kernel).ok();
}

struct Considered {
  Config config;
  bool compiled = false;
  Terms terms;
  double us = 0;  // with what speaks against it
  std::string source = {};
  double distance = 0;
};

// Those that may be taken, the default first.
Result<std::vector<Considered>> consider(const Job& job, const Choosing& choosing) {
  auto fallback = dsl::complete_constexprs(job.kernel, job.workload.fixed, job.target);
  if (!fallback) return fallback.error();
  std::vector<Considered> out = {{.config = std::move(*fallback), .compiled = true, .terms = {}}};
  const auto find = [&](const Config& config) {
    return std::ranges::find_if(out, [&](const Considered& one) { return normal(one.config) == normal(config); });
  };
  const auto add = [&](const Config& config, bool compiled) {
    if (find(config) == out.end()) out.push_back({.config = config, .compiled = compiled, .terms = {}});
  };
  for (const Config& config : choosing.compiled) {
    const bool is_ours = std::ranges::all_of(job.workload.fixed, [&](const auto& item) {
      const auto found = config.find(item.first);
      return found != config.end() && found->second == item.second;
    });
    if (is_ours) add(config, true);
  }
  std::vector<Winner> winners = choosing.winners;
  std::ranges::stable_sort(winners, {}, &Winner::distance);
  winners.resize(std::min(winners.size(), kFewWinners));
  for (const Winner& winner : winners) {
    auto config = dsl::complete_constexprs(job.kernel, winner.config, job.target);
    if (!config) continue;  // the kernel has changed
    if (choosing.more) add(*config, false);
    const auto known = find(*config);
    if (known == out.end() || !known->source.empty()) continue;
    known->source = winner.source;
    known->distance = winner.distance;
  }
  if (!winners.empty()) return out;
  if (!choosing.more) return out;
  auto few = few_configs(job);
  if (!few) return few.error();
  for (const Config& config : *few) add(config, false);
  return out;
}

// As bucket_distance() has it; a shape of other alignments is farther than one of other sizes.
double apart(const std::string& a, const std::string& b) {
  const auto uneven = [](const std::string& bucket) {
    std::vector<bool> out;
    const size_t end = bucket.find(';');
    for (size_t i = bucket.find('='); i < end; i = bucket.find('=', i + 1)) {
      out.push_back(std::strtoll(bucket.c_str() + i + 1, nullptr, 10) % kAligned != 0);
    }
    return out;
  };
  return bucket_distance(a, b) + (uneven(a) == uneven(b) ? 0 : kOtherAlignment);
}

// What was measured for another shape fits; of other configs only what is sure to.
bool may_fit(const Machine& machine, const Work& work, const Considered& one) {
  if (dsl::target_family(machine.target) == "cuda" && one.source.empty() && !one.compiled) {
    return registers_fit(machine, work, one.config) == Fit::kFits;
  }
  return reason_against(machine, work, one.config).empty();
}

std::string share_text(double share) { return std::to_string(std::lround(100 * share)) + " %"; }

}  // namespace

std::vector<Winner> winners_for(const RecordKey& key, Records* records, const Shipped* shipped) {
  std::vector<Winner> out;
  if (records) {
    // Records that cannot be read are as none.
    const auto neighbours = records->neighbours(key);
    for (const Record& record : neighbours ? *neighbours : std::vector<Record>()) {
      out.push_back({record.config, apart(record.key.bucket, key.bucket), "tuned"});
    }
  }
  if (!shipped) return out;
  for (const auto& [bucket, choice] : shipped->all(key)) {
    out.push_back({choice.config, apart(bucket, key.bucket), choice.predicted ? "predicted" : "shipped"});
  }
  return out;
}

Result<std::vector<Config>> few_configs(const Job& job) {
  auto space = space_for(job.kernel, job.target, job.axes);
  if (!space) return space.error();
  if (configs_of(*space, job.workload) > kFewConfigs) space = thinned(job.kernel, std::move(*space));
  return enumerate(job.kernel, job.target, *space, job.workload);
}

Result<Choice> choose(const Job& job, const Machine& machine, const Choosing& choosing) {
  auto all = consider(job, choosing);
  if (!all) return all.error();
  const Space anything{{}, job.kernel.constraints};
  CountedWork counted(job);
  std::vector<Considered> sound;
  bool estimated = false;
  for (Considered& one : *all) {
    const bool is_default = &one == &all->front();
    if (auto valid = valid_configs(job.kernel, anything, job.workload, {one.config}); !valid) {
      if (is_default) return valid.error();
      continue;
    }
    if (!is_default && !has_room(job.kernel, job.workload, one.config)) continue;
    auto work = counted.of(one.config);
    if (!work) return work.error();
    estimated |= work->estimated;
    if (!is_default && !may_fit(machine, *work, one)) continue;
    one.terms = cost_terms(machine, *work, one.config);
    one.us = one.terms.us() * (1 + kLossByDistance * one.distance);
    sound.push_back(std::move(one));
  }

  const Considered& fallback = sound.front();
  const auto least = [&](bool compiled) {
    const Considered* out = nullptr;
    for (const Considered& one : sound) {
      if (one.compiled == compiled && (out == nullptr || one.us < out->us)) out = &one;
    }
    return out;
  };
  const Considered *best = least(true), *fresh = least(false);
  if (fresh != nullptr && fresh->us * kAsGood < best->us) best = fresh;

  Choice out{.config = fallback.config, .terms = fallback.terms, .default_terms = fallback.terms};
  out.candidates = sound.size();
  const auto far = [](const Considered& one) { return one.source.empty() ? INFINITY : one.distance; };
  const auto near = std::ranges::min_element(sound, {}, far);
  if (far(*near) <= kNearShape) {
    out.source = near->source;
    out.why = "it was the best for a shape near by";
    out.config = near->config;
    out.terms = near->terms;
    return out;
  }
  if (estimated) {
    out.why = "the model is not sure: what the kernel does depends on data";
  } else if (best == &fallback) {
    out.why = "none of " + std::to_string(sound.size()) + " configs promises more than the default";
  } else if (best->us * kSure > fallback.us) {
    out.why = "the model is not sure: the best of " + std::to_string(sound.size()) + " configs promises " +
              share_text(1 - best->us / fallback.us) + " less time than the default";
  } else {
    out.why = "the first of " + std::to_string(sound.size()) +
              " configs by the cost model: " + share_text(1 - best->us / fallback.us) + " less time than the default";
    out.source = "predicted";
    out.config = best->config;
    out.terms = best->terms;
  }
  return out;
}

}  // namespace kiln::autotune
