// Simplifications that leave every value as it is: what the shrinker may do to addresses.
#pragma once

#include "random/case.h"

namespace kiln::random_kernel {

// An instantiated kernel with one op's result replaced by an operand or a constant that is always equal; the ways to do
// so, the best first.
std::vector<dsl::Kernel> folded(const Case& test, size_t place, size_t result);

}  // namespace kiln::random_kernel
