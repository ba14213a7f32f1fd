// What CUDA devices tell of themselves without a context.
#pragma once

#include "cuda_api.h"
#include "cuda_target.h"
#include "kiln/client/gpu.h"

namespace kiln::client::gpu::cuda {

struct Inspected {
  DeviceNumber device = 0;
  ComputeCapability capability;
  DeviceInfo info;
};

// One at least, or an error.
Result<int> count_devices(const Api& api);
Result<Inspected> inspect(const Api& api, int ordinal);

}  // namespace kiln::client::gpu::cuda
