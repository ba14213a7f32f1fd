#include "cpu/work_queue.h"

#include <sched.h>

#include <system_error>

#include "kiln/wire/crash_report.h"
#include "signals.h"

namespace kiln::client::cpu {
namespace {

// The thread, and with it the OpenMP threads that it begins, which inherit its processors. Those that the process has
// lost since are left out by the system; where none is left it runs where it may.
void run_on(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<size_t>(core), &set);
  (void)::sched_setaffinity(0, sizeof set, &set);
}

Error not_in_child() {
  return error(ErrorCode::kUnavailable,
               "this stream was made before fork(), by the parent process: create another in the child");
}

}  // namespace

Result<std::shared_ptr<WorkQueue>> WorkQueue::start(std::vector<int> cores) {
  auto queue = std::make_shared<WorkQueue>(std::move(cores));
  const SignalsBlocked inherited_by_the_thread;
  try {
    // The owner waits for the thread, unless it is the thread, which holds itself.
    queue->thread_ = std::thread(wire::reporting([begun = queue.get()] {
      const auto self = begun->shared_from_this();
      self->serve();
    }));
  } catch (const std::system_error& why) {
    return error(ErrorCode::kResourceExhausted, std::string("no thread for a stream: ") + why.what());
  }
  return queue;
}

void WorkQueue::end() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  pushed_.notify_one();
  // The last handle may go with work of the queue itself.
  thread_.get_id() == std::this_thread::get_id() ? thread_.detach() : thread_.join();
}

void WorkQueue::serve() {
  run_on(cores_);
  std::unique_lock lock(mutex_);
  while (true) {
    pushed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    {
      Work work = std::move(waiting_.front());
      waiting_.pop_front();
      const bool failed = failed_.has_value();
      lock.unlock();
      Result<void> ran = work(failed);
      work = nullptr;  // what it held goes before anybody hears that it is done
      lock.lock();
      if (!ran && !failed_) failed_ = std::move(ran.error());
    }
    ++count_done_;
    done_.notify_all();
  }
}

Result<void> WorkQueue::push(Work work) {
  if (birth_.of_parent()) return not_in_child();
  birth_.used();
  {
    std::lock_guard lock(mutex_);
    if (captured_) {
      captured_->push_back(std::move(work));
      return {};
    }
    waiting_.push_back(std::move(work));
    ++count_pushed_;
  }
  pushed_.notify_one();
  return {};
}

Result<void> WorkQueue::wait() {
  if (birth_.of_parent()) return not_in_child();
  if (thread_.get_id() == std::this_thread::get_id()) {
    return invalid_argument("what runs on a stream, as a print, cannot wait for that stream");
  }
  std::unique_lock lock(mutex_);
  if (captured_) return invalid_argument("a stream that is captured cannot be waited for");
  done_.wait(lock, [&, until = count_pushed_] { return count_done_ >= until; });
  if (!failed_) return {};
  Error error = std::move(*failed_);
  failed_.reset();
  return error;
}

void WorkQueue::wait_until_idle() {
  if (birth_.of_parent() || thread_.get_id() == std::this_thread::get_id()) return;
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&, until = count_pushed_] { return count_done_ >= until; });
}

Result<void> WorkQueue::begin_capture() {
  if (birth_.of_parent()) return not_in_child();
  std::lock_guard lock(mutex_);
  if (captured_) return invalid_argument("the stream is captured already");
  captured_.emplace();
  return {};
}

Result<std::vector<Work>> WorkQueue::end_capture() {
  std::lock_guard lock(mutex_);
  if (!captured_) return invalid_argument("the stream is not captured");
  std::vector<Work> out = std::move(*captured_);
  captured_.reset();
  return out;
}

}  // namespace kiln::client::cpu
