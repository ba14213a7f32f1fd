// What the GPU lowering does not do yet.
#pragma once

#include "kiln/dsl/ir.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen::gpu {

// An error that names the first op, or the option, that is not lowered, with its line; `processor` names the target.
Result<void> check_supported(const dsl::Kernel& kernel, const std::string& processor);

}  // namespace kiln::codegen::gpu
