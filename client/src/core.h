// The part of a client that its handles share: the connection, compilation, and the one background thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "kiln/client/connection.h"
#include "variant.h"

namespace kiln::client {

// Everything that decides a kernel's code, but for the facts.
struct CompileSpec {
  std::shared_ptr<const dsl::Kernel> kernel;
  std::string target;               // resolved
  dsl::ConstexprValues constexprs;  // all of them
  uint32_t deadline_ms = 0;
};

inline constexpr const char* kInterpreter = "interp";

class Core {
 public:
  Core(ConnectOptions connect, bool specialise) : connect_(std::move(connect)), specialise_(specialise) {}
  ~Core() { stop(); }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  bool specialises() const { return specialise_; }

  // "cpu" becomes what the daemon says this machine is, "cuda" the best target of the first device. Error for a target
  // that nobody knows.
  Result<std::string> resolve_target(const std::string& target);
  // From the daemon's cache or compiler; for the interpreter instantiated here.
  Result<std::shared_ptr<const Variant>> compile(const CompileSpec& spec, const dsl::Facts& facts,
                                                 const CompileOptions& options);

  // Runs the task on the background thread, in order; dropped after stop(). The token says when it should give up.
  void run_behind(std::function<void(std::stop_token)> task);
  // Cancels the task that runs, waits for it, and drops the others.
  void stop();

 private:
  Result<std::shared_ptr<Connection>> connection();
  void work(std::stop_token stop);

  const ConnectOptions connect_;
  const bool specialise_;
  std::mutex connection_mutex_;
  std::shared_ptr<Connection> connection_;

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::function<void(std::stop_token)>> tasks_;
  bool stopped_ = false;
  std::jthread thread_;
};

}  // namespace kiln::client
