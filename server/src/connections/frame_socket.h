// Frames over a non-blocking stream socket on the io thread: the one transport for clients, the zygote and workers.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "connections/client_shares.h"
#include "connections/pace.h"
#include "connections/watched.h"
#include "kiln/wire/channel.h"

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
  // It is a file of what the body would be, which travels itself where the descriptor cannot. Others wait until they
  // can.
  bool fd_is_body = false;
};

struct CloseReason {
  enum Kind { kEof, kMidFrame, kProtocol, kIo, kSlowReader, kSlowWriter } kind = kEof;
  bool bad_magic = false;
  std::string message;
};

class FrameSocket : public std::enable_shared_from_this<FrameSocket> {
 public:
  enum class Left { kNothing, kMore, kLater };
  struct Handlers {
    std::function<void(wire::Frame)> frame;
    // At most once, not after close(), and never from within a call of the owner's: one that fails, send() too, says so
    // here later. The socket is closed for reading, but what is queued may still be sent.
    std::function<void(const CloseReason&)> closed;
    // Does a part of what the last frame has left to do; the next frame waits until there is nothing. kLater: the owner
    // calls resume() when it can go on.
    std::function<Left()> go_on = nullptr;
  };
  struct Options {
    wire::FrameLimits limits = {};
    bool accept_fds = false;
    size_t max_pending = 64u << 20;
    Pace::Limits pace = {};
    // Of clients: what their connections share, and the process behind this one. Bodies that are coming in find room
    // there, beyond a first step that each socket has for itself, and so does what the peer has not read; who leaves
    // much unread is not read either, and who has used up its turn waits for the next.
    ClientShares* shares = nullptr;
    uint64_t owner = 0, incoming_limit = 256u << 20, outgoing_limit = 256u << 20;
  };

  // `descriptor`: by watched(). `scratch` is shared by all sockets of the io thread: reads do not nest.
  FrameSocket(asio::io_context& io, asio::posix::stream_descriptor descriptor, std::shared_ptr<Bytes> scratch,
              Options options);
  ~FrameSocket();

  void start(Handlers handlers);
  void set_limits(wire::FrameLimits limits) { decoder_.set_limits(limits); }
  // What it has of the shares is another's from now on.
  void set_owner(uint64_t owner);
  void send(Outgoing frame);
  void resume();
  void close();
  void close_when_sent();
  bool open() const { return descriptor_.is_open(); }
  // What is still to be sent, with what it takes to hold it.
  size_t pending() const { return pending_; }
  // Nothing is on its way in or out, nor waits to be read.
  bool quiet();
  std::chrono::steady_clock::time_point last_heard() const { return heard_; }

 private:
  struct Queued {
    Outgoing frame;
    wire::FrameHeaderBytes header;
    size_t size = 0;
  };

  // Reading: frame_socket.cpp.
  void wait_readable();
  void when_ready(void (FrameSocket::*step)());
  void on_readable();
  void take_turn();
  bool turn_is_over(std::chrono::steady_clock::time_point& begun);
  void wait_turn();
  void pause();
  void keep_input();
  bool receive();
  void take_frame();
  bool has_room();
  void release_room();
  void listen_for_failure();
  void fail(CloseReason reason);
  void tell_failure();
  // Writing: frame_sending.cpp.
  void flush();
  bool send_front();
  void wait_writable();
  void try_again_soon();
  bool crowded() const;
  void charge_output();
  void drop_output();
  static size_t overhead(const Queued& queued);
  static Queued queued(Outgoing frame);
  bool send_bytes_instead(Queued& front);
  bool may_pass();
  void note_passed();
  void watch_passed();
  void give_back_passed();

  asio::posix::stream_descriptor descriptor_;
  std::shared_ptr<Bytes> scratch_;
  Options options_;
  Handlers handlers_;

  wire::FrameDecoder decoder_;
  std::deque<wire::UniqueFd> fds_;
  std::span<const std::byte> input_;  // received and not used yet, in scratch_ or kept_
  Bytes kept_;
  size_t charged_ = 0;  // of the incoming shares
  Pace arrival_;
  std::chrono::steady_clock::time_point heard_;
  bool reading_ = false;
  bool paused_ = false;  // until resume()

  std::deque<Queued> queue_;
  size_t sent_ = 0;  // of the front frame
  size_t pending_ = 0;
  size_t charged_output_ = 0;  // of the outgoing shares
  size_t passed_ = 0;          // descriptors that the peer may not have received yet
  Pace departure_;
  asio::steady_timer descriptor_timer_;
  bool waiting_writable_ = false;
  bool closing_ = false;

  CloseReason failure_;
  asio::steady_timer failing_;  // waits for a failure
};

}  // namespace kiln::server
