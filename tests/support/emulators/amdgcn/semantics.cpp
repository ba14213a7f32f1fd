// The table of instructions, filled once.
#include "semantics.h"

namespace kiln::amdgcn_emulator {

const Table& semantics() {
  static const Table table = [] {
    Table filled;
    add_scalar_integer(filled);
    add_scalar_float(filled);
    add_scalar_control(filled);
    add_scalar_memory(filled);
    add_vector_integer(filled);
    add_vector_float(filled);
    add_vector_double(filled);
    add_vector_half(filled);
    add_vector_compare(filled);
    add_vector_convert(filled);
    add_vector_carry(filled);
    add_vector_short(filled);
    add_vector_packed(filled);
    add_vector_dot(filled);
    add_vector_media(filled);
    add_vector_division(filled);
    add_vector_wide(filled);
    add_register_index(filled);
    add_cross_lane(filled);
    add_vector_memory(filled);
    add_buffer_memory(filled);
    add_atomics(filled);
    add_lds(filled);
    add_mfma(filled);
    add_mfma_scaled(filled);
    add_wmma(filled);
    add_wmma_gfx1250(filled);
    return filled;
  }();
  return table;
}

}  // namespace kiln::amdgcn_emulator
