#pragma once

#include "launches/split.h"

namespace kiln::codegen {

// A long sort of a kernel with few programs, of a tile of one axis, in three steps: on a CPU of 2^19 elements or more,
// on a GPU of 2^15. Other conditions are those of split_reduction.
//
//   step 0       each chunk of the axis is sorted: its *run*, in the workspace
//   step 1       each chunk of the result: how many elements of each run come before it and before its end are found
//                side by side, by bisection of keys (sort_boundary.h); so the chunk is a piece of each run, one
//                behind the other, and is sorted
//   the last     loads the result where the sort was
//
// Whatever the length, an element is sorted twice, and all programs of a step do the same amount of work. Pieces stand
// in the order of their runs and equal keys are divided among runs in that order, so the sort is stable.
bool split_sort(LaunchSequence& sequence, const Lengths& lengths);

}  // namespace kiln::codegen
