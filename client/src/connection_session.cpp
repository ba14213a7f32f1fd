// Requests and replies of many threads over one socket.
#include "connection_session.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "spawn_daemon.h"

namespace kiln::client {
namespace {

// One, and of GET_MANY one a key.
size_t most_replies(const wire::OutFrame& frame) {
  constexpr size_t kKeySize = std::tuple_size_v<RequestKey>;
  if (frame.type != wire::Type::kGetMany) return 1;
  return std::max<size_t>(1, frame.header().body_size / kKeySize);
}

Error no_answer() { return error(ErrorCode::kDeadlineExceeded, "the daemon did not answer in time"); }

}  // namespace

Session::Session(wire::Channel channel, wire::Welcome welcome, pid_t child, const Patience& patience)
    : channel_(std::move(channel)),
      not_inherited_(std::in_place, channel_.fd()),
      welcome_(std::move(welcome)),
      builder_(wire::builder_tag(welcome_.builder_id)),
      child_(child),
      patience_(patience),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

// Ends the connection, whoever else may have got its descriptor.
Session::~Session() {
  not_inherited_.reset();
  ::shutdown(channel_.fd(), SHUT_RDWR);
  channel_.release().reset();
  if (child_ > 0) end_pipe_child(child_);
}

bool Session::broken() const {
  std::lock_guard lock(mutex_);
  return broken_.has_value();
}

bool Session::ended_idle() const {
  std::lock_guard lock(mutex_);
  return ended_idle_;
}

Result<void> Session::write(const wire::OutFrame& frame, wire::Deadline deadline) {
  deadline = std::min(deadline, wire::Clock::now() + patience_.write);
  std::unique_lock turn(write_mutex_, deadline);
  if (!turn) return error(ErrorCode::kDeadlineExceeded, "the daemon takes no requests: it is stopped, or hangs");
  auto sent = channel_.write(frame, deadline);
  if (sent || sent.error().code == ErrorCode::kDeadlineExceeded) return sent;
  std::lock_guard lock(mutex_);
  if (!broken_) ended_idle_ = in_flight_ == 0;
  fail_all(sent.error());
  wake_reader();
  return sent;
}

void Session::wake_reader() {
  uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

Result<std::vector<wire::Frame>> Session::call(wire::OutFrame frame, std::stop_token stop, wire::Deadline deadline) {
  if (frame.json.size() > wire::kMaxJsonSize || frame.header().body_size > wire::kMaxBodySize) {
    return invalid_argument("a request of " + std::to_string(frame.json.size()) + " bytes of JSON and " +
                            std::to_string(frame.header().body_size) + " bytes is longer than a frame may be");
  }
  Pending pending;
  pending.most = most_replies(frame);
  pending.stop = stop;
  {
    std::lock_guard lock(mutex_);
    if (broken_) return *broken_;
    frame.request_id = next_id_++;
    pending_[frame.request_id] = &pending;
  }
  auto status = write(frame, deadline);
  const bool sent = status.ok();
  {
    // Declared before the lock: its destructor waits for a callback that may be waiting for the lock.
    std::stop_callback on_stop(std::move(stop), [&] {
      std::lock_guard lock(mutex_);
      pending.cancel_wanted = true;
      pending.changed.notify_one();
      wake_reader();
    });
    std::unique_lock lock(mutex_);
    if (sent) {
      ++in_flight_;
      status = await_replies(lock, frame, pending, deadline);
      --in_flight_;
    }
    pending_.erase(frame.request_id);
    if (!pending_.empty()) pending_.begin()->second->changed.notify_one();  // somebody else must read now
  }
  if (pending.done) {
    if (pending.failure) return *pending.failure;
    return std::move(pending.frames);
  }
  // What it would answer, nobody waits for any more.
  if (sent) (void)write({.type = wire::Type::kCancel, .request_id = frame.request_id}, wire::Clock::now());
  return status.error();
}

Result<void> Session::await_replies(std::unique_lock<std::mutex>& lock, const wire::OutFrame& frame, Pending& pending,
                                    wire::Deadline deadline) {
  for (;;) {
    wait(lock, pending, std::min(deadline, wire::Clock::now() + patience_.silence));
    if (pending.done) return {};
    if (pending.cancel_wanted) return cancel(lock, frame.request_id, pending, deadline);
    if (wire::Clock::now() >= deadline) return no_answer();
    if (frame.type == wire::Type::kPing) continue;
    lock.unlock();
    auto alive = check_alive(pending.stop);
    lock.lock();
    if (!alive && !pending.done) return alive;
  }
}

Result<void> Session::cancel(std::unique_lock<std::mutex>& lock, uint64_t id, Pending& pending,
                             wire::Deadline deadline) {
  deadline = std::min(deadline, wire::Clock::now() + patience_.cancel);
  lock.unlock();
  (void)write({.type = wire::Type::kCancel, .request_id = id}, deadline);
  lock.lock();
  pending.cancel_wanted = false;
  while (!pending.done && wire::Clock::now() < deadline) wait(lock, pending, deadline);
  if (pending.done) return {};
  return error(ErrorCode::kCancelled, "cancelled; the daemon does not answer");
}

Result<void> Session::check_alive(const std::stop_token& stop) {
  auto answer = call({.type = wire::Type::kPing}, stop, wire::Clock::now() + patience_.ping);
  if (answer || answer.error().code != ErrorCode::kDeadlineExceeded) return {};
  return error(ErrorCode::kDeadlineExceeded, "the daemon answers no more: it is stopped, or hangs");
}

void Session::wait(std::unique_lock<std::mutex>& lock, Pending& pending, wire::Deadline until) {
  while (!pending.done && !pending.cancel_wanted && wire::Clock::now() < until) {
    if (reading_) {
      pending.changed.wait_until(lock, until);
    } else {
      read_for_all(lock, until);
    }
  }
}

void Session::read_for_all(std::unique_lock<std::mutex>& lock, wire::Deadline until) {
  reading_ = true;
  lock.unlock();
  auto frame = channel_.read(until, wake_.get());
  lock.lock();
  reading_ = false;
  if (frame) return dispatch(std::move(*frame));
  if (frame.error().code == ErrorCode::kCancelled) {
    uint64_t count;
    (void)!::read(wake_.get(), &count, sizeof count);
  } else if (frame.error().code != ErrorCode::kDeadlineExceeded) {
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
  if (!last && pending.frames.size() < pending.most) return;
  if (!last) return fail_all(internal_error("the daemon has more answers to a request than there can be"));
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
  wait(lock, pending, deadline);
  pending_.erase(id);
  if (!pending_.empty()) pending_.begin()->second->changed.notify_one();  // somebody else must read now
  if (!broken_) return no_answer();
  return {};
}

}  // namespace kiln::client
