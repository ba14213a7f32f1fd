// Data that moves between lanes.
#pragma once

#include "wave.h"

namespace kiln::amdgcn_emulator {

// DPP: fills wave.permuted with the first source as each lane reads it, and takes out of the write mask the lanes
// whose source does not exist or that the masks disable.
void permute_source(Wave& wave, const Instruction& instruction, unsigned operand);

}  // namespace kiln::amdgcn_emulator
