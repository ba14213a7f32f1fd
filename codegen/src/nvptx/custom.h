// Code for NVIDIA's GPUs that somebody else wrote: PTX, or LLVM IR that becomes PTX.
#pragma once

#include "kiln/abi/metadata.h"
#include "kiln/dsl/custom_kernel.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen::nvptx {

Result<std::vector<std::byte>> compile_custom(const dsl::CustomRequest& request, abi::Metadata& metadata);

// That `.entry NAME` of the PTX takes the declaration's parameters, each of as many bytes. PTX ISA, "Kernel function
// parameters".
Result<void> check_ptx_entry(const dsl::CustomRequest& request);

}  // namespace kiln::codegen::nvptx
