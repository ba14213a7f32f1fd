// The processors of this machine as a device: its memory, streams and events behind the seam of the GPUs' drivers. It
// loads no modules: a launch is work that launch.cpp pushes.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "../gpu/driver.h"

namespace kiln::client::cpu {

inline constexpr std::string_view kKind = "cpu";

Result<std::vector<DeviceInfo>> list();
Result<std::unique_ptr<gpu::Driver>> open(int ordinal);
// Threads for a launch that asks for no number: as many as the stream has processors; 0: OpenMP's default.
int core_count(gpu::Handle stream);
// Work on a stream of an opened driver, behind what the stream has. A null stream: at once.
Result<void> push(gpu::Handle stream, std::function<Result<void>()> work);

}  // namespace kiln::client::cpu
