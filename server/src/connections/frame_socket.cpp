// Reading: until the socket is empty, the turn is over, or the peer has too much to read itself. Writing is in
// frame_sending.cpp.
#include "connections/frame_socket.h"

#include <sys/ioctl.h>

#include <cerrno>
#include <new>
#include <utility>

#include "connections/close_elsewhere.h"
#include "let_go.h"

namespace kiln::server {
namespace {

// After this many reads another socket gets its turn.
constexpr int kReadsPerTurn = 16;
constexpr size_t kMostWaitingFds = 8;

}  // namespace

FrameSocket::FrameSocket(asio::io_context& io, asio::posix::stream_descriptor descriptor,
                         std::shared_ptr<Bytes> scratch, Options options)
    : descriptor_(std::move(descriptor)),
      scratch_(std::move(scratch)),
      options_(options),
      decoder_(options.limits),
      arrival_(io, options.pace),
      heard_(std::chrono::steady_clock::now()),
      departure_(io, options.pace),
      descriptor_timer_(io),
      failing_(io, asio::steady_timer::time_point::max()) {
  if (!options_.accept_fds) wire::refuse_descriptors(descriptor_.native_handle());
}

FrameSocket::~FrameSocket() {
  close_socket(descriptor_);
  release_room();
  drop_output();
  let_go(decoder_.take().body);
}

void FrameSocket::set_owner(uint64_t owner) {
  const uint64_t before = std::exchange(options_.owner, owner);
  if (!options_.shares) return;
  auto& shares = *options_.shares;
  for (auto [of, amount] : {std::pair(&shares.incoming, charged_), std::pair(&shares.outgoing, charged_output_),
                            std::pair(&shares.descriptors, passed_)}) {
    if (amount == 0) continue;
    of->give_back(before, amount);
    of->take(owner, amount);
  }
}

bool FrameSocket::quiet() {
  if (pending_ > 0 || paused_ || !input_.empty() || decoder_.mid_frame()) return false;
  int unread = 0;
  return !open() || ::ioctl(descriptor_.native_handle(), FIONREAD, &unread) != 0 || unread == 0;
}

void FrameSocket::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  listen_for_failure();
  reading_ = true;
  wait_readable();
}

void FrameSocket::wait_readable() {
  if (!open() || !reading_) return;
  // Who has begun a frame must go on with it.
  if (decoder_.mid_frame()) {
    arrival_.begin(weak_from_this(),
                   [this] { fail({CloseReason::kSlowWriter, false, "too little sent for too long inside a frame"}); });
  }
  descriptor_.async_wait(asio::posix::descriptor_base::wait_read,
                         [self = shared_from_this()](const boost::system::error_code& failed) {
                           if (!failed) self->when_ready(&FrameSocket::on_readable);
                         });
}

void FrameSocket::when_ready(void (FrameSocket::*step)()) {
  try {
    (this->*step)();
  } catch (const std::bad_alloc&) {                    // of a frame that nobody could take
    fail({CloseReason::kIo, false, "out of memory"});  // in a string that needs none
  }
}

void FrameSocket::on_readable() {
  ClientShares* const shares = options_.shares;
  if (shares && shares->turns.must_wait(options_.owner, std::chrono::steady_clock::now())) return wait_turn();
  take_turn();
}

// A frame at a time, or a part of what one has left to do.
void FrameSocket::take_turn() {
  auto begun = std::chrono::steady_clock::now();
  heard_ = begun;
  bool more = true;  // may be there to be read
  for (int reads = 0; open() && reading_;) {
    if (crowded()) return pause();
    const Left left = handlers_.go_on ? handlers_.go_on() : Left::kNothing;
    if (left == Left::kLater) return pause();
    if (left == Left::kNothing && input_.empty()) {
      if (!more || reads++ == kReadsPerTurn) return wait_readable();
      more = receive();
      continue;
    }
    if (left == Left::kNothing) take_frame();
    if (turn_is_over(begun)) return wait_turn();
  }
  input_ = {};
}

bool FrameSocket::turn_is_over(std::chrono::steady_clock::time_point& begun) {
  const auto now = std::chrono::steady_clock::now();
  if (!options_.shares) return now - begun >= Turns::kTurn;
  return options_.shares->turns.spend(options_.owner, now - std::exchange(begun, now), now);
}

// A client's with those of its process; a child of the daemon's behind whatever is ready.
void FrameSocket::wait_turn() {
  keep_input();
  auto go_on = [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->when_ready(&FrameSocket::take_turn);
  };
  if (options_.shares) return options_.shares->turns.wait(options_.owner, std::move(go_on));
  asio::post(descriptor_.get_executor(), std::move(go_on));
}

