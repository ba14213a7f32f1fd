// The part of a client that its handles share: the connection, compilation, and the background threads.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "background.h"
#include "kiln/client/connection.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/custom_kernel.h"
#include "kiln/wire/channel.h"
#include "lifetime.h"
#include "variant.h"

namespace kiln::client {

// Everything that decides a kernel's code, but for the facts.
struct CompileSpec {
  std::shared_ptr<const dsl::Kernel> kernel;
  std::string target;               // resolved
  dsl::ConstexprValues constexprs;  // all of them
  uint32_t deadline_ms = 0;
  std::shared_ptr<const dsl::RequestEncoder> requests = nullptr;  // of the kernel, where more than one is likely
  // What the first variant relies on, of arguments that nearly all launches have; one without them waits for the
  // generic one to be compiled.
  dsl::Facts base = {};
  // Beside the first one, that launches have compiled. Facts are few and so are the variants worth having; arguments
  // of every shade must not compile for ever.
  size_t most_variants = 16;
  // The user's own, of which the kernel is the declaration: the same for all facts.
  std::optional<dsl::CustomCode> code = {};
};

inline constexpr const char* kInterpreter = "interp";
inline constexpr const char* kLoadable = "so";

Result<RequestBytes> request_of(const CompileSpec& spec, const dsl::Facts& facts, const std::string& emit = kLoadable);

class Core {
 public:
  Core(ConnectOptions connect, bool specialise) : connect_(std::move(connect)), specialise_(specialise) {}
  ~Core() { stop(); }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  bool specialises() const { return specialise_; }
  // The process that made this one by fork() has it: it compiles nothing here.
  bool of_parent() const { return birth_.of_parent(); }

  // "cpu" becomes what the daemon says this machine is, "cuda" the best target of the first device. Error for a target
  // that nobody knows.
  Result<std::string> resolve_target(const std::string& target, uint32_t deadline_ms = 0);
  // From the daemon's cache or compiler.
  Result<Artifact> fetch(const CompileSpec& spec, const dsl::Facts& facts, const std::string& emit,
                         const CompileOptions& options);
  Result<Artifact> fetch(const RequestBytes& request, const CompileOptions& options);
  // The same, loaded; for the interpreter instantiated here.
  Result<std::shared_ptr<const Variant>> compile(const CompileSpec& spec, const dsl::Facts& facts,
                                                 const CompileOptions& options);
  // The first variants (CompileSpec::base) of many kernels for one target: those that are in a cache by one round trip,
  // and the others compiled side by side. The first failure, which cancels the others, is the error; `failed` is then
  // the kernel's number.
  Result<std::vector<std::shared_ptr<const Variant>>> compile_all(std::span<const CompileSpec> specs,
                                                                  const CompileOptions& options, size_t& failed);
  // The generic variant where it is in a cache, else one that is made quickly; of a CPU.
  Result<std::shared_ptr<const Variant>> compile_quickly(const CompileSpec& spec, const CompileOptions& options);

  // The best config known for a shape (kiln/wire/messages.h).
  Result<wire::Tuned> tune(const CompileSpec& spec, const dsl::Facts& facts, const wire::TuneHeader& header,
                           std::stop_token cancel, uint32_t wait_ms = 0);

  // The config that the service chooses for a launch, without a measurement; `header` says `choose`. Where no service
  // does such a thing, nobody should ask for a while.
  Result<wire::Tuned> choose(const CompileSpec& spec, const dsl::Facts& facts, const wire::TuneHeader& header,
                             std::stop_token cancel);
  bool rests_from_choosing() const { return wire::Clock::now().time_since_epoch().count() < choose_again_; }

  // Compiles, and waits for tuning, behind the callers' backs: apart, because tuning takes long.
  void specialise_behind(Background::Task task) { specialising_.run(std::move(task)); }
  void tune_behind(Background::Task task) { tuning_.run(std::move(task)); }
  // Cancels the tasks that run, waits for them, and drops the others.
  void stop();

 private:
  // A call with a deadline waits no longer than that for one that does not start; 0: none.
  Result<std::shared_ptr<Connection>> connection(uint32_t deadline_ms = 0);

  const Birth birth_;
  const ConnectOptions connect_;
  const bool specialise_;
  std::timed_mutex connection_mutex_;
  std::shared_ptr<Connection> connection_;
  // After a failure nothing is tried for a moment: each launch would pay for the search.
  std::optional<Error> connect_failure_;
  wire::Deadline connect_again_{};
  std::atomic<wire::Clock::rep> choose_again_{0};  // since the clock's epoch
  Background specialising_, tuning_;
};

}  // namespace kiln::client
