// Sources of packed instructions.
#pragma once

#include "vector.h"

namespace kiln::amdgcn_emulator {

// A source's dwords before op_sel and negation. A constant of 16 bits stands in the low half.
const uint32_t* fetch_packed(Wave& wave, const Instruction& instruction, unsigned index, Format format, Row& buffer);

}  // namespace kiln::amdgcn_emulator
