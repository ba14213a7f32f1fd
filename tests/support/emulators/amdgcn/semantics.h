// What each instruction does, by its mnemonic without the encoding's suffix. A family of instructions fills its part.
#pragma once

#include <string>
#include <unordered_map>

#include "instruction.h"

namespace kiln::amdgcn_emulator {

using Table = std::unordered_map<std::string, Execute>;

const Table& semantics();

void add_scalar_integer(Table& table);
void add_scalar_float(Table& table);
void add_scalar_control(Table& table);
void add_scalar_memory(Table& table);
void add_vector_integer(Table& table);
void add_vector_float(Table& table);
void add_vector_double(Table& table);
void add_vector_half(Table& table);
void add_vector_compare(Table& table);
void add_vector_convert(Table& table);
void add_vector_carry(Table& table);
void add_vector_short(Table& table);
void add_vector_packed(Table& table);
void add_vector_dot(Table& table);
void add_vector_media(Table& table);
void add_vector_division(Table& table);
void add_vector_wide(Table& table);
void add_register_index(Table& table);
void add_cross_lane(Table& table);
void add_vector_memory(Table& table);
void add_buffer_memory(Table& table);
void add_atomics(Table& table);
void add_lds(Table& table);
void add_mfma(Table& table);
void add_mfma_scaled(Table& table);
void add_wmma(Table& table);
void add_wmma_gfx1250(Table& table);

// Both halves of a VOPD pair: each reads before the other writes.
void execute_pair(Wave& wave, const Instruction& instruction);

}  // namespace kiln::amdgcn_emulator
