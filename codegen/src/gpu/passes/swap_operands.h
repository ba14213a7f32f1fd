// Products of several warps whose instruction wants k to run fastest in shared memory, of a second operand whose lines
// run along n. From registers the instruction takes a first operand in any order, so the operands change places:
//
//   for … carry (%acc = %zero) {               %zero' = permute %zero
//     %a = load …         ; lines along k      for … carry (%acc' = %zero') {
//     %b = load …         ; lines along n        %s' = dot (permute %b), (permute %a), %acc'
//     %s = dot %a, %b, %acc                →     yield %s'
//     yield %s                                 }
//   }                                          %sum = permute %sum'
//
// Otherwise each iteration would turn %b's lines in shared memory. Of elements of 32 bits, the instruction's words.
//
// Likewise where threads compute the second operand alone, as where weights are widened: they have it in registers, and
// would hand it over by shared memory.
#pragma once

#include "gpu/block/block_shape.h"
#include "gpu/target_info.h"

namespace kiln::codegen::gpu {

dsl::Kernel swap_operands(dsl::Kernel kernel, const TargetInfo& target, const BlockShape& block);

}  // namespace kiln::codegen::gpu
