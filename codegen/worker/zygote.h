// The process logic of kiln-worker. The daemon starts one zygote by exec; the zygote loads the compiler once and forks
// workers on command, so that a worker costs a fork instead of loading and initialising LLVM. It stays single-threaded:
// a fork copies only the calling thread.
//
// Daemon and zygote talk frames over descriptor kChannelFd:
//   zygote → daemon  kZygoteHello {builder_id, native_target}
//   daemon → zygote  kSpawn {worker limits}, with the worker's end of a socket pair; the request id names the worker
//   zygote → daemon  kSpawned {pid}, with the worker's pidfd
//   zygote → daemon  kExited {signal | code | message}
// Daemon and worker talk kCompile → kPhase… → kResult | kError over that pair. A worker sees it as kChannelFd too.
// The environment has KILN_WORKER_LOG where workers shall log lines, on standard error, and KILN_WORKER_CRASH, a file
// for the reports of crashes: the zygote writes there what a worker has left in a room of its own (report_room.h); and
// KILN_WORKER_CACHE, the cache's directory, where the zygote keeps what it measures of this machine (kept_target.h).
// Its workers have neither of these two.
// Standard output and error are a pipe that the daemon reads. When the daemon dies, the zygote reads end-of-file and
// exits, and the kernel kills the workers with it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "kept_target.h"
#include "kiln/dsl/artifact.h"
#include "kiln/dsl/result.h"
#include "kiln/wire/channel.h"

namespace kiln::worker {

inline constexpr int kChannelFd = 3;
inline constexpr int kReportFd = 4;  // of a worker: the room for its crash report
// Exit codes of a worker that the daemon understands.
inline constexpr int kExitOutOfMemory = 77;
inline constexpr int kExitOrphan = 78;

// What processes beside a worker give up before they take its word.
struct HelperRights {
  std::function<Result<void>()> helper = nullptr;   // of one that starts programs
  std::function<Result<void>()> program = nullptr;  // of one that is about to become a program, besides
};

using Progress = std::function<void(std::string_view phase)>;

// The compiler as this library sees it.
struct Compiler {
  std::function<std::string()> builder_id;
  std::function<NativeTarget()> native_target;
  std::function<void(const std::string& native_target)> warm_up;  // empty: as measured in this process
  std::function<void(const HelperRights&)> start_helpers;         // in each worker, on the way into its sandbox
  std::function<Result<Artifact>(std::span<const std::byte> canonical, std::span<const std::byte> debug,
                                 const Progress& progress)>
      compile;
};

struct Limits {
  uint64_t memory_bytes = 4ull << 30;  // address space that a job may have; 0: no limit
  uint64_t cpu_seconds = 300;          // per job
  uint64_t max_jobs = 100;             // then the worker is replaced
  uint64_t max_rss_bytes = 512ull << 20;
};

// Runs until the daemon closes the channel. Returns the exit code of the process.
int zygote_main(const Compiler& compiler);

// Compiles the COMPILE body in one file into another, in this process. Returns the exit code.
int compile_main(const Compiler& compiler, const char* request_path, const char* code_path);

// One worker, in the forked process, whose report has its room: opens its files, enters the sandbox, takes jobs; never
// returns.
[[noreturn]] void worker_main(wire::Channel channel, const Limits& limits, const Compiler& compiler, int parent_pid);

// Takes from the calling process what a compile does not need; what `start_helpers` starts may still run programs. A
// failure is a message.
Result<void> enter_sandbox(const Limits& limits, int parent_pid,
                           const std::function<void(const HelperRights&)>& start_helpers);
// Of it what holds whoever compiles, with limits or without: nothing is opened, and nobody reached.
Result<void> give_up_rights(const std::function<void(const HelperRights&)>& start_helpers);
// Of the address space of the calling process, for a job, and within what the worker may have; 0: all of that.
void limit_memory(uint64_t bytes);
bool memory_can_be_limited();  // not under a sanitizer

}  // namespace kiln::worker
