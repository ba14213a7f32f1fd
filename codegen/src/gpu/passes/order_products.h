// On the tile IR: products of an iteration that need nothing of each other are begun before any is read, in the order
// in which they are, so that the next one runs while threads read the last.
//
// before                                    after
//   for %j … {                                for %j … {
//     %p = dot %a, %b, 0                        %q = dot %c, %d, 0
//     %q = dot %c, %d, 0                        %p = dot %a, %b, 0
//     %s = fma %q, %g, %sum              →      %s = fma %q, %g, %sum
//     %t = fma %p, %f, %s                       %t = fma %p, %f, %s
//     yield %t                                  yield %t
//   }                                         }
//
// In regions without effects or regions of their own.
#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

dsl::Kernel order_products(dsl::Kernel kernel);

}  // namespace kiln::codegen::gpu
