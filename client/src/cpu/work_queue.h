// An ordered queue of work with a thread of its own: a stream on CPUs.
//
//   push ─► [copy] [launch] [event] ─► thread, one after the other, on the queue's cores
//
// What fails is kept for whoever waits; until then launches and copies behind it are left out, for they would work on
// what is not there. Events are recorded all the same, so that nobody waits for ever.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "kiln/dsl/result.h"
#include "lifetime.h"

namespace kiln::client::cpu {

// A piece of work, which is told whether one before it has failed.
using Work = std::function<Result<void>(bool failed)>;

// Thread-safe. Its thread keeps it, until end().
class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  // On these processors; none: all that the process may use. kResourceExhausted where no thread can be had.
  static Result<std::shared_ptr<WorkQueue>> start(std::vector<int> cores);
  explicit WorkQueue(std::vector<int> cores) : cores_(std::move(cores)) {}
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Waits until all that was pushed has run, and the thread is gone. From that thread: it goes behind the caller. Not
  // to be called where birth().stays(). Nothing is pushed afterwards.
  void end();

  // Never blocks. While the queue is captured the work is noted, and not run.
  Result<void> push(Work work);
  // Waits for what was pushed. The error is the first since the last call. From the queue's own thread, which would
  // wait for itself: an error at once.
  Result<void> wait();

  // Waits for what was pushed, whatever became of it; at once from the queue's own thread.
  void wait_until_idle();

  Result<void> begin_capture();
  Result<std::vector<Work>> end_capture();

  const std::vector<int>& cores() const { return cores_; }
  const Birth& birth() const { return birth_; }
  void keep() const { birth_.keep(); }

 private:
  void serve();

  const Birth birth_;
  const std::vector<int> cores_;
  std::mutex mutex_;
  std::condition_variable pushed_, done_;
  std::deque<Work> waiting_;
  uint64_t count_pushed_ = 0, count_done_ = 0;
  bool ending_ = false;
  std::optional<Error> failed_;
  std::optional<std::vector<Work>> captured_;
  std::thread thread_;
};

}  // namespace kiln::client::cpu
