#pragma once

#include "launches/launch_sequence.h"

namespace kiln::codegen {

// A loop that adds up products ("stream-K"), in two steps: the iterations of all programs of the kernel, one after the
// other, dealt out evenly to so many workers; then sums of what each of them had of a program.
//
//   %x = program_id {axis = 0}                     step 0, `chunks` programs for each of the kernel; %worker: its
//   number …                                                among all of them: %s = for %k = %lo to %hi step 64 for %t
//   = %first / %trips to %end / %trips (rounded up) {
//       carry (%acc = %z) {                            %x = rem %t, (num_programs {axis = 0})
//     …                                                …
//     %d = dot %a, %b, %acc                            %p = for %k = %from to %to step 64 carry (%acc = 0) {
//     yield %d                                           …
//   }                                                  }
//   store %c, (cast %s), %m                  →         store (addptr %partial_of_t, %slot·elements), %p
//                                                    }
//                                                  the last step:
//                                                    %s = %z + (load %partial0) + (load %partial1, %n > 1) …
//                                                    store %c, (cast %s), %m
//
// Where the kernel has `tiles` programs, numbered as in its grid, axis 0 fastest, and each has `trips` iterations,
//
//   each   = tiles·trips / min(workers, tiles·chunks), rounded up, 1 at least
//   %first = %worker·each; %end = min(%first + each, tiles·trips)
//
// which leaves nothing to programs of the step behind the last worker. Of program t the worker has the iterations
// max(%first - t·trips, 0) … min(%end - t·trips, trips), and puts their sums into slot %worker - (t·trips) / each. As
// workers have at least trips / chunks iterations, a program has chunks + 1 slots at most; those in use are the first
// ((t + 1)·trips / each, rounded up) - (t·trips) / each. They are added up in the order of their numbers, so that
// results do not depend on which worker is done first.
//
// The loop is one that launches/loop.h finds, with bounds that are the same in all programs: of parameters and
// constants alone; its sums have elements of one width. What is the same in all programs stays before the loop over
// programs.
//
// Splits the first such loop; false when there is none.
bool stream_product(LaunchSequence& sequence, int64_t workers, int64_t chunks);

}  // namespace kiln::codegen
