// Where the threads of a CPU runner run.
#pragma once

#include <vector>

#include "kiln/dsl/result.h"

namespace kiln::autotune {

// One CPU a core, of those that this process may use, the first `threads` (0: all). Error: there are fewer.
Result<std::vector<int>> choose_cpus(int threads);

// Ties the process to such CPUs and gives them; there is one OpenMP thread for each, which ties itself to its own
// (ThreadTies). OpenMP reads its settings before main begins, so the process starts itself anew, once: what comes
// back is its second life, or what failed.
Result<std::vector<int>> place_threads(int threads, char** arguments);

}  // namespace kiln::autotune
