// The pass behind the kernel option `fuse_precision`.
#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::dsl {

// Lets chains of f16, bf16 and f8 arithmetic run in f32, rounded where they end. Takes and returns verified,
// instantiated IR.
Kernel fuse_precision(const Kernel& kernel);

}  // namespace kiln::dsl
