// Code for AMD's GPUs that somebody else wrote: assembly, or LLVM IR.
#pragma once

#include "kiln/abi/metadata.h"
#include "kiln/dsl/custom_kernel.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen::amdgcn {

Result<std::vector<std::byte>> compile_custom(const dsl::CustomRequest& request, abi::Metadata& metadata);

}  // namespace kiln::codegen::amdgcn
