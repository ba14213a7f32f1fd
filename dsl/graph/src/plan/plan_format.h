// The layout of plans and of requests for them, shared by their writers and readers. All of it is CBOR in deterministic
// encoding; arrays stand for records. docs/reference/graph-plan.md is the prose.
//
//   plan      [tag, name, target, dims, inputs, outputs, in place, kernels, buffers, loops, launches, constants, arena,
//              log]
//     dim       [name, low, high, multiple]
//     tensor    [name, element, extent…], of inputs and outputs
//     in place  [input + 1 or 0, …], one an output
//     kernel    [bytes of encode_kernel, [name, value, …]], constexprs by name; of the user's own code, which the
//               kernel declares, with that behind it (binary/custom_code.h)
//     buffer    [home, index, bytes]; of the arena [2, offset, bytes]
//     loop      [first launch, count, length, counter]
//     launch    [kernel, [argument…], name, place, bytes moved, [op…]]
//       argument  [0, buffer, offset] or [1, scalar]
//     constants [bytes…]
//     arena     its bytes
//     log       [line…]
//   request   [tag, bytes of encode (a canonical graph), target, options]
//     options   [fuse: 0 or 1, [op…] that are apart, rising]
//   its debug section  [tag, files, [[locations of inputs, locations of nodes], of each body…]]
//     locations [file, line, column, …], or [] where none is known
//   expression  as in kiln/dsl/expr_binary.h, over dims; of an argument also over counters, behind them
#pragma once

#include <cstddef>

namespace kiln::graph {

inline constexpr const char* kPlanTag = "kiln-plan-2";
inline constexpr const char* kPlanRequestTag = "kiln-plan-request-2";
inline constexpr const char* kPlanDebugTag = "kiln-plan-debug-1";

inline constexpr size_t kPlanFields = 14;
inline constexpr size_t kMaxLine = 65'536;  // bytes of a line of the log, or of a launch's name or place

}  // namespace kiln::graph
