// Writing: what a socket takes at once, and the rest as its peer reads. What is not read yet is charged to the peer's
// process, and so are the descriptors that it has not received.
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <utility>

#include "connections/frame_socket.h"

namespace kiln::server {
namespace {

// Who leaves so much unread is not read any more until it has caught up.
constexpr size_t kMostUnread = 1u << 20;
// Of a process, a descriptor that waits to be sent counts like a short body: it is open meanwhile.
constexpr size_t kDescriptorCost = 64u << 10;
// Descriptors on their way to a connection, and to all of a process. The kernel counts them by user, and knows no more
// of them than RLIMIT_NOFILE.
constexpr size_t kMostPassed = 16, kMostPassedToProcess = 64;
constexpr std::chrono::milliseconds kLookAtPassed{20};
constexpr std::chrono::milliseconds kTryAgain{10};

// Null where the file or the memory is not to be had.
SharedBytes read_all(const wire::UniqueFd& file) try {
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return nullptr;
  auto out = std::make_shared<Bytes>(static_cast<size_t>(info.st_size));
  for (size_t at = 0; at < out->size();) {
    const ssize_t count = ::pread(file.get(), out->data() + at, out->size() - at, static_cast<off_t>(at));
    if (count <= 0) return nullptr;
    at += static_cast<size_t>(count);
  }
  return out;
} catch (const std::bad_alloc&) {
  return nullptr;
}

}  // namespace

size_t FrameSocket::overhead(const Queued& queued) { return sizeof(Queued) + (queued.frame.fd ? kDescriptorCost : 0); }

FrameSocket::Queued FrameSocket::queued(Outgoing frame) {
  wire::OutFrame view{.type = frame.type, .request_id = frame.request_id, .json = frame.json, .flags = frame.flags};
  if (frame.body) view.body[0] = *frame.body;
  if (frame.fd) view.fd = frame.fd->get();
  const auto header = view.header();
  const size_t size = wire::kFrameHeaderSize + header.json_size + header.body_size;
  return {std::move(frame), wire::encode_header(header), size};
}

void FrameSocket::send(Outgoing frame) {
  if (!open() || closing_) return;
  queue_.push_back(queued(std::move(frame)));
  pending_ += queue_.back().size + overhead(queue_.back());
  if (!waiting_writable_) flush();
  charge_output();
}

void FrameSocket::flush() {
  while (!queue_.empty()) {
    if (!send_front()) return;
    if (sent_ < queue_.front().size) continue;
    sent_ = 0;
    pending_ -= overhead(queue_.front());
    queue_.pop_front();
  }
  departure_.end();
  if (closing_) close();
}

// A part of the front frame. False: later, or never.
bool FrameSocket::send_front() {
  Queued& front = queue_.front();
  if (front.frame.fd_is_body && sent_ == 0 && !may_pass() && !send_bytes_instead(front)) return false;
  const bool passes = front.frame.fd && sent_ == 0;
  std::array<std::span<const std::byte>, 3> pieces = {std::span<const std::byte>(front.header),
                                                      std::as_bytes(std::span(front.frame.json))};
  if (front.frame.body) pieces[2] = *front.frame.body;
  const ssize_t count =
      wire::send_some(descriptor_.native_handle(), pieces, sent_, front.frame.fd ? front.frame.fd->get() : -1);
  if (count >= 0) {
    sent_ += static_cast<size_t>(count);
    pending_ -= static_cast<size_t>(count);
    departure_.moved(static_cast<size_t>(count));
    if (passes) note_passed();
    return true;
  }
  if (errno == EAGAIN) {
    wait_writable();
  } else if (errno == ETOOMANYREFS && front.frame.fd_is_body) {
    return send_bytes_instead(front);
  } else if (errno == ETOOMANYREFS) {
    try_again_soon();
  } else {
    fail({CloseReason::kIo, false, wire::errno_error(ErrorCode::kInternal, "send", errno).message});
  }
  return false;
}

void FrameSocket::wait_writable() {
  departure_.begin(weak_from_this(),
                   [this] { fail({CloseReason::kSlowReader, false, "too little read for too long"}); });
  descriptor_.async_wait(asio::posix::descriptor_base::wait_write,
                         [self = shared_from_this()](const boost::system::error_code& failed) {
                           self->waiting_writable_ = false;
                           if (failed || !self->open()) return;
                           self->flush();
                           self->charge_output();
                         });
  waiting_writable_ = true;
}

// The user has more descriptors on their way than the kernel allows, wherever they come from.
void FrameSocket::try_again_soon() {
  waiting_writable_ = true;
  descriptor_timer_.expires_after(kTryAgain);
  descriptor_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& failed) {
    auto self = weak.lock();
    if (failed || !self) return;
    self->waiting_writable_ = false;
    if (!self->open()) return;
    self->flush();
    self->charge_output();
  });
}

