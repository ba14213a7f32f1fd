// Whose a connection is: the process that has made it, as long as that lives. A descriptor may outlive it in the hands
// of another, so that one process could be many; those whose makers have ended are one together.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <unordered_map>

namespace kiln::server {

struct Owner {
  uint64_t id = 0;
  uint64_t started = 0;  // of the process; 0: not known
};

class Owners {
 public:
  using Clock = std::chrono::steady_clock;
  // Of all connections whose processes have ended.
  static constexpr uint64_t kEnded = UINT64_MAX;
  // A process is looked at so often while it asks for something.
  static constexpr std::chrono::milliseconds kLook{100};

  // Of the process at the other end; where that is not known, of the connection.
  Owner of(int fd, uint64_t connection);
  bool has_ended(const Owner& owner, Clock::time_point now = Clock::now());
  // Nobody asks for it any more.
  void forget(uint64_t owner) { looks_.erase(owner); }

 private:
  struct Look {
    uint64_t started = 0;  // of the process that has this number; 0: none has
    Clock::time_point taken;
  };
  std::unordered_map<uint64_t, Look> looks_;
};

}  // namespace kiln::server
