#include "scheduling/breaker.h"

namespace kiln::server {

bool Breaker::failed(Clock::time_point now) {
  if (state_ != State::kClosed) return false;
  failures_.push_back(now);
  while (failures_.front() + limits_.window < now) failures_.pop_front();
  if (failures_.size() < limits_.failures) return false;
  open(now);
  return true;
}

bool Breaker::try_canary(Clock::time_point now) {
  if (state_ != State::kOpen || now < opened_ + limits_.rest) return false;
  state_ = State::kHalfOpen;
  return true;
}

void Breaker::canary_returned(bool well, Clock::time_point now) {
  if (state_ != State::kHalfOpen) return;
  if (!well) return open(now);
  state_ = State::kClosed;
  failures_.clear();
}

void Breaker::open(Clock::time_point now) {
  state_ = State::kOpen;
  opened_ = now;
  failures_.clear();
}

}  // namespace kiln::server
