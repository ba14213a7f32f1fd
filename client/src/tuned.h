// What a handle with a mode adds: for each shape of its launches, the kernel in the config that the tuner chose. A
// shape is the values of the int parameters.
#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <vector>

#include "function_state.h"
#include "kiln/client/client.h"

namespace kiln::client {

// The tuner makes arrays of its own: the first parameter of which nothing says how large its array is; null: none.
const dsl::Param* array_of_unknown_size(const dsl::Kernel& kernel);

// A parameter's value as the tuner is told it.
wire::Scalar scalar_of(dsl::ElementType type, uint64_t bits);

class TunedConfigs : public std::enable_shared_from_this<TunedConfigs> {
 public:
  // `fallback`: in the default config; `fixed`: the constexprs that are the caller's. In mode kFixed launches take
  // what is known and ask nobody: that is up to who made it.
  TunedConfigs(const std::shared_ptr<FunctionState>& fallback, std::vector<std::string> fixed,
               const GetOptions& options);

  // What a launch with these arguments on a device takes, or null for the fallback. A shape seen for the first time is
  // asked about behind the caller; in mode kMax the caller waits, and gets the fallback where tuning fails.
  FunctionState* for_launch(std::span<const Argument> arguments, uint32_t device);
  // Of the first device; null without asking anyone where nothing is known.
  std::shared_ptr<FunctionState> known(std::span<const Argument> arguments) const;
  // For the first device; waits for the tuner, however long it takes.
  Result<void> prepare(std::span<const Argument> arguments);

  // How long a caller waits for the tuner.
  struct Patience {
    std::stop_token cancel = {};
    uint32_t ms = 0;  // 0: however long it takes; else what is found later is taken later
  };
  // Asks for the shape of these arguments, if nobody has, behind the caller; or waits.
  void ask_behind(std::span<const Argument> arguments, uint32_t device);
  Result<void> wait(std::span<const Argument> arguments, uint32_t device, const Patience& patience);

  // Changes whenever a launch may take another config; equal ones are of the same, as long as this lives.
  const void* version() const { return &current(); }
  // What launches take in place of the default, each once.
  std::vector<dsl::ConstexprValues> configs() const;

 private:
  using Shape = std::vector<uint64_t>;  // the device, then the values
  using Done = std::shared_ptr<std::promise<Result<void>>>;
  using States = std::map<Shape, std::shared_ptr<FunctionState>>;

  void shape_of(std::span<const Argument> arguments, uint32_t device, Shape& shape) const;
  wire::TuneHeader header_of(const Shape& shape, std::span<const Argument> arguments, bool wait) const;
  void ask_behind(const Shape& shape, std::span<const Argument> arguments);
  Result<void> wait_for(const Shape& shape, std::span<const Argument> arguments, const Patience& patience);
  void wait_behind(const Shape& shape, wire::TuneHeader header, const dsl::Facts& facts, const Done& done);
  // Asks, compiles what the answer says, and publishes it; whether the answer was final.
  Result<bool> ask(const Shape& shape, const wire::TuneHeader& header, const dsl::Facts& facts, std::stop_token cancel,
                   uint32_t wait_ms = 0);
  Result<std::shared_ptr<FunctionState>> state_of(const dsl::ConstexprValues& config, const std::stop_token& cancel);
  void publish(const Shape& shape, std::shared_ptr<FunctionState> state);
  const States& current() const { return *current_.load(std::memory_order_acquire); }

  const std::weak_ptr<FunctionState> fallback_;  // which owns this
  const std::shared_ptr<Core> core_;
  const CompileSpec spec_;
  const std::vector<std::string> fixed_;
  const Mode mode_;
  const uint32_t budget_ms_, wait_ms_;

  std::mutex mutex_;
  std::map<Shape, std::shared_future<Result<void>>> asked_;
  std::map<dsl::ConstexprValues, std::shared_ptr<FunctionState>> states_;  // by config, but for the fallback's
  // Snapshots are kept until the handle goes, so that a reader needs no lock; a shape makes at most two.
  std::vector<std::unique_ptr<const States>> snapshots_;
  std::atomic<const States*> current_;
};

}  // namespace kiln::client
