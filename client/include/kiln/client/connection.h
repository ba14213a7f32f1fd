// The client's end of the daemon: finds it or starts it, and asks it for artifacts.
//
//   auto daemon = Connection::open({});
//   if (!daemon) …daemon.error().message…
//   auto artifact = (*daemon)->fetch(request);   // a key first, the request only on a miss
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "kiln/dsl/artifact.h"
#include "kiln/dsl/request.h"
#include "kiln/dsl/result.h"
#include "kiln/wire/messages.h"

namespace kiln::client {

template <class T>
class PerProcess;

using wire::Priority;
using wire::Welcome;

// Where the programs of the installation are that a program was built with: find_package(Kiln) defines it.
#ifndef KILN_PROGRAMS_DIR
#define KILN_PROGRAMS_DIR ""
#endif

struct ConnectOptions {
  // Empty fields are looked up: the runtime directory by kiln/wire/paths.h, kilnd by find_kilnd, kiln-worker beside it.
  std::string runtime_dir;
  std::string kilnd_path;
  std::string worker_path;
  std::string programs_dir = KILN_PROGRAMS_DIR;  // find_kilnd looks there
  std::string client_name = "kiln-client";       // in the daemon's log
  bool autostart = true;                         // start a daemon where none runs
  // A daemon of another build than the one that would be started is asked to leave. It does where its programs were
  // replaced; else this installation has a daemon beside it, in a directory of its own. Without this it is used as it
  // is.
  bool exact_build = true;
  // Where no daemon can live, a `kilnd --pipe` child of this process serves it alone.
  bool allow_pipe = true;
  std::vector<std::string> daemon_args;  // passed on when a daemon is started
  // How long it may take, all together, to find a daemon or start one, also over a pipe, and to hear its first word:
  // one that takes longer is taken for hung, and killed where it was started for this. Where this process stood still
  // beyond that, it is tried once more.
  std::chrono::milliseconds start_timeout{10'000};
};

struct CompileOptions {
  uint32_t deadline_ms = 0;  // 0: the daemon's default
  Priority priority = Priority::kInteractive;
  std::stop_token cancel = {};
  std::string trace_id = {};  // appears in errors and in the daemon's log
  // Answer when the artifact is on disk and outlasts a power cut; its metadata then has `durable`: false where it
  // cannot be stored.
  bool durable = false;
  // Address space that the compile may use; 0: the daemon's default (`--worker-memory`). It has at least that: one that
  // runs already with less is not joined.
  uint64_t memory_bytes = 0;
};

// Every call ends in its time, whatever state the daemon is in: a compile 5 s after its deadline at the latest, the
// others after 30 s, and those that may take longer within a minute of the daemon's last answer to anybody.
// Thread-safe: any number of threads may have requests in flight on one connection. A daemon that went away is found or
// started again once per request; one that says that it is leaving is nobody's error: the request goes to the next, for
// which it waits start_timeout where somebody else must start it. A client that starts none waits until the request's
// own deadline, where it has one. In the child of a fork() it connects anew.
class Connection {
 public:
  // kDeadlineExceeded: not by then, or not within options.start_timeout.
  static Result<std::unique_ptr<Connection>> open(
      const ConnectOptions& options,
      std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max());
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The greeting of the daemon of the moment: builder id, native target, pid, versions, paths.
  Welcome server() const;
  RequestKey key_of(const RequestBytes& request) const;

  // Metadata of an artifact says where it was, in `served_from`.
  Result<Artifact> get(const RequestKey& key);  // kNotFound on a miss
  std::vector<Result<Artifact>> get_many(std::span<const RequestKey> keys);
  Result<Artifact> compile(const RequestBytes& request, const CompileOptions& options = {});
  // get, and compile on a miss; the deadline and the stop token hold for both.
  Result<Artifact> fetch(const RequestBytes& request, const CompileOptions& options = {});

  // The best config known of a kernel for a shape. The request has the caller's constexprs, and of the others any
  // values. With header.wait it answers when tuning is done, or after `wait_ms` with kDeadlineExceeded; 0: no limit.
  Result<wire::Tuned> tune(const RequestBytes& request, const wire::TuneHeader& header, std::stop_token cancel = {},
                           uint32_t wait_ms = 0);

  // The daemon's figures as a JSON object ("json") or as Prometheus text ("prometheus"), or its `last` compile requests
  // for Perfetto ("trace"); 0: all that it remembers.
  Result<std::string> stats(const std::string& format = "json", uint32_t last = 0);
  Result<void> ping();
  // Kernels that killed workers may be tried again.
  Result<void> clear_poison();
  // Asks the daemon to drain and waits until it has closed this connection. It is not started again by this call.
  Result<void> shutdown();

 private:
  struct State;
  explicit Connection(PerProcess<State>* state);
  State& state() const;
  PerProcess<State>* state_;
};

}  // namespace kiln::client
