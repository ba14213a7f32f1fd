// Where the client notes what it does, while somebody profiles. Off, a Timed costs a look at a flag.
#pragma once

#include <atomic>
#include <optional>

#include "kiln/client/profile.h"

namespace kiln::client {

namespace recorder {
extern std::atomic<bool> is_on;
}

inline bool is_profiled() { return recorder::is_on.load(std::memory_order_relaxed); }

int64_t profile_clock();
// Keeps the span, unless there are too many, or nobody profiles any more. One of the host is of the calling thread.
void note(profile::Span&& span);
// For Span::flow.
uint64_t next_flow();
// What KILN_PROFILE asks for, once a process; called where programs first meet the client.
void profile_as_environment_says();

// One span, from here to the end of the block.
class Timed {
 public:
  Timed(profile::Kind kind, std::string_view name, std::string_view device = "") {
    if (is_profiled()) [[unlikely]]
      begin(kind, name, device);
  }
  ~Timed() {
    if (span_) [[unlikely]]
      end();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  // Null: nobody profiles.
  profile::Span* span() { return span_ ? &*span_ : nullptr; }

 private:
  void begin(profile::Kind kind, std::string_view name, std::string_view device);
  void end();
  std::optional<profile::Span> span_;
};

}  // namespace kiln::client
