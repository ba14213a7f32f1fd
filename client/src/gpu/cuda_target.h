// Names of CUDA targets, and what code for one runs on.
#pragma once

#include <string>
#include <string_view>

#include "kiln/dsl/result.h"

namespace kiln::client::gpu::cuda {

struct ComputeCapability {
  int major = 0, minor = 0;
};

// The best target of a device: "cuda:sm_86", "cuda:sm_90a"; "cuda:compute_121" of one that is newer than all.
std::string best_target(ComputeCapability device);
// A line on what is not as usual with the device's code; empty as a rule.
std::string note_on(ComputeCapability device);

// Whether a driver (12040 of CUDA 12.4; 0: not known) translates PTX of a target. The error is the rest of a sentence,
// as below.
Result<void> check_driver(std::string_view target, std::string_view emit, int driver_version);

// Whether code of `target` ("cuda:sm_90a", maybe with options behind it) in the form `emit` ("cubin" or "ptx") runs on
// the device. The error is the rest of a sentence: "needs a device of compute capability 9.0, not 8.0".
Result<void> check_capability(std::string_view target, std::string_view emit, ComputeCapability device);

}  // namespace kiln::client::gpu::cuda
