// Many workers died lately, whatever they compiled: new ones wait, ever longer, until it is over.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>

namespace kiln::server {

class CrashStorm {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A worker died; more than `limit` in a minute are a storm. How long spawning rests from now on: 1 s, then 2 s, … 60
  // s, and nothing where there is no storm.
  std::chrono::seconds died(TimePoint now, size_t limit) {
    deaths_.push_back(now);
    while (deaths_.front() + kWindow < now) deaths_.pop_front();
    if (deaths_.size() <= limit) {
      next_rest_ = kFirstRest;
      return {};
    }
    const auto rest = next_rest_;
    rests_until_ = now + rest;
    next_rest_ = std::min(next_rest_ * 2, kLongestRest);
    return rest;
  }

  bool rests(TimePoint now) const { return now < rests_until_; }
  size_t deaths() const { return deaths_.size(); }

 private:
  static constexpr std::chrono::seconds kWindow{60}, kFirstRest{1}, kLongestRest{60};

  std::deque<TimePoint> deaths_;
  TimePoint rests_until_{};
  std::chrono::seconds next_rest_ = kFirstRest;
};

}  // namespace kiln::server
