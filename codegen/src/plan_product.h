#pragma once

#include "plan.h"

namespace kiln::codegen {

// A loop that adds up products ("split-K"), in two stages: parts of the loop side by side, then their sums.
//
//   %s = for %k = %lo to %hi step 64 carry (%acc = %z) {    stage 0, `parts` programs for each of the kernel:
//     …                                                       %from = %lo + 64·min(%chunk·each, trips)
//     %d = dot %a, %b, %acc                                   %p = for %k = %from to %from + 64·each … carry (%acc = 0)
//     yield %d                                                store (addptr %partial0, %chunk·elements), %p
//   }                                                    →  the last stage:
//   store %c, (cast %s), %m                                   %s = %z + (load %partial0) + (load %partial0 + elements) …
//                                                             store %c, (cast %s), %m
//
// where trips = (%hi - %lo) / 64 rounded up, and each = trips / parts rounded up: parts begin whole steps from %lo. Sums
// of parts are added in the order of their numbers, so that results do not depend on which program is done first.
//
// The loop stands at top level; nothing is written before it or in it; its step is a constant; and all that it carries
// are sums that products alone use and add to. Where behind it there are but stores of tiles whose rows need nothing of
// each other, programs of the last stage store some rows each.
//
// Splits the first such loop; false when there is none.
bool split_product(Plan& plan, int64_t parts);

}  // namespace kiln::codegen
