#include "launch_times.h"

namespace kiln::client {

Result<void> LaunchTimes::mark() {
  if (device_ == nullptr) {
    times_.push_back(std::chrono::steady_clock::now());
    return {};
  }
  auto event = Event::create(*device_);
  if (!event) return event.error();
  events_.push_back(std::move(*event));
  return events_.back().record(device_->default_stream());
}

Result<void> LaunchTimes::next() {
  if (out_ == nullptr) return {};
  return mark();
}

Result<void> LaunchTimes::finish() {
  if (out_ == nullptr) return {};
  if (auto marked = mark(); !marked) return marked;
  for (size_t i = 1; i < times_.size(); ++i) {
    out_->push_back(std::chrono::duration<double, std::milli>(times_[i] - times_[i - 1]).count());
  }
  if (events_.empty()) return {};
  if (auto done = events_.back().synchronise(); !done) return done;
  for (size_t i = 1; i < events_.size(); ++i) {
    auto ms = elapsed_ms(events_[i - 1], events_[i]);
    if (!ms) return ms.error();
    out_->push_back(*ms);
  }
  return {};
}

}  // namespace kiln::client
