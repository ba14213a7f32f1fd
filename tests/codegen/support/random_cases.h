// Random kernels (tests/support/random) of what a backend compiles, compiled and interpreted.
#pragma once

#include <string>

#include "random/generator.h"

namespace kiln::test {

// KILN_RANDOM_KERNELS, KILN_RANDOM_SEED and the like.
uint32_t number_from(const char* variable, uint32_t otherwise);

random_kernel::Options cpu_options();

struct Ran {
  std::string wrong;        // what differs, or ""; an error of the compiler too
  bool is_refused = false;  // and so not run
};
Ran run_case(const random_kernel::Case& test, const std::string& target);

}  // namespace kiln::test
