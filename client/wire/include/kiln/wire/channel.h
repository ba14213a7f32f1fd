// Blocking frame I/O over one stream socket, with deadlines and descriptor passing.
#pragma once

#include <chrono>
#include <deque>

#include "kiln/wire/frame.h"

namespace kiln::wire {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

// Receives up to `size` bytes; descriptors that come with them are appended to `fds` when it is not null, else closed.
// Returns what recvmsg returns (-1 with errno); never blocks, never raises SIGPIPE.
ssize_t receive_some(int fd, std::byte* data, size_t size, std::deque<UniqueFd>* fds);
// From here on nobody can pass descriptors to this socket, nor to those that are accepted from it: who tries gets
// EPERM. Before Linux 6.16 they can: the last close of what comes (SO_LINGER) then takes as long as they like.
void refuse_descriptors(int fd);
// Sends the pieces from byte `skip` on; `pass_fd` travels with the first byte.
ssize_t send_some(int fd, std::span<const std::span<const std::byte>> pieces, size_t skip, int pass_fd);

// One thread may read while another writes; two readers or two writers need a lock of their own.
class Channel {
 public:
  explicit Channel(UniqueFd fd, FrameLimits limits = {}) : fd_(std::move(fd)), decoder_(limits) {}

  // The next frame. kUnavailable: the peer closed. kDeadlineExceeded. kCancelled: `wake_fd` became readable.
  // kInvalidArgument: the peer does not follow the protocol.
  Result<Frame> read(Deadline deadline = kNoDeadline, int wake_fd = -1);
  // kDeadlineExceeded: nothing was sent. kUnavailable: the peer is gone, or took a part only.
  Result<void> write(const OutFrame& frame, Deadline deadline = kNoDeadline);

  int fd() const { return fd_.get(); }
  // Bytes were received that `read` has not used yet; poll would not report them.
  bool buffered() const { return begin_ < end_; }
  UniqueFd release() { return std::move(fd_); }

 private:
  Result<void> fill(Deadline deadline, int wake_fd);

  UniqueFd fd_;
  FrameDecoder decoder_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;
  std::deque<UniqueFd> fds_;
};

// A connected pair of stream sockets, both close-on-exec.
struct ChannelPair {
  UniqueFd ours, theirs;
};
Result<ChannelPair> make_channel_pair();

// "open /x: Permission denied".
Error errno_error(ErrorCode code, std::string_view what, int number);

}  // namespace kiln::wire
