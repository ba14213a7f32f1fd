// CUDA devices behind the launcher's seam.
#pragma once

#include "driver.h"

namespace kiln::client::gpu::cuda {

Result<std::vector<DeviceInfo>> list();
// The device's primary context, which the CUDA runtime and with it other libraries of the process share.
Result<std::unique_ptr<Driver>> open(int ordinal);

}  // namespace kiln::client::gpu::cuda
