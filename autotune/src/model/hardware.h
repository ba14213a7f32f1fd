// The names that records know devices by, and roofs of those that nobody has calibrated.
#pragma once

#include <optional>
#include <string>

#include "kiln/autotune/model.h"

namespace kiln::autotune {

std::string cpu_name();
uint64_t last_cache_bytes();

// Of this machine's CPU: measurements with so many threads hold where it is equal.
std::string cpu_hardware(int threads);
// One for each core that this process may use, as a runner has them.
int usable_cores();

// By its data sheet, or of a CPU by its cores and vectors. Nothing of a device of which nothing is known.
std::optional<Machine> nominal_machine(const std::string& target, const std::string& hardware);

}  // namespace kiln::autotune
