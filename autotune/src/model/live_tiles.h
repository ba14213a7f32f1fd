// How much a program holds at once.
#pragma once

#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::autotune {

// The largest sum of bytes of tiles that are live at one op. `computed[value]`: it depends on what was loaded; tiles
// that do not, such as indices, are recomputed where they are used. Elementwise results of one use are not held either.
double live_tile_bytes(const dsl::Kernel& kernel, const std::vector<bool>& computed);

// The bytes of the largest tile that GPUs hold in registers as a whole: what a dot adds to, or a reduction, scan or
// sort goes over.
double register_tile_bytes(const dsl::Kernel& kernel);

}  // namespace kiln::autotune
