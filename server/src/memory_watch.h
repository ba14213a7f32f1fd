// Whether memory is short: the reserve was drawn on a moment ago (memory_reserve.h). As long as it is, nothing new is
// begun, so that what is under way can end with what the reserve has.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

#include "memory_reserve.h"

namespace kiln::server {

// Of the io thread. Without start() there is always enough.
class MemoryWatch {
 public:
  // After the reserve was drawn on; so soon who was refused may come again.
  static constexpr std::chrono::milliseconds kRest{50};

  // `relieve` is called whenever the reserve was drawn on since the last look: it lets go of what is not needed.
  void start(const MemoryReserve& reserve, std::function<void()> relieve) {
    reserve_ = &reserve;
    relieve_ = std::move(relieve);
  }

  bool is_short() {
    if (!reserve_) return false;
    if (reserve_->wanted() == seen_) return rests_ && rests();
    rests_ = true;
    relieve_();
    seen_ = reserve_->wanted();  // with what that took
    until_ = Clock::now() + kRest;
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool rests() { return rests_ = Clock::now() < until_; }

  const MemoryReserve* reserve_ = nullptr;
  std::function<void()> relieve_;
  uint64_t seen_ = 0;
  bool rests_ = false;
  Clock::time_point until_;
};

}  // namespace kiln::server
