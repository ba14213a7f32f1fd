#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::codegen {

// What a loop computes anew in each iteration although it is always the same moves before it.
//
//   for %k = %lo to %hi step %st {                  %b = mul %pid, %size
//     %b = mul %pid, %size                   →      for %k = %lo to %hi step %st {
//     %p = addptr %x, (add %b, %k)                    %p = addptr %x, (add %b, %k)
//
// Scalars, and tiles that are worth keeping (elementary functions, dots, reductions, sorts, …). Tiles of index
// arithmetic and masks stay where they are used: they cost nothing there, and are seen through; where an op that moves
// needs one, it takes a copy along. Loads move only out of a `for` that surely runs and in which nothing writes.
dsl::Kernel licm(dsl::Kernel kernel);

}  // namespace kiln::codegen
