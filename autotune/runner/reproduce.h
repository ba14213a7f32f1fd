// Runs a wrong result once more, from the directory that was kept of it.
#pragma once

#include <string>

#include "device.h"

namespace kiln::autotune {

// Says on standard output what differs. 0: the results agree now; 1: they differ; 2: the directory is no reproducer.
int reproduce(MeasuredDevice& device, const std::string& directory);

}  // namespace kiln::autotune
