// How many threads a program gets.
#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

struct LaunchShape {
  int warps = 4;
};

// What the config says (num_warps), else what suits an instantiated kernel's largest tile. `lanes`: of a warp.
LaunchShape launch_shape(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, int lanes);

}  // namespace kiln::codegen::gpu
