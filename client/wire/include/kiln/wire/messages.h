// What the JSON headers of frames say, as structures, and the texts of these.
#pragma once

#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kiln/dsl/request.h"
#include "kiln/dsl/result.h"
#include "kiln/wire/frame.h"

namespace kiln::wire {

// The daemon's greeting.
struct Welcome {
  Version min_version = kMinVersion;
  Version max_version = kVersion;
  std::string builder_id;     // part of every request key
  std::string native_target;  // what `cpu` resolves to on this machine
  int64_t pid = 0;
  // Which files the daemon and its workers were started from, so that a client of another build notices.
  std::string daemon_path, daemon_build_id;
  std::string worker_path, worker_build_id;
};
std::string to_text(const Welcome& welcome);
Result<Welcome> parse_welcome(std::string_view text);

// The client's answer.
struct Hello {
  Version version = kVersion;
  std::string client_name;
  std::string build_id;
  bool replace = false;  // drain and exit: the client starts a daemon of its own build
};
std::string to_text(const Hello& hello);
Result<Hello> parse_hello(std::string_view text);

enum class Priority : uint8_t { kInteractive, kBackground };

struct CompileHeader {
  uint32_t deadline_ms = 0;  // 0: the daemon's default
  Priority priority = Priority::kInteractive;
  std::string trace_id;
  bool durable = false;       // answer when the result is on disk and outlasts a power cut
  uint64_t memory_bytes = 0;  // address space of the worker for this compile; 0: the daemon's default
};
std::string to_text(const CompileHeader& header);
Result<CompileHeader> parse_compile_header(std::string_view text);

struct CompileBody {
  std::span<const std::byte> canonical, debug;
};
Result<CompileBody> split_compile_body(std::span<const std::byte> body);

// The value of a scalar parameter. Only what no int64_t holds is a uint64_t.
using Scalar = std::variant<bool, int64_t, uint64_t, double>;

// What shape a kernel is wanted for; the body has the kernel, its target and the constexprs that the caller fixes.
struct TuneHeader {
  std::map<std::string, Scalar> scalars = {};  // by parameter's name
  std::vector<std::string> fixed = {};         // constexprs that are not the tuner's
  bool wait = false;                           // answer when tuning is done; else with what is known now
  bool behind = false;                         // nobody's launch waits for the answer
  uint32_t budget_ms = 0;                      // for tuning; 0: the tuner's default
  uint32_t device = 0;                         // the driver's number of the one to tune for
  std::string trace_id;
  // Answer with what was measured, else with what the cost model chooses, and tune nothing. `hardware` names the device
  // as records do, empty: this CPU; `compiled` are configs that need no compile, and `more` allows one beside them.
  bool choose = false;
  std::string hardware = {};
  std::vector<std::map<std::string, int64_t>> compiled = {};
  bool more = true;
};
std::string to_text(const TuneHeader& header);
Result<TuneHeader> parse_tune_header(std::string_view text);

struct Tuned {
  std::map<std::string, int64_t> config;
  std::string source = "default";         // "golden", "tuned", "shipped", "predicted" or "default"
  bool final = true;                      // false: it is being tuned, and another answer may follow a TUNE that waits
  double median_us = 0, default_us = 0;   // 0: not known
  std::vector<std::string> reasons = {};  // of a choice, for people: a line each
};
std::string to_text(const Tuned& tuned);
Result<Tuned> parse_tuned(std::string_view text);

// The message is cut where it would not fit a frame.
std::string to_text(Error error);
// Any text gives an error: one that does not parse gives kInternal.
Error parse_error(std::string_view text);

}  // namespace kiln::wire
