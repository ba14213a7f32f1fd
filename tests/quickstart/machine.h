// Where the cases run: the CPU of this machine, or its first GPU.
#pragma once

#include <optional>

#include "ceilings.h"
#include "kiln/client/client.h"
#include "kiln/client/gpu.h"

namespace kiln::quickstart {

struct Machine {
  Client& client;
  std::string target;            // "cpu", or the device's
  std::optional<Device> device;  // absent: the CPU
};

// A case's config is made for CPUs. Of what the kernel has defaults for on a GPU, the defaults are taken there.
dsl::ConstexprValues config_on(const std::string& target, const dsl::Kernel& kernel, dsl::ConstexprValues config);

// Of one launch, by the clock or by events of the device; it is done when this returns.
Result<double> time_ms(const Machine& machine, const std::function<Result<void>()>& run);

// The rate at which a device copies arrays far larger than its caches, GB/s of bytes read plus written.
class DeviceCopy {
 public:
  static Result<DeviceCopy> create(const Machine& machine, bool small);
  Result<double> measure(const Machine& machine) const;

 private:
  DeviceCopy(DeviceMemory from, DeviceMemory to) : from_(std::move(from)), to_(std::move(to)) {}
  DeviceMemory from_, to_;
};

}  // namespace kiln::quickstart
