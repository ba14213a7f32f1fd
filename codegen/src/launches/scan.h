#pragma once

#include "launches/split.h"

namespace kiln::codegen {

// A long scan of a kernel with few programs, in three steps: totals of chunks, what comes before each chunk, and scans
// of chunks behind that.
//
//   %x = load (… arange {start = 0, end = 1048576} …)     step 0, 128 programs for each of the kernel:
//   %s = scan %x {kind = sum, axis = 0}                     store (%partial0 + %chunk), (reduce (8192 elements of %x))
//   store (… arange …), (mul %s, 2)                  →    step 1:
//                                                           store %partial0 …, (scan (load %partial0 …))
//                                                         the last step, 128 programs:
//                                                           %t = scan (8192 elements of %x) {kind = sum, axis = 0}
//                                                           %p = load (%partial0 + max(%chunk - 1, 0))
//                                                           %s = select %chunk > 0, %p + %t, %t
//                                                           store (… arange …), (mul %s, 2)
//
// What is scanned is computed on the spot, nothing is written before, and the kernel does nothing with the result but
// store what is computed from it by elements (launches/stores.h). The order of elements is kept, for regions that do
// not commute; chunks have the same elements whatever the number of threads, so that sums of floats do not depend on
// it. A scan from the end (reverse) begins with the last chunk. Sums and products of small floats hand on f32.
bool split_scan(LaunchSequence& sequence, const Lengths& lengths);

}  // namespace kiln::codegen
