// One connection to Redis, for one thread: blocking calls, each within a time limit of its own however the server
// behaves. hiredis writes and reads the protocol; the socket is ours, because its time limits hold for a single read
// only.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/redis/access.h"
#include "kiln/wire/fd.h"

namespace kiln::redis {

// The longest reply that is taken.
inline constexpr size_t kMaxReply = 65u << 20;

enum class Failure { kConnect, kTimeout, kClosed, kProtocol, kServer };
std::string_view to_string(Failure failure);

// Of a GET or SET.
struct ValueReply {
  std::optional<Failure> failure;
  std::string detail;                           // of a failure
  std::optional<std::vector<std::byte>> value;  // of a GET; none: not there
};

// What a command answers.
struct Reply {
  enum class Kind { kNil, kText, kInteger, kList };
  Kind kind = Kind::kNil;
  std::string text = {};  // also a status
  int64_t integer = 0;
  std::vector<Reply> items = {};

  bool is_nil() const { return kind == Kind::kNil; }
};

struct Answer {
  std::optional<Failure> failure;
  std::string detail;  // of a failure; of kServer what Redis says
  Reply reply;

  explicit operator bool() const { return !failure; }
};

class Link {
 public:
  // Borrows the access. Connects when something is asked, and again after a failure.
  Link(Address address, const Access& access);

  ValueReply get(std::string_view name);
  ValueReply set(std::string_view name, std::span<const std::byte> value);
  // Any command that does not block. Lists of at most kMaxItems are taken.
  Answer ask(std::span<const std::string> words);

  static constexpr size_t kMaxItems = 1u << 20;

 private:
  using Clock = std::chrono::steady_clock;
  struct Failed {
    Failure kind;
    std::string detail;
  };
  enum class Shape { kSingle, kAny };
  struct Parsed;  // a reply as hiredis has it
  using Words = std::span<const std::string_view>;

  std::optional<Failed> ensure_connected();
  std::optional<Failed> connect();
  std::optional<Failed> connect_to(int family, const void* address, size_t size, Clock::time_point deadline);
  std::optional<Failed> introduce();
  std::optional<Failed> command(Words words, Shape shape, Parsed& reply);
  std::optional<Failed> send(std::string_view bytes, Clock::time_point deadline);
  std::optional<Failed> receive(Shape shape, Parsed& reply, Clock::time_point deadline);
  std::optional<Failed> wait(short events, Clock::time_point deadline);
  template <class Out>
  Out failed(Failed failure);

  const Address address_;
  const Access& access_;
  wire::UniqueFd socket_;
};

}  // namespace kiln::redis
