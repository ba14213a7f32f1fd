// What the measurements were made on.
#pragma once

#include <string>
#include <vector>

namespace kiln::bench {

// The processor, its caches and vector instructions, memory, system and day, a line each.
std::vector<std::string> machine_facts();

}  // namespace kiln::bench
