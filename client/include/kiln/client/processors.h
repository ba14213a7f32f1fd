// The processors that this process may run on, and where they lie.
#pragma once

#include <vector>

namespace kiln::client {

struct Processor {
  int number = 0;  // the system's
  int node = 0;    // of memory
  int core = 0;    // the same for hardware threads of one core, and for no others; neighbours follow each other
};

// By their numbers.
std::vector<Processor> usable_processors();

}  // namespace kiln::client
