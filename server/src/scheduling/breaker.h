// When to leave a service alone that fails: a circuit breaker, without clock or thread of its own.
//
// Closed: everything may pass. After some failures within a window it opens: nothing may. After a rest one canary may
// pass (half-open); how it fares closes the breaker or begins another rest.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>

namespace kiln::server {

class Breaker {
 public:
  using Clock = std::chrono::steady_clock;
  enum class State { kClosed, kHalfOpen, kOpen };
  struct Limits {
    size_t failures = 5;
    Clock::duration window = std::chrono::seconds(10);
    Clock::duration rest = std::chrono::seconds(30);
  };

  explicit Breaker(Limits limits) : limits_(limits) {}

  State state() const { return state_; }
  bool closed() const { return state_ == State::kClosed; }

  // How something fared that passed while the breaker was closed. What began then and ended later says nothing new.
  // True where this failure opened the breaker.
  bool failed(Clock::time_point now);

  // True once a rest: the canary may go now.
  bool try_canary(Clock::time_point now);
  void canary_returned(bool well, Clock::time_point now);

 private:
  void open(Clock::time_point now);

  const Limits limits_;
  State state_ = State::kClosed;
  std::deque<Clock::time_point> failures_;
  Clock::time_point opened_;
};

}  // namespace kiln::server
