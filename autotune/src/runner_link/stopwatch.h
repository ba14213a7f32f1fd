// Where the wall time of a search goes: each moment counts for one thing.
#pragma once

#include <chrono>

#include "kiln/autotune/tune.h"

namespace kiln::autotune {

class Stopwatch {
 public:
  using Clock = std::chrono::steady_clock;

  // Until it ends, time counts for its sum; then for what it counted for before.
  class Turn {
   public:
    Turn(Stopwatch& watch, double& sum) : watch_(watch), before_(watch.turn_to(sum)) {}
    ~Turn() { watch_.turn_to(before_); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Stopwatch& watch_;
    double& before_;
  };

  double& turn_to(double& sum) {
    const Clock::time_point now = Clock::now();
    *sum_ += Seconds(now - since_).count();
    since_ = now;
    double& before = *sum_;
    sum_ = &sum;
    return before;
  }

  Spent spent;

 private:
  double* sum_ = &spent.other;
  Clock::time_point since_ = Clock::now();
};

}  // namespace kiln::autotune
