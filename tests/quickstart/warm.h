// Requests from a second process for what the first one had compiled.
#pragma once

#include <string>
#include <vector>

#include "cases.h"

namespace kiln::quickstart {

// Runs this executable again as a child that asks the daemon in `runtime_dir` for each case's artifact many times; the
// median microseconds of one request, by case; 0 for what the daemon does not have. Empty when that failed, with a
// reason on stderr.
std::vector<double> warm_request_us(const std::string& runtime_dir, const std::string& target, bool small,
                                    size_t cases);

// The child's main. `target`: "cpu", or a device's.
int warm_child(const std::string& runtime_dir, const std::string& target, bool small);

}  // namespace kiln::quickstart
