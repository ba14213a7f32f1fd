#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

// Reductions in loops stay in their threads; what the threads have is combined once, behind the loop.
//
//   %r = for %k = … carry (%a = %init) : f32 {         %z = splat -0.0 : tile<[N], f32>
//     %s = reduce %x {kind = sum, axis = 0} : f32      %p = for %k = … carry (%b = %z) : tile<[N], f32> {
//     %n = add %a, %s : f32                        →     %m = add %b, %x : tile<[N], f32>
//     yield %n                                           yield %m
//   }                                                  }
//                                                      %t = reduce %p {kind = sum, axis = 0} : f32
//                                                      %r = add %init, %t : f32
//
// The same of every kind that an op combines by, of ints, f32 and f64, where nothing else uses %a, %s and %n: sums of
// floats have no fixed order. Not where a thread would carry many partial results of its own.
dsl::Kernel defer_reductions(dsl::Kernel kernel, int threads);

}  // namespace kiln::codegen::gpu
