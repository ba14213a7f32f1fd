// Sums over lanes that are finished behind the loop that adds them up:
//
//   %t = for … carry (%a = 0) {                  %p = for … carry (%a = 0) {
//     %s = reduce %x {kind = sum}                  %s = the sum of what a lane has of %x
//     yield fma %a, %f, %s                  →      yield fma %a, %f, %s
//   }                                            }
//                                                %t = sum of all lanes' %p
//
// %f is the same in the lanes that share a sum, so that they may be scaled one by one. Nothing else uses %a and %s; of
// reductions that need no other warps.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

struct DeferredReduction {
  size_t carried;               // the number of the carried tile
  ValueId sum;                  // the reduction's result
  std::vector<unsigned> lanes;  // bits in which lanes that share a sum differ
};

std::vector<DeferredReduction> plan_deferred_reductions(const Context& ctx, const Op& loop);
// From the registers of a loop's result.
Registers finish_deferred_reduction(Context& ctx, const DeferredReduction& deferred, Registers registers);

}  // namespace kiln::codegen::gpu
