// How long each launch of a run takes, for who asks.
#pragma once

#include <chrono>
#include <vector>

#include "kiln/client/gpu.h"

namespace kiln::client {

class LaunchTimes {
 public:
  // `device`: null of the host's processors. `out`: null where nobody asks, and then all of this does nothing.
  LaunchTimes(const Device* device, std::vector<double>* out) : device_(device), out_(out) {
    if (out_) out_->clear();
  }
  // A launch begins, and the one before it ends.
  Result<void> next();
  // The last one ends. Waits for the device.
  Result<void> finish();

 private:
  Result<void> mark();

  const Device* device_;
  std::vector<double>* out_;
  std::vector<std::chrono::steady_clock::time_point> times_;
  std::vector<Event> events_;
};

}  // namespace kiln::client
