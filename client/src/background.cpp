#include "background.h"

#include <system_error>

#include "kiln/wire/crash_report.h"
#include "signals.h"

namespace kiln::client {
void Background::run(Task task) {
  std::lock_guard lock(mutex_);
  if (stopped_) return;
  tasks_.push_back(std::move(task));
  if (!thread_.joinable()) {
    try {
      const SignalsBlocked inherited_by_the_thread;
      thread_ = std::jthread(wire::reporting([this](std::stop_token stop) { work(std::move(stop)); }));
    } catch (const std::system_error&) {  // no thread to be had: callers go on without
      tasks_.clear();
    }
  }
  wake_.notify_one();
}

void Background::work(std::stop_token stop) {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [&] { return !tasks_.empty(); }) || stop.stop_requested()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task(stop);
  }
}

void Background::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    tasks_.clear();
  }
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
}

}  // namespace kiln::client
