// What a handle in the default mode adds: for each class of shapes of its launches (kiln/dsl/size_class.h), the kernel
// in the config that the service chooses by its cost model (docs/use/tuning.md). The first launch of a class has it
// asked behind itself, and takes the default until the other one is compiled.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "function_state.h"
#include "kiln/client/client.h"

namespace kiln::client {

class Stream;

class ChosenConfigs : public std::enable_shared_from_this<ChosenConfigs> {
 public:
  // `fallback`: in the default config; `fixed`: the constexprs that are the caller's.
  ChosenConfigs(const std::shared_ptr<FunctionState>& fallback, std::vector<std::string> fixed);
  ~ChosenConfigs();
  ChosenConfigs(const ChosenConfigs&) = delete;
  ChosenConfigs& operator=(const ChosenConfigs&) = delete;

  struct Taken {
    FunctionState* state = nullptr;  // null: the fallback
    bool is_open = false;            // the service has not answered yet
  };
  // What a launch with these arguments takes. Null: of a CPU.
  Taken for_launch(std::span<const Argument> arguments, const Stream* stream);
  // Waits for the service, and for the code; of the first device. What it does not answer keeps the default.
  Taken prepare(std::span<const Argument> arguments);
  // Of the first device, without asking anyone.
  std::shared_ptr<FunctionState> known(std::span<const Argument> arguments);

  // What launches take in place of the default, each once.
  std::vector<dsl::ConstexprValues> configs() const;
  // Grows whenever a launch may take another config.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  using Sizes = std::vector<uint64_t>;  // the device, then the classes of the int parameters
  // A config that is compiled, for good.
  struct Other {
    std::shared_ptr<FunctionState> state;
    std::vector<std::optional<int64_t>> constexprs;  // where the kernel has conditions
  };
  struct Class {
    explicit Class(Sizes its) : sizes(std::move(its)) {}
    const Sizes sizes;
    std::atomic<const Other*> other{nullptr};
    std::atomic<bool> is_open{true};
  };
  // Ends what a class waits for, also where the task that was to answer is dropped.
  class Closing;

  static constexpr size_t kSlots = 2048, kMostClasses = kSlots / 2;

  void sizes_of(std::span<const Argument> arguments, uint32_t device, Sizes& sizes) const;
  Class* find(const Sizes& sizes) const;
  // The class, and whether it is new.
  std::pair<Class*, bool> insert(const Sizes& sizes);
  Taken taken(const Class& one, std::span<const Argument> arguments) const;
  bool may_run(const Other& other, std::span<const Argument> arguments) const;

  wire::TuneHeader header_of(std::span<const Argument> arguments, uint32_t device, std::string hardware) const;
  void answer(Class& one, wire::TuneHeader header, const dsl::Facts& facts, const std::stop_token& cancel);
  const Other* nearest(const Class& one) const;
  Result<const Other*> other_of(const dsl::ConstexprValues& config, const std::stop_token& cancel);

  const std::weak_ptr<FunctionState> fallback_;  // which owns this
  const std::shared_ptr<Core> core_;
  const CompileSpec spec_;
  const std::vector<std::string> fixed_;

  // Insert only, so that a reader needs no lock: an entry is found from its hash on, before the first empty slot.
  std::array<std::atomic<Class*>, kSlots> slots_ = {};
  std::atomic<uint64_t> version_{1};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Class>> classes_;
  std::vector<std::unique_ptr<const Other>> others_;  // by config
  size_t asked_ = 0;
};

}  // namespace kiln::client
