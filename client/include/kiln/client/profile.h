// What a program's time in Kiln goes to: spans of launches, copies, waits, compiles and runs of graphs, on the host
// and, if asked, on devices.
//
//   kiln::profile::start();
//   { kiln::profile::Scope scope("step"); …launches… }
//   auto profile = kiln::profile::stop();
//   std::fputs(kiln::profile::summary(*profile).c_str(), stderr);
//
// Without a line of code: KILN_PROFILE=summary,trace=FILE in the environment (docs/use/profiling.md). All functions may
// be called from any thread. While nobody profiles, a launch pays for one look at a flag.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/dsl/result.h"

namespace kiln::profile {

enum class Kind : uint8_t {
  kScope,     // the program's own
  kGet,       // a handle of a kernel is made: what get() does the first time
  kCompile,   // an artifact comes from the daemon, or the interpreter's form is made; a graph's plan and its kernels
  kLaunch,    // of a kernel: until the call returns
  kRun,       // of a graph: likewise
  kReplay,    // of a recording
  kCopy,      // of a device's memory
  kFill,      // likewise
  kAllocate,  // likewise
  kWait,      // for a stream, an event or a device
  kFallback,  // of no length: what was asked of a device was done in another way; `detail` says why
};
std::string_view kind_name(Kind kind);

struct Span {
  Kind kind = Kind::kScope;
  bool on_device = false;                    // when the device did it, and not when the host asked for it
  std::string name = {};                     // of the kernel, graph or scope; of a copy where it goes
  std::string device = {};                   // "cpu", "cuda:0", "interp"; "" where it has none
  std::string detail = {};                   // why, of a fallback
  std::array<uint32_t, 3> grid = {0, 0, 0};  // of launches
  // That a copy, fill or allocation has, or that a fallback copied; of launches the arrays whose extents are known.
  uint64_t bytes = 0;
  uint64_t track = 0;                // the thread, by the system's number; `on_device`: the stream
  uint64_t flow = 0;                 // not 0: the same for a launch on the host and on its device
  int64_t begin_ns = 0, end_ns = 0;  // of std::chrono::steady_clock
};

struct Options {
  // Also when GPUs run launches, by two events around each: a launch costs the host some microseconds more. What runs
  // on a CPU's stream is always there.
  bool device_times = false;
  // Spans beyond so many are counted, and not kept.
  uint64_t most_spans = 1'000'000;
};

struct Profile {
  std::vector<Span> spans;  // by begin_ns
  uint64_t dropped = 0;
  int64_t begin_ns = 0, end_ns = 0;
  std::map<std::string, double> roofs = {};  // by device: GB/s of its memory, as find_roofs() measured it
};

// Error: somebody profiles already. While a profile is on, a graph's launches on CPUs run one after the other, so that
// each is seen. The child of a fork() does not profile.
Result<void> start(const Options& options = {});
// Waits for streams whose launches are timed on the device. Error: nobody profiles.
Result<Profile> stop();
// What is noted until now, while the profile goes on; of streams what they have done. Error: nobody profiles.
Result<Profile> so_far();

// Notes that the program does something in another way than it was asked to, on the host perhaps, and why; `bytes`: so
// many went to where it is done and back. A graph whose kernels do not compile notes the same.
void fallback(std::string_view name, std::string_view why, uint64_t bytes = 0);

// Measures what a copy within its memory reaches on each device that the profile has launches of, some tenths of a
// second each, for the table to say which share of that launches reach. Best when nothing else runs.
void find_roofs(Profile& profile);
// A table for people: what took how long, by kind, device and name, longest first.
std::string summary(const Profile& profile);
// For ui.perfetto.dev and chrome://tracing: the Trace Event Format, an array of "X" events with flow arrows from
// launches on the host to the device.
std::string trace_json(const Profile& profile);

// A part of the program by name, from here to the end of the block; scopes nest. The name is copied.
class Scope {
 public:
  explicit Scope(std::string_view name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  std::unique_ptr<Span> span_;  // null: nobody profiles
  bool is_range_ = false;       // a tool was told
};

}  // namespace kiln::profile
