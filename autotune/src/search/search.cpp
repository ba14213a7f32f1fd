// The searches. Each orders the open configs, and proposes the first of them.
//
//   exhaustive   as they are listed
//   random       by a hash of seed and config
//   halving      alternately the model's best and a random one, all at once; the race halves them
//   local        the model's best, then the champion's neighbours; where it has no more, a new start
//   auto         what was best for the nearest shapes, and the model's best; then what is expected to improve most on
//                the champion, by model and measurements together (surrogate.h); in its first half among configs with a
//                value that was not tried yet, while there are any
#include "search/search.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "search/surrogate.h"

namespace kiln::autotune {
namespace {

constexpr size_t kFewestConfigs = 3;  // that a search may try, whatever its share

uint64_t hash(uint64_t seed, const Config& config) {
  // FNV-1a, finished as splitmix64 is.
  uint64_t out = 0xcbf29ce484222325u ^ seed * 0x9e3779b97f4a7c15u;
  for (char c : to_string(config)) out = (out ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  out = (out ^ out >> 30) * 0xbf58476d1ce4e5b9u;
  out = (out ^ out >> 27) * 0x94d049bb133111ebu;
  return out ^ out >> 31;
}

class Proposals {
 public:
  Proposals(const Standing& standing, size_t count)
      : open_(standing.open.begin(), standing.open.end()),
        room_(std::min(count, standing.limit > standing.tried ? standing.limit - standing.tried : 0)) {}

  bool full() const { return chosen_.size() >= room_; }
  bool take(size_t config) {
    if (full() || !open_[config]) return false;
    open_[config] = 0;
    chosen_.push_back(config);
    return true;
  }
  // The open config of the lowest cost that passes. Returns whether there was one.
  template <class Cost, class Filter>
  bool take_best(const Cost& cost, const Filter& passes) {
    size_t best = open_.size();
    for (size_t i = 0; i < open_.size(); ++i) {
      if (open_[i] && passes(i) && (best == open_.size() || cost(i) < cost(best))) best = i;
    }
    return best < open_.size() && take(best);
  }
  template <class Cost>
  bool take_best(const Cost& cost) {
    return take_best(cost, [](size_t) { return true; });
  }
  bool none() const { return chosen_.empty(); }
  const std::vector<size_t>& chosen() const { return chosen_; }

 private:
  std::vector<char> open_;
  size_t room_;
  std::vector<size_t> chosen_;
};

// The configs of this space that are nearest to them, where they are no more than a step away.
void add_transferred(const Standing& standing, Proposals& out) {
  for (const Config& config : standing.transferred) {
    auto steps = [&](size_t i) { return distance(standing.space, config, standing.configs[i]); };
    size_t nearest = 0;
    for (size_t i = 1; i < standing.configs.size(); ++i) {
      if (steps(i) < steps(nearest)) nearest = i;
    }
    if (steps(nearest) <= 1) out.take(nearest);
  }
}

Surrogate surrogate_of(const Standing& standing) {
  return Surrogate(standing.space, standing.configs, standing.predicted, standing.measured);
}

// The champion's neighbours, the most promising first; where it has none left, any config.
void add_neighbours(const Standing& standing, Proposals& out) {
  const Surrogate surrogate = surrogate_of(standing);
  auto expected = [&](size_t i) { return surrogate.expected_us(i); };
  auto is_neighbour = [&](size_t i) {
    return distance(standing.space, standing.configs[i], standing.configs[standing.champion]) == 1;
  };
  while (out.take_best(expected, is_neighbour)) continue;
  if (out.none()) out.take_best(expected);
}

// The values of each axis that were tried, or are about to be.
class Values {
 public:
  explicit Values(const Standing& standing) : standing_(standing) {
    for (size_t i = 0; i < standing.configs.size(); ++i) {
      if (!std::isnan(standing.measured[i])) add(i);
    }
    for (size_t i : standing.under_way) add(i);
  }
  void add(size_t config) { seen_.insert(standing_.configs[config].begin(), standing_.configs[config].end()); }
  bool lacks(size_t config) const {
    const Config& values = standing_.configs[config];
    return std::any_of(values.begin(), values.end(), [&](const auto& item) { return !seen_.contains(item); });
  }

 private:
  const Standing& standing_;
  std::set<std::pair<std::string, int64_t>> seen_;
};

void add_improving(const Standing& standing, Proposals& out) {
  Surrogate surrogate = surrogate_of(standing);
  for (size_t i : standing.under_way) surrogate.assume(i);
  for (size_t i : out.chosen()) surrogate.assume(i);
  Values tried(standing);
  for (size_t i : out.chosen()) tried.add(i);
  auto improvement = [&](size_t i) { return -surrogate.improvement(i); };
  auto is_new = [&](size_t i) { return tried.lacks(i); };
  for (bool more = true; more;) {
    // The first half covers the axes: a value that nobody has tried may be what matters.
    const bool early = 2 * (standing.tried + out.chosen().size()) < standing.limit;
    more = (early && out.take_best(improvement, is_new)) || out.take_best(improvement);
    if (!more) return;
    surrogate.assume(out.chosen().back());
    tried.add(out.chosen().back());
  }
}

}  // namespace

std::vector<size_t> propose(Search search, const Standing& standing, uint64_t seed, size_t count) {
  Proposals out(standing, search == Search::kHalving ? standing.limit : count);
  auto by_model = [&](size_t i) { return standing.predicted[i]; };
  auto by_hash = [&](size_t i) { return hash(seed, standing.configs[i]); };
  switch (search) {
    case Search::kExhaustive:
      while (out.take_best([](size_t i) { return i; })) continue;
      break;
    case Search::kRandom:
      while (out.take_best(by_hash)) continue;
      break;
    case Search::kHalving:
      while (out.take_best(by_model) && out.take_best(by_hash)) continue;
      break;
    case Search::kLocal:
      if (standing.tried <= 1)
        out.take_best(by_model);
      else
        add_neighbours(standing, out);
      break;
    case Search::kAuto:
      if (standing.tried <= 1 + standing.transferred.size()) {
        add_transferred(standing, out);
        out.take_best(by_model);
      }
      add_improving(standing, out);
      break;
  }
  return out.chosen();
}

size_t search_limit(Search search, double share, size_t configs) {
  if (search == Search::kExhaustive) return configs;
  const double many = std::clamp(share, 0.0, 1.0) * static_cast<double>(configs);
  return std::min(configs, std::max(kFewestConfigs, static_cast<size_t>(many)));
}

}  // namespace kiln::autotune
