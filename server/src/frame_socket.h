// Frames over a non-blocking stream socket on the io thread: the one transport for clients, the zygote and workers.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kiln/wire/channel.h"
#include "shares.h"

namespace kiln::server {

namespace asio = boost::asio;
using Bytes = std::vector<std::byte>;
using SharedBytes = std::shared_ptr<const Bytes>;
using SharedFd = std::shared_ptr<const wire::UniqueFd>;

struct Outgoing {
  wire::Type type = wire::Type::kPing;
  uint64_t request_id = 0;
  std::string json = {};
  SharedBytes body = nullptr;
  uint32_t flags = 0;
  SharedFd fd = nullptr;
};

struct CloseReason {
  enum Kind { kEof, kMidFrame, kProtocol, kIo, kSlowReader, kSlowWriter } kind = kEof;
  bool bad_magic = false;
  std::string message;
};

class FrameSocket : public std::enable_shared_from_this<FrameSocket> {
 public:
  struct Handlers {
    std::function<void(wire::Frame)> frame;
    // At most once, not after close(), and never from within a call of the owner's: one that fails, send() too, says so
    // here later. The socket is closed for reading, but what is queued may still be sent.
    std::function<void(const CloseReason&)> closed;
  };
  struct Options {
    wire::FrameLimits limits = {};
    bool accept_fds = false;
    size_t max_pending = 64u << 20;
    std::chrono::milliseconds stall_timeout{30'000};
    // Where bodies that are coming in find room, beyond a first step that each socket has for itself.
    Shares* incoming = nullptr;
    uint64_t owner = 0, incoming_limit = 0;
  };

  // `scratch` is shared by all sockets of the io thread: reads do not nest.
  FrameSocket(asio::io_context& io, wire::UniqueFd fd, std::shared_ptr<Bytes> scratch, Options options);
  ~FrameSocket();

  void start(Handlers handlers);
  void set_limits(wire::FrameLimits limits) { decoder_.set_limits(limits); }
  void send(Outgoing frame);
  void close();
  void close_when_sent();
  bool open() const { return descriptor_.is_open(); }
  size_t pending() const { return pending_; }

 private:
  struct Queued {
    Outgoing frame;
    wire::FrameHeaderBytes header;
    size_t size = 0;
  };

  void wait_readable();
  void on_readable();
  bool consume(size_t count);
  bool has_room();
  void release_room();
  void watch_arrival();
  void flush();
  void wait_writable();
  void fail(CloseReason reason);

  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer stall_timer_, arrival_timer_;
  std::shared_ptr<Bytes> scratch_;
  Options options_;
  Handlers handlers_;
  wire::FrameDecoder decoder_;
  std::deque<wire::UniqueFd> fds_;
  std::deque<Queued> queue_;
  size_t sent_ = 0;  // of the front frame
  size_t pending_ = 0;
  size_t charged_ = 0;  // of the incoming shares
  bool waiting_writable_ = false;
  bool reading_ = false;
  bool closing_ = false;
};

}  // namespace kiln::server
