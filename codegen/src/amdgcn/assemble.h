// LLVM's assembler for AMD's GPUs.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <string>
#include <vector>

#include "kiln/dsl/result.h"

namespace kiln::codegen::amdgcn {

// A relocatable object of the text. Error: what the assembler says first, with the text's line.
Result<std::vector<std::byte>> assemble(const std::string& text, const std::string& file,
                                        const llvm::TargetMachine& machine);

}  // namespace kiln::codegen::amdgcn
