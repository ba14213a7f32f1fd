// Times of kernels on machines that do not exist, as such times come out: reuse that grows with tiles, registers that
// run out, last waves that are not full, programs too few or too small; and what a cost model that knows half of it
// would say.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kiln/autotune/space.h"

namespace kiln::autotune::surfaces {

struct Surface {
  std::string name;
  Space space;
  std::vector<Config> configs;
  std::vector<double> us;         // by config
  std::vector<double> predicted;  // by a model that is better or worse
  size_t fallback = 0;            // the config in the middle of the axes
};

// Products, rows, tiles of two dimensions, column sums, attention, and bowls whose model is wrong or whose configs are
// slow here and there for no reason. `variant` changes what is rugged, the default, and the bowls' places.
std::vector<Surface> all(uint64_t variant);

}  // namespace kiln::autotune::surfaces