// The peer has so much to read that it is not read.
bool FrameSocket::crowded() const {
  if (!options_.shares || pending_ == 0) return false;
  return pending_ > kMostUnread || options_.shares->outgoing.held(options_.owner) > options_.outgoing_limit / 2;
}

// After all that changes what is pending.
void FrameSocket::charge_output() {
  if (!open()) return;
  const CloseReason too_much{CloseReason::kSlowReader, false, "too much unread output"};
  if (pending_ > options_.max_pending && queue_.size() > 1) return fail(too_much);
  if (!options_.shares) return;
  Shares& outgoing = options_.shares->outgoing;
  if (pending_ > charged_output_) {
    const size_t more = pending_ - charged_output_;
    if (!outgoing.admits(options_.owner, more, options_.outgoing_limit)) return fail(too_much);
    outgoing.take(options_.owner, more);
  } else if (pending_ < charged_output_) {
    outgoing.give_back(options_.owner, charged_output_ - pending_);
  }
  charged_output_ = pending_;
  if (paused_ && !crowded()) resume();
}

// All that is not sent yet.
void FrameSocket::drop_output() {
  queue_.clear();
  pending_ = 0;
  departure_.end();
  descriptor_timer_.cancel();
  give_back_passed();
  if (charged_output_ > 0) options_.shares->outgoing.give_back(options_.owner, std::exchange(charged_output_, 0));
}

bool FrameSocket::send_bytes_instead(Queued& front) {
  auto bytes = read_all(*front.frame.fd);
  if (!bytes) {
    fail({CloseReason::kIo, false, "what it asked for cannot be sent: its descriptor cannot travel or be read"});
    return false;
  }
  pending_ -= front.size + overhead(front);
  front.frame.fd = nullptr;
  front.frame.fd_is_body = false;
  front.frame.body = std::move(bytes);
  front = queued(std::move(front.frame));
  pending_ += front.size + overhead(front);
  return true;
}

bool FrameSocket::may_pass() {
  if (!options_.shares) return true;
  return passed_ < kMostPassed && options_.shares->descriptors.admits(options_.owner, 1, kMostPassedToProcess);
}

void FrameSocket::note_passed() {
  if (!options_.shares) return;
  options_.shares->descriptors.take(options_.owner, 1);
  if (passed_++ == 0) watch_passed();
}

// The peer has received them all when it has read all that was sent.
void FrameSocket::watch_passed() {
  descriptor_timer_.expires_after(kLookAtPassed);
  descriptor_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& failed) {
    auto self = weak.lock();
    if (failed || !self || !self->open()) return;
    int unread = 0;
    const bool known = ::ioctl(self->descriptor_.native_handle(), SIOCOUTQ, &unread) == 0;
    known&& unread == 0 ? self->give_back_passed() : self->watch_passed();
  });
}

void FrameSocket::give_back_passed() {
  if (passed_ > 0) options_.shares->descriptors.give_back(options_.owner, std::exchange(passed_, 0));
}

}  // namespace kiln::server
