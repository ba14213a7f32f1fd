#include "launch_times.h"

namespace kiln::client {

LaunchTimes::LaunchTimes(const Device* device, size_t launches, std::vector<double>* out) : device_(device), out_(out) {
  if (out_) out_->assign(launches, 0);
}

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

Result<void> LaunchTimes::next(uint32_t launch) {
  if (out_ == nullptr) return {};
  launches_.push_back(launch);
  return mark();
}

Result<void> LaunchTimes::finish() {
  if (out_ == nullptr) return {};
  if (auto marked = mark(); !marked) return marked;
  if (!events_.empty()) {
    if (auto done = events_.back().synchronise(); !done) return done;
  }
  for (size_t i = 0; i < launches_.size(); ++i) {
    double& out = (*out_)[launches_[i]];
    if (device_ == nullptr) {
      out += std::chrono::duration<double, std::milli>(times_[i + 1] - times_[i]).count();
      continue;
    }
    auto ms = elapsed_ms(events_[i], events_[i + 1]);
    if (!ms) return ms.error();
    out += *ms;
  }
  return {};
}

}  // namespace kiln::client
