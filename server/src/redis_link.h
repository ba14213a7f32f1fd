// One connection to Redis, for one thread: blocking calls, each within a time limit of its own however the server
// behaves. hiredis writes and reads the protocol; the socket is ours, because its time limits hold for a single read
// only.
#pragma once

#include <chrono>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "frame_socket.h"
#include "kiln/wire/fd.h"
#include "remote_options.h"

namespace kiln::server {

enum class RemoteFailure { kConnect, kTimeout, kClosed, kProtocol, kServer };
std::string_view to_string(RemoteFailure failure);

struct RemoteReply {
  std::optional<RemoteFailure> failure;
  std::string detail;          // of a failure
  std::optional<Bytes> value;  // of a GET; none: not there
};

class RedisLink {
 public:
  // Borrows the options. Connects when something is asked, and again after a failure.
  RedisLink(RemoteAddress address, const RemoteOptions& options);

  RemoteReply get(std::string_view name);
  RemoteReply set(std::string_view name, std::span<const std::byte> value);

 private:
  using Clock = std::chrono::steady_clock;
  struct Failed {
    RemoteFailure kind;
    std::string detail;
  };
  struct Answer;  // a parsed reply

  std::optional<Failed> ensure_connected();
  std::optional<Failed> connect();
  std::optional<Failed> connect_to(int family, const void* address, size_t size, Clock::time_point deadline);
  std::optional<Failed> introduce();
  std::optional<Failed> command(std::initializer_list<std::string_view> words, Answer& answer);
  std::optional<Failed> send(std::string_view bytes, Clock::time_point deadline);
  std::optional<Failed> receive(Answer& answer, Clock::time_point deadline);
  std::optional<Failed> wait(short events, Clock::time_point deadline);
  RemoteReply failed(Failed failure);

  const RemoteAddress address_;
  const RemoteOptions& options_;
  wire::UniqueFd socket_;
};

}  // namespace kiln::server
