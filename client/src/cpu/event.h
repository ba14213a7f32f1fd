// A point in a stream's work on CPUs, and when it was reached.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

namespace kiln::client::cpu {

// Thread-safe. Each recording moves it; who waits, waits for the last one recorded before the wait.
class Event {
 public:
  using Clock = std::chrono::steady_clock;

  // The number of a new recording, which reach() says is there.
  uint64_t record() {
    std::lock_guard lock(mutex_);
    return ++recorded_;
  }
  void reach(uint64_t recording) {
    {
      std::lock_guard lock(mutex_);
      if (recording > reached_) {
        reached_ = recording;
        when_ = Clock::now();
      }
    }
    there_.notify_all();
  }
  uint64_t last() const {
    std::lock_guard lock(mutex_);
    return recorded_;
  }
  void wait(uint64_t recording) const {
    std::unique_lock lock(mutex_);
    there_.wait(lock, [&] { return reached_ >= recording; });
  }
  bool is_reached() const {
    std::lock_guard lock(mutex_);
    return reached_ >= recorded_;
  }
  // When the last recording was reached; none before that, or where there is none.
  std::optional<Clock::time_point> when() const {
    std::lock_guard lock(mutex_);
    return recorded_ > 0 && reached_ >= recorded_ ? std::optional(when_) : std::nullopt;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable there_;
  uint64_t recorded_ = 0, reached_ = 0;
  Clock::time_point when_{};
};

}  // namespace kiln::client::cpu
