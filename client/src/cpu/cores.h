// Which processors a stream may run on.
#pragma once

#include <span>
#include <vector>

#include "kiln/dsl/result.h"

namespace kiln::client::cpu {

// Those that the process may run on, ascending.
std::vector<int> usable_cores();
// Each is usable and named once; the error names the first that is not.
Result<void> check_cores(std::span<const int> cores);

}  // namespace kiln::client::cpu
