// Plans whose kernels are compiled in this process.
#pragma once

#include "run_plan.h"

namespace kiln::test {

enum class Code : uint8_t {
  kGeneral,  // for all sizes
  kSpecial,  // for the sizes and alignment of each launch
};
// For run_plan: launches of compiled code, on copies of their arguments. The plan must stay.
LaunchKernel compiled_launches(const graph::Plan& plan, Code code = Code::kGeneral);

}  // namespace kiln::test