void FrameSocket::pause() {
  keep_input();
  arrival_.end();
  paused_ = true;
}

// Not before the caller, who may be in the midst of something, has returned.
void FrameSocket::resume() {
  if (std::exchange(paused_, false)) wait_turn();
}

// What other sockets would overwrite.
void FrameSocket::keep_input() {
  if (input_.empty() || !kept_.empty()) return;
  kept_.assign(input_.begin(), input_.end());
  input_ = kept_;
}

// False: what came was all that is there, or the last.
bool FrameSocket::receive() {
  if (!kept_.empty()) kept_ = Bytes();
  const ssize_t count = wire::receive_some(descriptor_.native_handle(), scratch_->data(), scratch_->size(), &fds_);
  // Without room for them the kernel would close them, here as well.
  if (!options_.accept_fds && !fds_.empty()) close_elsewhere(std::exchange(fds_, {}));
  while (fds_.size() > kMostWaitingFds) fds_.pop_back();
  if (count < 0 && errno == EAGAIN) return false;
  if (count < 0) {
    fail({CloseReason::kIo, false, wire::errno_error(ErrorCode::kInternal, "receive", errno).message});
    return false;
  }
  if (count == 0) {
    const bool torn = decoder_.mid_frame();
    fail({torn ? CloseReason::kMidFrame : CloseReason::kEof, false,
          torn ? "closed the channel inside a frame" : "closed the channel"});
    return false;
  }
  arrival_.moved(static_cast<size_t>(count));
  input_ = {scratch_->data(), static_cast<size_t>(count)};
  return input_.size() == scratch_->size();
}

void FrameSocket::take_frame() {
  auto used = decoder_.feed(input_);
  if (!used) return fail({CloseReason::kProtocol, decoder_.bad_magic(), used.error().message});
  input_ = input_.subspan(*used);
  if (!has_room()) decoder_.refuse();
  if (!decoder_.complete()) return;
  release_room();
  arrival_.end();
  wire::Frame frame = decoder_.take();
  if (frame.has(wire::flag::kHasFd) && !fds_.empty()) {
    frame.fd = std::move(fds_.front());
    fds_.pop_front();
  }
  handlers_.frame(std::move(frame));
}

// For the body that is coming in, which is charged as it grows. Where memory is short there is none for any.
bool FrameSocket::has_room() {
  const size_t held = decoder_.held();
  if (options_.shares && held > 0 && options_.shares->memory.is_short()) {
    release_room();
    return false;
  }
  if (!options_.shares || held == charged_) return true;
  if (held <= wire::kReadStep) {
    release_room();
    return true;
  }
  Shares& incoming = options_.shares->incoming;
  if (!incoming.admits(options_.owner, held - charged_, options_.incoming_limit)) {
    release_room();
    return false;
  }
  incoming.take(options_.owner, held - charged_);
  charged_ = held;
  return true;
}

void FrameSocket::release_room() {
  if (charged_ > 0) options_.shares->incoming.give_back(options_.owner, std::exchange(charged_, 0));
}

// Before anything can fail, for telling takes no memory then: it may be what is missing.
void FrameSocket::listen_for_failure() {
  failing_.async_wait([weak = weak_from_this()](const boost::system::error_code&) {
    if (auto self = weak.lock()) self->tell_failure();
  });
}

// The peer is gone or does not follow the protocol. The owner hears of it later, with nothing of its own on the stack:
// it may be walking a map whose entries go with this socket. It decides in `closed` whether something is still to be
// sent.
void FrameSocket::fail(CloseReason reason) {
  if (!open()) return;
  reading_ = false;
  arrival_.end();
  release_room();
  if (reason.kind != CloseReason::kProtocol) {
    drop_output();
    close_socket(descriptor_);
  }
  failure_ = std::move(reason);
  failing_.cancel();
}

void FrameSocket::tell_failure() {
  if (auto closed = std::exchange(handlers_.closed, nullptr)) closed(failure_);
  if (failure_.kind == CloseReason::kProtocol) close_when_sent();
}

void FrameSocket::close_when_sent() {
  closing_ = true;
  reading_ = false;
  if (queue_.empty()) close();
}

void FrameSocket::close() {
  reading_ = false;
  handlers_.closed = nullptr;
  failing_.cancel();
  arrival_.end();
  release_room();
  drop_output();
  close_socket(descriptor_);
}

}  // namespace kiln::server
