#pragma once

#include "launches/launch_sequence.h"

namespace kiln::codegen {

// Stages that follow each other, have as many chunks, and load the same, as one: what is reduced in two ways is read
// once. Neither loads what one of them stores.
//
//   stage 0:  %x = load %p                    stage 0:  %x = load %p
//             store %partial0, (sum of %x)  →           %s = (sum of %x)
//   stage 1:  %y = load %p                              %m = (max of %x)
//             store %partial1, (max of %y)              store %partial0, %s
//                                                       store %partial1, %m
//
// The last stage stays by itself.
void join_stages(Plan& plan);

}  // namespace kiln::codegen
