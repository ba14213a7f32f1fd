// Blocking frame I/O. Sockets are used with MSG_DONTWAIT and poll, so that a deadline holds whatever mode they are in.
#include "kiln/wire/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace kiln::wire {
namespace {

constexpr size_t kMaxFdsPerMessage = 253;  // the kernel's limit, so that it drops none itself
constexpr size_t kMaxWaitingFds = 8;
constexpr int kTooManyRefsPoll = 10;  // ms

int poll_timeout(Deadline deadline) {
  if (deadline == kNoDeadline) return -1;
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

Result<void> wait_for(int fd, short events, Deadline deadline, int wake_fd) {
  pollfd fds[2] = {{fd, events, 0}, {wake_fd, POLLIN, 0}};
  while (true) {
    int timeout = poll_timeout(deadline);
    int count = ::poll(fds, wake_fd >= 0 ? 2 : 1, timeout);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(ErrorCode::kInternal, "poll", errno);
    if (fds[0].revents) return {};
    if (count > 0) return error(ErrorCode::kCancelled, "woken while waiting for the peer");
    if (timeout >= 0 && Clock::now() >= deadline) {
      return error(ErrorCode::kDeadlineExceeded, "the peer did not answer in time");
    }
  }
}

void collect_fds(msghdr& message, std::deque<UniqueFd>& fds) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      fds.push_back(UniqueFd(fd));
    }
  }
}

}  // namespace

Error errno_error(ErrorCode code, std::string_view what, int number) {
  return error(code, std::string(what) + ": " + std::generic_category().message(number));
}

ssize_t receive_some(int fd, std::byte* data, size_t size, std::deque<UniqueFd>* fds) {
  iovec piece{data, size};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFdsPerMessage * sizeof(int))];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  // Without room for control data the kernel itself drops the descriptors.
  if (fds) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  ssize_t count;
  do {
    count = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  if (count >= 0 && fds) collect_fds(message, *fds);
  return count;
}

void refuse_descriptors(int fd) {
  constexpr int kPassRights = 83, kNone = 0;  // SO_PASSRIGHTS, which older headers lack
  ::setsockopt(fd, SOL_SOCKET, kPassRights, &kNone, sizeof kNone);
}

ssize_t send_some(int fd, std::span<const std::span<const std::byte>> pieces, size_t skip, int pass_fd) {
  iovec vectors[8];
  size_t used = 0;
  size_t left = skip;
  for (const auto& piece : pieces) {
    size_t drop = std::min(left, piece.size());
    left -= drop;
    if (drop == piece.size() || used == std::size(vectors)) continue;
    vectors[used++] = {const_cast<std::byte*>(piece.data() + drop), piece.size() - drop};
  }
  msghdr message{};
  message.msg_iov = vectors;
  message.msg_iovlen = used;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (pass_fd >= 0 && skip == 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &pass_fd, sizeof pass_fd);
  }
  ssize_t count;
  do {
    count = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  return count;
}

Result<void> Channel::fill(Deadline deadline, int wake_fd) {
  if (buffer_.empty()) buffer_.resize(kReadStep);
  while (true) {
    ssize_t count = receive_some(fd_.get(), buffer_.data(), buffer_.size(), &fds_);
    while (fds_.size() > kMaxWaitingFds) fds_.pop_back();
    if (count > 0) {
      begin_ = 0;
      end_ = static_cast<size_t>(count);
      return {};
    }
    if (count == 0) {
      return error(ErrorCode::kUnavailable, decoder_.mid_frame() ? "the peer closed the connection inside a frame"
                                                                 : "the peer closed the connection");
    }
    if (errno != EAGAIN) return errno_error(ErrorCode::kUnavailable, "receive", errno);
    if (auto ready = wait_for(fd_.get(), POLLIN, deadline, wake_fd); !ready) return ready;
  }
}

Result<Frame> Channel::read(Deadline deadline, int wake_fd) {
  while (true) {
    if (begin_ < end_) {
      auto used = decoder_.feed(std::span(buffer_).subspan(begin_, end_ - begin_));
      if (!used) return used.error();
      begin_ += *used;
    }
    if (decoder_.complete()) break;
    if (begin_ < end_) continue;
    if (auto filled = fill(deadline, wake_fd); !filled) return filled.error();
  }
  Frame frame = decoder_.take();
  if (frame.refused) {
    return error(ErrorCode::kResourceExhausted,
                 "no memory for a frame of " + std::to_string(frame.header.body_size) + " bytes");
  }
  if (frame.has(flag::kHasFd)) {
    if (fds_.empty()) return invalid_argument("frame: the descriptor that it announces is missing");
    frame.fd = std::move(fds_.front());
    fds_.pop_front();
  }
  return frame;
}

Result<void> Channel::write(const OutFrame& frame, Deadline deadline) {
  FrameHeader header = frame.header();
  FrameHeaderBytes bytes = encode_header(header);
  std::array<std::span<const std::byte>, 5> pieces = {std::span<const std::byte>(bytes),
                                                      std::as_bytes(std::span(frame.json)), frame.body[0],
                                                      frame.body[1], frame.body[2]};
  size_t total = kFrameHeaderSize + header.json_size + header.body_size;
  size_t sent = 0;
  while (sent < total) {
    ssize_t count = send_some(fd_.get(), pieces, sent, frame.fd);
    if (count >= 0) {
      sent += static_cast<size_t>(count);
    } else if (errno == EAGAIN) {
      auto ready = wait_for(fd_.get(), POLLOUT, deadline, -1);
      if (!ready && sent > 0) return error(ErrorCode::kUnavailable, "the peer stopped reading inside a frame");
      if (!ready) return ready;
    } else if (errno == ETOOMANYREFS) {  // of descriptors of this user that nobody has received yet
      if (Clock::now() >= deadline) return error(ErrorCode::kDeadlineExceeded, "too many descriptors are on their way");
      ::poll(nullptr, 0, kTooManyRefsPoll);
    } else {
      return errno_error(ErrorCode::kUnavailable, "send", errno);
    }
  }
  return {};
}

Result<ChannelPair> make_channel_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return errno_error(ErrorCode::kResourceExhausted, "socketpair", errno);
  }
  return ChannelPair{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace kiln::wire
