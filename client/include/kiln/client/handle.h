// Handles of compiled kernels. A handle is cheap to copy and may be launched from many threads at once. Behind it lie
// variants of the kernel, compiled for different facts about the arguments; a launch takes the best one that is sound.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kiln/abi/metadata.h"
#include "kiln/dsl/interpreter.h"

namespace kiln::client {

struct FunctionState;
class Stream;

struct LaunchOptions {
  int threads = 0;                                   // 0: OpenMP's default
  std::optional<std::array<uint32_t, 3>> grid = {};  // instead of the kernel's own
  // What the kernel's `print` ops give; called while the launch runs, by one of its threads at a time; of a GPU by who
  // waits for the launch, in the synchronisation. It must not throw. Absent: they go to the standard error.
  std::function<void(const dsl::PrintRecord&)> print = nullptr;
  // Of a device that the kernel is compiled for (gpu.h), and with it the device; absent: the default stream.
  const Stream* stream = nullptr;
};

using dsl::Argument;

// A handle of a kernel whose parameters are known only at run time.
class UntypedFunction {
 public:
  UntypedFunction() = default;  // of no kernel; may only be assigned to
  explicit UntypedFunction(std::shared_ptr<FunctionState> state) : state_(std::move(state)) {}

  // Arguments in the order of the parameters. `extent` matters to the interpreter and to kernels with the option
  // check_bounds.
  Result<void> launch(std::span<const Argument> arguments, const LaunchOptions& options = {}) const;
  // Compiles the variant for exactly what these arguments allow, and waits for it; of a handle that is tuned, also for
  // the tuner.
  Result<void> prepare(std::span<const Argument> arguments) const;
  // Compiles the variant for the given facts, and waits for it.
  Result<void> prepare_facts(const dsl::Facts& facts) const;

  const dsl::Kernel& kernel() const;
  // Metadata of the variant that a launch with these facts takes; docs/reference/artifact.md lists the fields.
  abi::Metadata metadata(const dsl::Facts& facts = {}) const;
  size_t variant_count() const;
  // The config that a launch with these arguments takes now: constexprs and schedule options.
  dsl::ConstexprValues config(std::span<const Argument> arguments = {}) const;

  // For the client itself.
  const std::shared_ptr<FunctionState>& state() const { return state_; }

 private:
  std::shared_ptr<FunctionState> state_;
};

}  // namespace kiln::client
