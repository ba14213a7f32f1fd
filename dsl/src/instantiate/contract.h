// The pass behind the kernel option `contract`.
#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::dsl {

// Rewrites additions of a product that nothing else uses to `fma`. Takes and returns verified, instantiated IR.
Kernel contract(const Kernel& kernel);

}  // namespace kiln::dsl
