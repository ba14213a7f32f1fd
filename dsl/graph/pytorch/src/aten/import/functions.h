// The functions that make nodes of ATen calls: one for each overload, by family. A row of the table and a function here
// are all that an op needs; a test compares the two lists.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "aten/import/arguments.h"

namespace kiln::graph::aten {

// One for each result of the call, in order; those that nothing reads may be left out at the end, or be invalid.
using Results = std::vector<Tensor>;

// What the results share with the first tensor of the call.
enum class Sharing : uint8_t {
  kNothing,
  kMemory,   // a view of it
  kPerhaps,  // a view or a copy, by strides or by the element type
};

enum FunctionTrait : uint8_t {
  kDraws = 1,   // asks for random numbers, unless `train` is false or `dropout_p` 0
  kWrites = 2,  // writes to other tensors than the one that its name with `_` would
};

struct Function {
  std::string_view name;  // as of the table, without "aten::"
  Results (*make)(Arguments&);
  Sharing sharing = Sharing::kNothing;
  uint8_t traits = 0;
};

// By family.
std::span<const Function> make_functions();
std::span<const Function> elementwise_functions();
std::span<const Function> arithmetic_functions();
std::span<const Function> view_functions();
std::span<const Function> join_functions();
std::span<const Function> index_functions();
std::span<const Function> reduce_functions();
std::span<const Function> contract_functions();
std::span<const Function> window_functions();
std::span<const Function> sampling_functions();
std::span<const Function> norm_functions();
std::span<const Function> loss_functions();
std::span<const Function> backward_functions();

// All of them. Thread-safe.
std::vector<std::span<const Function>> function_families();
// Null where there is none. Thread-safe.
const Function* find_function(std::string_view name);

}  // namespace kiln::graph::aten
