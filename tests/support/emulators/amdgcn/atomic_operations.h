// What atomics make of the value in memory: shared by LDS, flat, global and buffer instructions.
#pragma once

#include <string>
#include <vector>

#include "wave.h"

namespace kiln::amdgcn_emulator {

// Reads the value at `at`, writes the result there and returns what was there. `data` holds the operand; of a
// compare-and-swap of memory the new value and then the compared one.
using AtomicOperation = uint64_t (*)(const Wave& wave, std::byte* at, const uint64_t* data);

struct AtomicForm {
  const char* name;   // as global and buffer instructions spell it after "global_atomic_"
  unsigned bytes;     // in memory
  unsigned operands;  // of `bytes` each
  AtomicOperation operation;
};

const std::vector<AtomicForm>& atomic_forms();

// Atomics want addresses that are multiples of their size, whatever other accesses may do: false, and a fault, if not.
bool is_aligned(Wave& wave, uint64_t address, unsigned bytes, unsigned lane);

// The form of "global_atomic_add", "buffer_atomic_add", "ds_add_rtn_u32"; null of what is no atomic.
const AtomicForm* find_atomic(std::string mnemonic);

}  // namespace kiln::amdgcn_emulator
