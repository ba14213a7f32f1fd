#pragma once

#include "launches/launch_sequence.h"

namespace kiln::codegen {

// Steps that follow each other, have as many chunks, and load the same, as one: what is reduced in two ways is read
// once. Neither loads what one of them stores.
//
//   step 0:   %x = load %p                    step 0:   %x = load %p
//             store %partial0, (sum of %x)  →           %s = (sum of %x)
//   step 1:   %y = load %p                              %m = (max of %x)
//             store %partial1, (max of %y)              store %partial0, %s
//                                                       store %partial1, %m
//
// The last step stays by itself.
void join_steps(LaunchSequence& sequence);

}  // namespace kiln::codegen
