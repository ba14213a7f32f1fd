// AMD's GPUs, by the HIP runtime.
#pragma once

#include "driver.h"

namespace kiln::client::gpu::hip {

Result<std::vector<DeviceInfo>> list();
Result<std::unique_ptr<Driver>> open(int ordinal);

}  // namespace kiln::client::gpu::hip
