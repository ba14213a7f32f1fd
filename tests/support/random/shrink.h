// From a case that fails to a smaller one that fails too.
#pragma once

#include <functional>

#include "random/case.h"

namespace kiln::random_kernel {

struct ShrinkOptions {
  int max_calls = 2000;  // of the predicate
  // Only cases that the interpreter runs without misuse and whose results are certain. Off where the failure is there.
  bool must_interpret = true;
};

// Drops ops, stores, control flow, operands, programs and parameters, shortens extents and simplifies data, until no
// step is possible or the calls are used up. `test` fails; so does the result, which is instantiated where the failure
// survives that. The same case and predicate give the same result.
Case shrink(const Case& test, const std::function<bool(const Case&)>& fails, const ShrinkOptions& options = {});

}  // namespace kiln::random_kernel
