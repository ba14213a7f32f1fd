// The executable meaning of the IR: plain scalar loops, the oracle for every backend.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::dsl {

// Of a buffer whose size nobody knows: accesses to it are not checked against its end.
inline constexpr int64_t kUnknownExtent = INT64_MAX;

// One launch argument, in the order of the parameters.
struct Argument {
  void* data = nullptr;  // pointer parameter: the buffer
  int64_t extent = 0;    // pointer parameter: its number of elements (may be kUnknownExtent); accesses are checked
  uint64_t bits = 0;     // scalar parameter: its value
};

// What one `print` gives: its message and the values of its operands.
struct PrintedValue {
  ElementType element;
  std::vector<int64_t> shape;  // empty: a scalar
  std::vector<uint64_t> bits;  // in row-major order, as types.h says
};
struct PrintRecord {
  std::string message;
  std::string location;  // "file:line:column", or "" when unknown
  std::array<uint32_t, 3> program;
  std::vector<PrintedValue> values;
};

// One line with place, program and message, then one a value: its type and its first elements.
std::string to_string(const PrintRecord& record);

// What the interpreter watches for beyond accesses out of bounds and indices that wrap, which are always errors.
struct InterpretOptions {
  // Two programs at one element of a buffer, one of them writing, not both by atomics: programs run in any order. Not
  // reported: equal bits written twice, and what a program does once an acquiring atomic has ordered it behind another.
  bool check_races = true;
  // Two pointer parameters that overlap without may_alias, but at one address for the same lane of the same program.
  bool check_aliasing = true;
  bool check_assumptions = true;                            // an `assume` that is false
  std::function<void(const PrintRecord&)> print = nullptr;  // absent: `print` does nothing
};

// Runs every program of the grid on the instantiated kernel. Misuse is an error that names op, source line, program id
// and index or lane; memory written before that stays written.
Result<void> interpret(const Kernel& kernel, std::span<const Argument> arguments, std::array<uint32_t, 3> grid,
                       const InterpretOptions& options = {});

}  // namespace kiln::dsl
