// Ranges of the host's threads, for tools of NVIDIA (NVTX) and AMD (roctx) that watch the program.
#pragma once

#include <string>

namespace kiln::client {

// Looks for such tools, once a process. False: none watches.
bool find_range_tools();
// Of the calling thread, and nested. Only where a tool was found.
void push_range(const std::string& name);
void pop_range();

}  // namespace kiln::client
