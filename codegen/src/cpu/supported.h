// What the CPU backend lowers, asked before anything is lowered.
#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::codegen::cpu {

// An error that names the first op or option that has no lowering, with its line. Takes instantiated IR.
Result<void> check_supported(const dsl::Kernel& kernel);

}  // namespace kiln::codegen::cpu
