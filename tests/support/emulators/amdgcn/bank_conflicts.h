// Lanes that wait for each other at the banks of LDS.
#pragma once

#include "instruction.h"
#include "wave.h"

namespace kiln::amdgcn_emulator {

// Turns of a load or store beyond those that one of its width always takes, because several lanes that are served at
// once meet in a bank with different words; 0 of other instructions.
uint64_t bank_conflicts(const Wave& wave, const Instruction& instruction);

}  // namespace kiln::amdgcn_emulator
