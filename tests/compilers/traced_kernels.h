// Kernels whose C++ leaves the order of evaluation open wherever an author might: the arguments of a function and the
// operands of an operator. g++ goes through them from the right, clang from the left, and both must give one key.
#pragma once

#include <string>
#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::compilers {

struct TracedKernel {
  std::string name;
  Result<dsl::Kernel> ir;
};

// The kernel library, and those written for this. What the language leaves to the author is not among them: two stores
// (or a store and a load of the same memory) in arguments of one call have no order in C++ either.
std::vector<TracedKernel> traced_kernels();

}  // namespace kiln::compilers
