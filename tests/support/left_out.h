// Of a test that anybody may run, and root more of: what was left out is said, and counted by tests/run.sh.
#pragma once

#include <unistd.h>

#include <cstdio>

namespace kiln::test {

inline bool root_may(const char* what) {
  if (::geteuid() == 0) return true;
  std::printf("[ LEFT OUT ] only root can %s\n", what);
  std::fflush(stdout);
  return false;
}

}  // namespace kiln::test
