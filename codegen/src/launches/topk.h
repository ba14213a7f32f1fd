#pragma once

#include "launches/split.h"

namespace kiln::codegen {

// A long topk of a kernel with few programs, in two steps: the k of each chunk, then the k of those. Conditions are
// those of split_reduction, along the last axis; a chunk has at least 16·k elements, the last one k: a rest of fewer
// joins the chunk before it.
//
//   %x = load (… arange {start = 0, end = 1048576} …)      step 0, 16 programs for each of the kernel:
//   %v, %i = topk %x {k = 4, axis = 0}                       %v, %j = topk (65536 elements of %x) {k = 4, axis = 0}
//                                                            store (%partial0 + 4·%chunk …), %v
//                                                     →      store (%partial1 + 4·%chunk …), %j + %chunk·65536
//                                                          the last step:
//                                                            %v, %n = topk (load %partial0 …) {k = 4, axis = 0}
//                                                            %i = load (%partial1 + %n)
//
// Candidates of equal value stand in the order of their indices, so that the lowest one still comes first. Indices that
// nobody wants are not handed on.
bool split_topk(LaunchSequence& sequence, const Lengths& lengths);

}  // namespace kiln::codegen
