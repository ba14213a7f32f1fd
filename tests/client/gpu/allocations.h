// How often the calling thread has asked for memory by `new`, anywhere in this executable.
#pragma once

#include <cstddef>

namespace kiln::test {

size_t allocations();

}  // namespace kiln::test
