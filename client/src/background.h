// Work behind the callers' backs: one thread, started with the first task, tasks in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace kiln::client {

class Background {
 public:
  using Task = std::function<void(std::stop_token)>;

  ~Background() { stop(); }
  // Dropped after stop(). The token says when the task should give up.
  void run(Task task);
  // Cancels the task that runs, waits for it, and drops the others.
  void stop();

 private:
  void work(std::stop_token stop);

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Task> tasks_;
  bool stopped_ = false;
  std::jthread thread_;
};

}  // namespace kiln::client
