// Starting another program and learning how it ended. No fork: this process may have threads and gigabytes of memory.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "kiln/dsl/result.h"

namespace kiln::wire {

// A descriptor that the program begins with: one of this process, or a file.
struct Inherited {
  int number = -1;  // in the program
  int fd = -1;
  std::string path = {};  // where there is no `fd`
  int flags = 0;          // of open
};

enum class ProcessGroup : uint8_t {
  kCallers,
  kOwn,      // a terminal's interrupt does not reach it, and it can be ended with all that it started
  kSession,  // nor does the terminal's end
};

struct Program {
  std::vector<std::string> command = {};                     // a path, never looked for, and the arguments
  std::optional<std::vector<std::string>> environment = {};  // absent: this process's
  std::vector<Inherited> descriptors = {};                   // of 0, 1 and 2 those not named are this process's
  ProcessGroup group = ProcessGroup::kCallers;
};

// Signals are neither blocked nor ignored in the program, and it has no descriptors beyond the highest that is named.
Result<pid_t> spawn(const Program& program);

// The status of waitpid; absent: the process has not ended in time.
std::optional<int> wait_for_exit(pid_t pid, std::chrono::steady_clock::duration patience);
// "signal 9", "exit code 1".
std::string exit_text(int status);

}  // namespace kiln::wire
