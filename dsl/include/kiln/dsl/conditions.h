// What a launch must meet: the `where` lines of a kernel. Whoever launches checks them, so that they are no part of a
// request key, and code is the same with them and without.
#pragma once

#include <span>
#include <string>

#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/ir.h"

namespace kiln::dsl {

// The values of int parameters, by index; those of pointers and floats stay absent. `params` takes the memory that it
// has, so that a launch need not ask for any.
void bind_ints(const Kernel& kernel, std::span<const Argument> arguments, std::vector<std::optional<int64_t>>& params);

// "le(cols, BLOCK) is false (cols=2000, BLOCK=1024): a row must fit a block", with the values that are known.
std::string unmet_text(const Kernel& kernel, const Condition& condition, const Bindings& bindings);

// Whether all of them hold. `bindings`: int arguments by parameter, and of a kernel that is not instantiated the config
// by constexpr. The error, kInvalidArgument, names the first that does not, and the values of what it mentions:
// "kernel `softmax`: le(cols, BLOCK) is false (cols=2000, BLOCK=1024)".
Result<void> check_conditions(const Kernel& kernel, const Bindings& bindings);

}  // namespace kiln::dsl
