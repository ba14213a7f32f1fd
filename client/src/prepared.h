// A launch on CPUs of which all is known but addresses: variant, grid and steps are chosen once, for launches with the
// same ints and alignments.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "function_state.h"
#include "sequence.h"

namespace kiln::client {

struct PreparedLaunch {
  const Variant* variant = nullptr;  // as long as the function's state
  // Whose variant it is: of a tuned kernel not the state that was asked. With another version() it is out of date, and
  // so it is with another one of the configs.
  const FunctionState* state = nullptr;
  const void* version = nullptr;
  const void* configs = nullptr;  // null: it is not tuned
  std::array<uint32_t, 3> grid = {};
  bool has_programs = true;
};

// None where launch_variant() has to see each launch: of the interpreter, of a GPU, of kernels that print or check
// bounds, and where it would fail. Asks for a better variant as a launch does.
std::optional<PreparedLaunch> prepare_on_cpu(FunctionState& state, std::span<const Argument> arguments);

// The steps of a launch, which are to be run in order; `params` is where its block is. False: the grid is too large.
bool append_steps(const PreparedLaunch& launch, uint32_t params, uint32_t number, bool is_wide,
                  std::vector<SequenceStep>& steps);
// Bytes that its steps take together, beside scratch memory; none: more than there can be.
std::optional<uint64_t> workspace_of(const PreparedLaunch& launch);

// The error of a step that ended with a code.
Error failure_of(const FunctionState& state, const PreparedLaunch& launch, const SequenceEnd& end,
                 std::span<const Argument> arguments);

}  // namespace kiln::client
