#pragma once

#include "launches/launch_sequence.h"

namespace kiln::codegen {

// A loop that adds up products ("split-K"), in two steps: parts of the loop side by side, then their sums.
//
//   %s = for %k = %lo to %hi step 64 carry (%acc = %z) {    step 0, `parts` programs for each of the kernel:
//     …                                                       %p = for %k = %from to %to step 64 carry (%acc = 0) {
//     %d = dot %a, %b, %acc                                     …
//     yield %d                                                }
//   }                                                    →    store (addptr %partial0, %chunk·elements), %p
//   store %c, (cast %s), %m                                 the last step:
//                                                             %s = %z + (load %partial0) + (load %partial1) …
//                                                             store %c, (cast %s), %m
//
// Parts begin whole steps from %lo: %from = %lo + 64·min(%chunk·each, trips) and %to = min(%hi, %from + 64·each), where
// trips = (%hi - %lo) / 64 and each = trips / parts, both rounded up. Sums of parts are added in the order of their
// numbers, so that results do not depend on which program is done first.
//
// The loop stands at top level; nothing is written before it or in it; its step is a constant; and all that it carries
// are sums that products alone use and add to. Where behind it there are but stores of tiles whose rows need nothing of
// each other, programs of the last step store some rows each.
//
// Splits the first such loop; false when there is none.
bool split_product(LaunchSequence& sequence, int64_t parts);

}  // namespace kiln::codegen
