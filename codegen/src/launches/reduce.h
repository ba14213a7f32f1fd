#pragma once

#include "launches/split.h"

namespace kiln::codegen {

// A long reduction of a kernel with few programs, in two steps: chunks side by side, then what they give.
//
//   %x = load (… arange {start = 0, end = 1048576} …)     step 0, 16 programs for each of the kernel:
//   %s = reduce %x {kind = sum, axis = 0}                   %i = add (arange {start = 0, end = 65536}), %chunk · 65536
//   …                                                       %x = load (… %i …)
//                                                      →    store (addptr %partial0, %chunk), (reduce %x)
//                                                         the last step, the kernel as it was but for
//                                                           %s = reduce (load %partial0 …) {kind = sum, axis = 0}
//
// The reduced axis is long (on a CPU it has 2^17 elements or more), the operand is computed from loads and pure ops on
// the spot (nothing that would lie in scratch), and nothing is written before. Chunks have 2^16 elements on a CPU,
// whatever the number of threads, and the last one what is left: in an `if` on the chunk's number. On a GPU these are
// elements of the whole tile: 2^16 of it, and chunks of 2^13. Sums and products of small floats hand on f32; argmin and
// argmax hand on the extreme and its index; custom reductions all their values.
//
// Splits the first such reduction of the sequence's last step; false when there is none.
bool split_reduction(LaunchSequence& sequence, const Lengths& lengths);

}  // namespace kiln::codegen
