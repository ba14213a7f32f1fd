// How long each launch of a run takes, for who asks.
#pragma once

#include <chrono>
#include <vector>

#include "kiln/client/gpu.h"

namespace kiln::client {

class LaunchTimes {
 public:
  // `device`: null of the host's processors. `out`: null where nobody asks, and then all of this does nothing.
  LaunchTimes(const Device* device, size_t launches, std::vector<double>* out);
  // A launch begins, maybe again, and the one before it ends.
  Result<void> next(uint32_t launch);
  // The last one ends. Waits for the device.
  Result<void> finish();

 private:
  Result<void> mark();

  const Device* device_;
  std::vector<double>* out_;
  std::vector<uint32_t> launches_;  // in the order in which they ran
  std::vector<std::chrono::steady_clock::time_point> times_;
  std::vector<Event> events_;
};

}  // namespace kiln::client
