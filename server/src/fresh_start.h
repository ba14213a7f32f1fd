// A daemon that a client has started serves all clients of its user, and begins with its own: nothing of how the one
// that happened to come first runs.
#pragma once

#include <string>
#include <vector>

namespace kiln::server {

// Processors, memory policy, scheduling, niceness and I/O priority as the machine gives them; limits of resources as
// high as they may be. Says what this process was not allowed to change, one word or more each, for the log.
std::vector<std::string> start_afresh();

}  // namespace kiln::server
