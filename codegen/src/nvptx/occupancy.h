// Blocks of a multiprocessor: while one waits for memory or at a barrier, another should be at work, and ptxas is
// generous with registers.
#pragma once

#include <string>
#include <vector>

#include "nvptx/assemble.h"

namespace kiln::codegen::nvptx {

// How many blocks on a multiprocessor are worth asking for, most first: up to 1024 threads, at least two blocks, more
// than there are, and not so many that most registers would have to be spilled.
std::vector<int> worthwhile_blocks(const Resources& resources, int threads);

// The PTX of a kernel, asking for so many.
std::string with_blocks(const std::string& ptx, int blocks);

}  // namespace kiln::codegen::nvptx
