// Loads of one number for each row of what a product sums up, or of its first operand, in pipelined loops:
//
//   for %j … {
//     %a = load …; %b = load …                             ; staged (pipeline.h)
//     %s = load …                                          ; [BM]
//     %p = dot %a, %b, 0
//     %sum' = fma %p, (expand_dims %s {axis = 1}), %sum
//   }
//
// A lane wants those of the few rows that it holds, and loads them itself. Spread over all threads they would be handed
// over by shared memory, where in each iteration all warps would wait for each other, those that may drift apart too.
#pragma once

#include <set>

#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

// Those in the body of a loop that writes nothing and multiplies.
std::set<const dsl::Op*> row_operands(const dsl::Kernel& kernel, const dsl::Op& loop);

}  // namespace kiln::codegen::gpu
