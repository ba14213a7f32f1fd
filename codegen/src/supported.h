// What a target does not compile, asked before anything is lowered.
#pragma once

#include "kiln/dsl/ir.h"
#include "kiln/target/processor.h"

namespace kiln::codegen {

// An error that names the first op that the capability matrix has as refused (kiln/target/capabilities.h), or that a
// pass should have taken away, with its line. Takes instantiated IR; `name` is what errors of GPUs call the processor.
Result<void> check_supported(const dsl::Kernel& kernel, const target::Processor& processor, const std::string& name);

}  // namespace kiln::codegen
