// A daemon that a client has started serves all clients of its user, and begins with its own: nothing of how the one
// that happened to come first runs.
#pragma once

#include <string>
#include <vector>

namespace kiln::server {

struct Beginning {
  // What this process was not allowed to change, one word or more each, for the log.
  std::vector<std::string> kept;
  // Something that a program has for as long as it is executed, and that its next execution no longer has: how its
  // memory is laid out, capabilities that it was handed.
  bool execute_again = false;
};

// Processors, memory, scheduling, niceness, I/O priority, timers and the kernel's choice of what dies for want of
// memory as the machine gives them; limits of resources as high as they may be; no capabilities but the user's.
Beginning start_afresh();

}  // namespace kiln::server
