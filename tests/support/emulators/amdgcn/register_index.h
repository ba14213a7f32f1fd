// Vector registers chosen at run time.
#pragma once

#include "wave.h"

namespace kiln::amdgcn_emulator {

// Executes an instruction while MODE lets M0 shift vector registers.
void execute_indexed(Wave& wave, const Instruction& instruction);

}  // namespace kiln::amdgcn_emulator
