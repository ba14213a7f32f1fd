// Shapes of library kernels that a seed draws, for bench-config: sizes by their logarithm, half of them multiples of
// 64, as those of models are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/autotune/jobs.h"

namespace kiln::bench {

// The `index`-th of a seed: equal ones are of the same shape on every machine. Kernels take turns. A GPU gets larger
// shapes, and bf16.
autotune::JobSpec drawn_job(uint64_t seed, size_t index, bool gpu);

// How many kernels take turns.
size_t drawn_kernels();

}  // namespace kiln::bench
