// Code for CPUs that somebody else wrote, as LLVM IR: its function is one program's, and the entry a loop over
// programs.
//
//   void @softshrink(ptr %x, ptr %out, i32 %n, i32 %program, i32 %y, i32 %z)
//     →  i32 @kiln_entry(ptr %params, ptr %grid, i64 %first, i64 %last, ptr %ctx): for each program of first … last-1
//          call @softshrink(the parameters of %params, program mod gx, program / gx mod gy, program / gx / gy)
#pragma once

#include "kiln/abi/metadata.h"
#include "kiln/dsl/custom_kernel.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen::cpu {

Result<std::vector<std::byte>> compile_custom(const dsl::CustomRequest& request, abi::Metadata& metadata);

}  // namespace kiln::codegen::cpu
