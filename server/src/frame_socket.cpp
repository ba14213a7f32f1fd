// Reads until the socket is empty, writes until it is full, and waits in between.
#include "frame_socket.h"

#include <cerrno>
#include <new>
#include <utility>

namespace kiln::server {
namespace {

// After this many reads another socket gets its turn.
constexpr int kReadsPerTurn = 16;

}  // namespace

FrameSocket::FrameSocket(asio::io_context& io, wire::UniqueFd fd, std::shared_ptr<Bytes> scratch, Options options)
    : descriptor_(io, fd.release()),
      stall_timer_(io),
      arrival_timer_(io),
      scratch_(std::move(scratch)),
      options_(options),
      decoder_(options.limits) {}

FrameSocket::~FrameSocket() { release_room(); }

void FrameSocket::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  reading_ = true;
  wait_readable();
}

void FrameSocket::wait_readable() {
  if (!open() || !reading_) return;
  watch_arrival();
  descriptor_.async_wait(asio::posix::descriptor_base::wait_read,
                         [self = shared_from_this()](const boost::system::error_code& failed) {
                           if (failed) return;
                           try {
                             self->on_readable();
                           } catch (const std::bad_alloc&) {  // of a frame that nobody could take
                             self->fail({CloseReason::kIo, false, "there is no memory for what it sent"});
                           }
                         });
}

// Who holds shared room must fill it.
void FrameSocket::watch_arrival() {
  arrival_timer_.cancel();
  if (charged_ == 0) return;
  arrival_timer_.expires_after(options_.stall_timeout);
  arrival_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& failed) {
    auto self = weak.lock();
    if (self && !failed) self->fail({CloseReason::kSlowWriter, false, "nothing sent for too long inside a frame"});
  });
}

void FrameSocket::on_readable() {
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    ssize_t count = wire::receive_some(descriptor_.native_handle(), scratch_->data(), scratch_->size(),
                                       options_.accept_fds ? &fds_ : nullptr);
    if (count < 0 && errno == EAGAIN) break;
    if (count < 0)
      return fail({CloseReason::kIo, false, wire::errno_error(ErrorCode::kInternal, "receive", errno).message});
    if (count == 0) {
      bool torn = decoder_.mid_frame();
      return fail({torn ? CloseReason::kMidFrame : CloseReason::kEof, false,
                   torn ? "closed the channel inside a frame" : "closed the channel"});
    }
    if (!consume(static_cast<size_t>(count))) return;
    if (static_cast<size_t>(count) < scratch_->size()) break;  // a short read: the socket is empty
  }
  wait_readable();
}

// False when the socket was closed by a handler or by a protocol error.
bool FrameSocket::consume(size_t count) {
  std::span<const std::byte> rest(scratch_->data(), count);
  while (!rest.empty()) {
    auto used = decoder_.feed(rest);
    if (!used) {
      fail({CloseReason::kProtocol, decoder_.bad_magic(), used.error().message});
      return false;
    }
    rest = rest.subspan(*used);
    if (!has_room()) decoder_.refuse();
    if (!decoder_.complete()) continue;
    release_room();
    wire::Frame frame = decoder_.take();
    if (frame.has(wire::flag::kHasFd) && !fds_.empty()) {
      frame.fd = std::move(fds_.front());
      fds_.pop_front();
    }
    handlers_.frame(std::move(frame));
    if (!open() || !reading_) return false;
  }
  return true;
}

// For the body that is coming in, which is charged as it grows.
bool FrameSocket::has_room() {
  const size_t held = decoder_.held();
  if (!options_.incoming || held == charged_) return true;
  if (held <= wire::kReadStep) {
    release_room();
    return true;
  }
  if (!options_.incoming->admits(options_.owner, held - charged_, options_.incoming_limit)) {
    release_room();
    return false;
  }
  options_.incoming->take(options_.owner, held - charged_);
  charged_ = held;
  return true;
}

void FrameSocket::release_room() {
  if (charged_ > 0) options_.incoming->give_back(options_.owner, std::exchange(charged_, 0));
}

void FrameSocket::send(Outgoing frame) {
  if (!open() || closing_) return;
  wire::OutFrame view{.type = frame.type, .request_id = frame.request_id, .json = frame.json, .flags = frame.flags};
  if (frame.body) view.body[0] = *frame.body;
  if (frame.fd) view.fd = frame.fd->get();
  size_t size = wire::kFrameHeaderSize + frame.json.size() + view.body[0].size();
  auto header = wire::encode_header(view.header());
  pending_ += size;
  queue_.push_back({std::move(frame), header, size});
  if (pending_ > options_.max_pending && waiting_writable_) {
    return fail({CloseReason::kSlowReader, false, "too much unread output"});
  }
  if (!waiting_writable_) flush();
}

void FrameSocket::flush() {
  while (!queue_.empty()) {
    const Queued& front = queue_.front();
    std::array<std::span<const std::byte>, 3> pieces = {std::span<const std::byte>(front.header),
                                                        std::as_bytes(std::span(front.frame.json))};
    if (front.frame.body) pieces[2] = *front.frame.body;
    ssize_t count =
        wire::send_some(descriptor_.native_handle(), pieces, sent_, front.frame.fd ? front.frame.fd->get() : -1);
    if (count < 0 && errno == EAGAIN) return wait_writable();
    if (count < 0)
      return fail({CloseReason::kIo, false, wire::errno_error(ErrorCode::kInternal, "send", errno).message});
    sent_ += static_cast<size_t>(count);
    pending_ -= static_cast<size_t>(count);
    if (sent_ < front.size) continue;
    sent_ = 0;
    queue_.pop_front();
  }
  if (closing_) close();
}

void FrameSocket::wait_writable() {
  waiting_writable_ = true;
  stall_timer_.expires_after(options_.stall_timeout);
  stall_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& failed) {
    auto self = weak.lock();
    if (self && !failed) self->fail({CloseReason::kSlowReader, false, "nothing read for too long"});
  });
  descriptor_.async_wait(asio::posix::descriptor_base::wait_write,
                         [self = shared_from_this()](const boost::system::error_code& failed) {
                           self->waiting_writable_ = false;
                           self->stall_timer_.cancel();
                           if (!failed && self->open()) self->flush();
                         });
}

// The peer is gone or does not follow the protocol. The owner hears of it later, with nothing of its own on the stack:
// it may be walking a map whose entries go with this socket. It decides in `closed` whether something is still to be
// sent.
void FrameSocket::fail(CloseReason reason) {
  if (!open()) return;
  reading_ = false;
  release_room();
  const bool can_send = reason.kind == CloseReason::kProtocol;
  if (!can_send) {
    queue_.clear();
    pending_ = 0;
    boost::system::error_code ignored;
    descriptor_.close(ignored);
  }
  asio::post(descriptor_.get_executor(), [self = shared_from_this(), can_send, reason = std::move(reason)] {
    if (auto closed = std::exchange(self->handlers_.closed, nullptr)) closed(reason);
    if (can_send) self->close_when_sent();
  });
}

void FrameSocket::close_when_sent() {
  closing_ = true;
  reading_ = false;
  if (queue_.empty()) close();
}

void FrameSocket::close() {
  reading_ = false;
  handlers_.closed = nullptr;
  stall_timer_.cancel();
  arrival_timer_.cancel();
  release_room();
  boost::system::error_code ignored;
  descriptor_.close(ignored);
}

}  // namespace kiln::server
