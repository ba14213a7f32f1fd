// The runner's end of the protocol (docs/reference/runner.md).
#pragma once

#include "device.h"
#include "measure_lock.h"

namespace kiln::autotune {

// Greets, then answers each line of `in` on `out` until there are no more, or the device is lost. Gives the exit code.
int serve(MeasuredDevice& device, const LockOptions& lock, int in, int out);

}  // namespace kiln::autotune
