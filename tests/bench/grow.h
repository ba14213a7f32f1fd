// How compile time grows with the number of ops.
#pragma once

#include <string>
#include <vector>

namespace kiln::bench {

// bench-compile --grow [--limit SECONDS] [--from N] [--most N] [--target TARGET] [FAMILY…]. The exit code.
int grow(const std::vector<std::string>& arguments);

}  // namespace kiln::bench
