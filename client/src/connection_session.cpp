// Requests and replies of many threads over one socket.
#include "connection_session.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "spawn_daemon.h"

namespace kiln::client {
namespace {

constexpr auto kWriteTimeout = std::chrono::seconds(30);

}  // namespace

Session::Session(wire::Channel channel, wire::Welcome welcome, pid_t child)
    : channel_(std::move(channel)),
      welcome_(std::move(welcome)),
      builder_(wire::builder_tag(welcome_.builder_id)),
      child_(child),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Session::~Session() {
  channel_.release().reset();
  if (child_ > 0) end_pipe_child(child_);
}

bool Session::broken() const {
  std::lock_guard lock(mutex_);
  return broken_.has_value();
}

Result<void> Session::write(const wire::OutFrame& frame) {
  std::lock_guard lock(write_mutex_);
  return channel_.write(frame, wire::Clock::now() + kWriteTimeout);
}

void Session::wake_reader() {
  uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

Result<std::vector<wire::Frame>> Session::call(wire::OutFrame frame, std::stop_token stop, wire::Deadline deadline) {
  Pending pending;
  {
    std::lock_guard lock(mutex_);
    if (broken_) return *broken_;
    frame.request_id = next_id_++;
    pending_[frame.request_id] = &pending;
  }
  if (auto sent = write(frame); !sent) {
    // A frame may be torn, so nobody else can go on either.
    std::lock_guard lock(mutex_);
    fail_all(sent.error());
  }
  // Declared before the lock: its destructor waits for a callback that may be waiting for the lock.
  std::stop_callback on_stop(std::move(stop), [&] {
    std::lock_guard lock(mutex_);
    pending.cancel_wanted = true;
    pending.changed.notify_one();
    wake_reader();
  });
  std::unique_lock lock(mutex_);
  wait(lock, frame.request_id, pending, deadline);
  pending_.erase(frame.request_id);
  if (!pending_.empty()) pending_.begin()->second->changed.notify_one();  // somebody else must read now
  const bool gave_up = pending.failure && !broken_;
  lock.unlock();
  if (gave_up) (void)write({.type = wire::Type::kCancel, .request_id = frame.request_id});
  if (pending.failure) return *pending.failure;
  return std::move(pending.frames);
}

void Session::wait(std::unique_lock<std::mutex>& lock, uint64_t id, Pending& pending, wire::Deadline deadline) {
  while (!pending.done) {
    if (pending.cancel_wanted && !pending.cancel_sent) {
      pending.cancel_sent = true;
      lock.unlock();
      (void)write({.type = wire::Type::kCancel, .request_id = id});
      lock.lock();
    } else if (!reading_) {
      read_for_all(lock, pending, deadline);
    } else if (deadline == wire::kNoDeadline) {
      pending.changed.wait(lock);
    } else if (pending.changed.wait_until(lock, deadline) == std::cv_status::timeout && !pending.done) {
      pending.failure = error(ErrorCode::kDeadlineExceeded, "the daemon did not answer in time");
      pending.done = true;
    }
  }
}

void Session::read_for_all(std::unique_lock<std::mutex>& lock, Pending& mine, wire::Deadline deadline) {
  reading_ = true;
  lock.unlock();
  auto frame = channel_.read(deadline, wake_.get());
  lock.lock();
  reading_ = false;
  if (frame) return dispatch(std::move(*frame));
  if (frame.error().code == ErrorCode::kCancelled) {
    uint64_t count;
    (void)!::read(wake_.get(), &count, sizeof count);
  } else if (frame.error().code == ErrorCode::kDeadlineExceeded) {
    mine.failure = frame.error();
    mine.done = true;
  } else {
    fail_all(frame.error());
  }
}

void Session::dispatch(wire::Frame frame) {
  // Request ids start at 1; an error without one concerns the connection.
  if (frame.id() == 0 && frame.type() == wire::Type::kError) return fail_all(wire::parse_error(frame.json));
  auto it = pending_.find(frame.id());
  if (it == pending_.end()) return;  // its caller gave up
  Pending& pending = *it->second;
  bool last = frame.has(wire::flag::kLast);
  pending.frames.push_back(std::move(frame));
  if (!last) return;
  pending.done = true;
  pending.changed.notify_one();
}

void Session::fail_all(const Error& reason) {
  if (!broken_) broken_ = reason;
  for (auto& [id, pending] : pending_) {
    if (pending->done) continue;
    pending->failure = broken_;
    pending->done = true;
    pending->changed.notify_one();
  }
}

Result<void> Session::wait_closed(wire::Deadline deadline) {
  Pending pending;
  std::unique_lock lock(mutex_);
  if (broken_) return {};
  uint64_t id = next_id_++;
  pending_[id] = &pending;
  wait(lock, id, pending, deadline);
  pending_.erase(id);
  if (!broken_ && pending.failure) return *pending.failure;
  return {};
}

}  // namespace kiln::client
