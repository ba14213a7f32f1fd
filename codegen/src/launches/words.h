#pragma once

#include "launches/launch_sequence.h"

namespace kiln::codegen {

// Partial results of several types as words of one, the unsigned int of the widest: of the workspace a step of a GPU's
// sequence has one pointer. Where all have one type the sequence is as it was.
//
//   store %partial0, %x               →   store %partial0, (bitcast %x {to = u32})
//   %i = load %partial1 : tile<[4], i16>      %w = load %partial1 : tile<[4], u32>
//                                             %i = cast %w {to = i16}
void hand_on_words(LaunchSequence& sequence);

}  // namespace kiln::codegen
