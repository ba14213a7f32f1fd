// Where the client notes what it does, while somebody profiles or a tool watches. Off, a Timed costs a look at a flag.
#pragma once

#include <atomic>
#include <optional>

#include "kiln/client/profile.h"
#include "probes.h"

namespace kiln::client {

namespace recorder {
// Who wants to know of spans, by bits: a profile keeps them, tools are told of them as ranges.
enum Watcher : uint8_t { kProfile = 1, kRanges = 2 };
extern std::atomic<uint8_t> watchers;
}  // namespace recorder

inline bool is_profiled() { return (recorder::watchers.load(std::memory_order_relaxed) & recorder::kProfile) != 0; }

int64_t profile_clock();
// Keeps the span, unless there are too many, or nobody profiles any more. One of the host is of the calling thread.
void note(profile::Span&& span);
// For Span::flow.
uint64_t next_flow();
// What KILN_PROFILE asks for, and tools that watch, once a process; called where programs first meet the client.
void profile_as_environment_says();

// One span, from here to the end of the block.
class Timed {
 public:
  Timed(profile::Kind kind, std::string_view name, std::string_view device = "") {
    if (recorder::watchers.load(std::memory_order_relaxed) != 0) [[unlikely]]
      begin(kind, name, device);
  }
  ~Timed() {
    if (watched_by_ != 0) [[unlikely]]
      end();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  // Null: nobody profiles.
  profile::Span* span() { return span_ ? &*span_ : nullptr; }

 private:
  void begin(profile::Kind kind, std::string_view name, std::string_view device);
  void end();
  uint8_t watched_by_ = 0;  // since its beginning
  std::optional<profile::Span> span_;
};

// The same with probes around it. The compiler takes a probe's text for the length of its code, and would call
// functions for a `nop`.
class TimedLaunch : public Timed {
 public:
  [[gnu::always_inline]] explicit TimedLaunch(std::string_view name) : Timed(profile::Kind::kLaunch, name) {
    KILN_PROBE_TEXT(launch_begin, name);
  }
  [[gnu::always_inline]] ~TimedLaunch() { KILN_PROBE(launch_end); }
};

class TimedCompile : public Timed {
 public:
  [[gnu::always_inline]] explicit TimedCompile(std::string_view name, std::string_view device = "")
      : Timed(profile::Kind::kCompile, name, device) {
    KILN_PROBE_TEXT(compile_begin, name);
  }
  [[gnu::always_inline]] ~TimedCompile() { KILN_PROBE(compile_end); }
};

}  // namespace kiln::client
