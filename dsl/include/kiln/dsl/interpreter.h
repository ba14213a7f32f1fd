// The executable meaning of the IR: plain scalar loops, the oracle for every backend.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kiln/dsl/ir.h"

namespace kiln::dsl {

// One launch argument, in the order of the parameters.
struct Argument {
  void* data = nullptr;  // pointer parameter: the buffer
  int64_t extent = 0;    // pointer parameter: its number of elements; every access is checked against it
  uint64_t bits = 0;     // scalar parameter: its value
};

// Runs every program of the grid on the instantiated kernel. Out-of-range accesses are an error that names op, source
// line, program id and index; memory written before that stays written.
Result<void> interpret(const Kernel& kernel, std::span<const Argument> arguments, std::array<uint32_t, 3> grid);

}  // namespace kiln::dsl
