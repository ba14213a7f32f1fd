// What the kernel says of another process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace kiln::server {

struct ProcessState {
  bool ended = false;    // all its threads have
  bool stopped = false;  // by a signal
  uint64_t threads = 0;  // with those that have ended, and that nobody has joined yet
  uint64_t started = 0;  // when, in the kernel's ticks: another process may get the same number later
};

// Nothing where it is gone, or not to be seen from here.
std::optional<ProcessState> process_state(pid_t pid);

}  // namespace kiln::server
