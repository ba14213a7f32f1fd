// Which configs to try next.
#pragma once

#include <span>
#include <vector>

#include "kiln/autotune/tune.h"

namespace kiln::autotune {

// What a search knows. All spans are as long as the list of configs.
struct Standing {
  const Space& space;
  std::span<const Config> configs;
  std::span<const double> predicted;    // by the model, us
  std::span<const double> measured;     // us; NaN where there is none, infinite where it failed
  std::span<const char> open;           // may be proposed
  size_t champion = 0;                  // the best so far
  size_t tried = 0, limit = 0;          // configs that were tried, and that may be
  std::span<const Config> transferred;  // what was best for other shapes, the nearest first
  std::span<const size_t> under_way;    // proposed, and not measured yet
};

// At most `count` configs by number, without state: the same standing gives the same proposals. None: the search is
// over.
std::vector<size_t> propose(Search search, const Standing& standing, uint64_t seed, size_t count);

// How many configs a search may try.
size_t search_limit(Search search, double share, size_t configs);

}  // namespace kiln::autotune
