// How both ends of a fleet wait: for what is new, and for a Redis that is away.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>

#include "kiln/autotune/fleet.h"

namespace kiln::autotune {

inline void wait_for(Seconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any nothing;
  std::unique_lock lock(mutex);
  nothing.wait_for(lock, stop, time, [] { return false; });
}

// Says once that Redis is away, and once that it is back. Borrows the options.
class FleetAway {
 public:
  explicit FleetAway(const FleetOptions& options) : options_(options) {}

  // Whether it went well.
  bool saw(const Result<void>& done) {
    if (static_cast<bool>(done) != away_) return static_cast<bool>(done);
    away_ = !done;
    if (options_.notice) {
      options_.notice(away_ ? done.error().message + "; waiting for it" : options_.access.url + " is back");
    }
    return static_cast<bool>(done);
  }

 private:
  const FleetOptions& options_;
  bool away_ = false;
};

}  // namespace kiln::autotune
