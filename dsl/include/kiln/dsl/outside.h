// What is said of an access outside of a buffer, by the interpreter and of compiled kernels alike.
#pragma once

#include <string>

#include "kiln/dsl/interpreter.h"

namespace kiln::dsl {

// "index 12 is outside `x`, which has 8 elements"
std::string outside_text(const std::string& param, const Argument& argument, int64_t index);

}  // namespace kiln::dsl
