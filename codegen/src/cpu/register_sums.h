// Loops that only add up: what an iteration adds depends on it by scalars alone, so the loop runs inside of the walk,
// and the sums stay in registers.
//
//   for %j … carry (%s = zeros)        for each chunk of the tile:
//     %a = load %p + %j                  load x; s = 0
//     %t = f(%a, %x)              →      for %j: load a; s += f(a, x)
//     yield add(%s, %t)                  store s
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

// Whether a `for` is such a loop. Its body has no effect, and reads no tile from memory: rows of an array are better
// walked one after the other. Each old sum is read by the op that makes the new one and by nothing else, so that the
// iterations hide each other's latency.
bool adds_in_registers(const Context& ctx, const Op& loop);
Result<void> lower_register_sums(Context& ctx, const Op& loop);

}  // namespace kiln::codegen::cpu
