// The config of a launch of which nothing was measured: what the cost model ranks first among few.
#pragma once

#include <string>
#include <vector>

#include "kiln/autotune/tune.h"

namespace kiln::autotune {

// What was best for another shape of the kernel.
struct Winner {
  Config config;
  double distance = 0;      // of the shapes, by bucket_distance()
  std::string source = {};  // "tuned" here, "shipped", or "predicted" by what ships
};
// Those that the records know of this hardware, and those that ship. Null: there are none.
std::vector<Winner> winners_for(const RecordKey& key, Records* records, const Shipped* shipped);

struct Choosing {
  std::vector<Config> compiled = {};  // beside the default: taken where they are about as good as what is not
  bool more = true;                   // whether another one may be compiled
  std::vector<Winner> winners = {};   // what is tried; none: the kernel's space, thinned to few
};

struct Choice {
  Config config = {};
  std::string source = "default";  // or "predicted"; "tuned" or "shipped" where a winner is near
  std::string why = {};            // for people
  Terms terms = {}, default_terms = {};
  size_t candidates = 0;
};

// Measures and compiles nothing. The default is chosen where the model is not sure: figures depend on data, or nothing
// promises enough. Every config is valid for this workload, and its grid for one of twice the sizes. Error: the kernel
// has no valid config.
Result<Choice> choose(const Job& job, const Machine& machine, const Choosing& choosing);

// The configs that a choice without winners looks at, the default first: all of a small space; of a larger one those
// that differ in how the grid is cut, and in warps.
Result<std::vector<Config>> few_configs(const Job& job);

}  // namespace kiln::autotune
