// get(): from a kernel to a handle, and the table that makes a repeated get() cheap.
#include "kiln/client/client.h"

#include <array>
#include <shared_mutex>
#include <unordered_map>
#include <variant>

#include "chosen.h"
#include "function_state.h"
#include "kernel_files.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/instantiate.h"
#include "lifetime.h"
#include "profile/recorder.h"
#include "tuned.h"

namespace kiln::client {
namespace {

// What one get() asks for; `Text` borrows for a look-up and owns in the table.
template <class Text, class Values>
struct MemoKey {
  uint64_t kernel;
  Text target;
  Values constexprs;
  Mode mode;
  uint32_t tune_budget_ms, tune_wait_ms;
  bool quick_start;
};
using OwnedKey = MemoKey<std::string, dsl::ConstexprValues>;
using BorrowedKey = MemoKey<const std::string&, const dsl::ConstexprValues&>;

struct MemoHash {
  using is_transparent = void;
  template <class Key>
  size_t operator()(const Key& key) const {
    size_t hash = std::hash<std::string_view>()(key.target) ^ key.kernel * 0x9e3779b97f4a7c15u;
    // Names follow from the kernel for all but wrong requests, which are not kept: the values tell keys apart.
    for (const auto& [name, value] : key.constexprs) hash = hash * 31 + static_cast<size_t>(value);
    return hash;
  }
};
struct MemoEqual {
  using is_transparent = void;
  template <class A, class B>
  bool operator()(const A& a, const B& b) const {
    return a.kernel == b.kernel && a.target == b.target && a.constexprs == b.constexprs && a.mode == b.mode &&
           a.tune_budget_ms == b.tune_budget_ms && a.tune_wait_ms == b.tune_wait_ms && a.quick_start == b.quick_start;
  }
};

}  // namespace

// A kernel, verified, and what makes requests of it.
struct Requests {
  std::shared_ptr<const dsl::Kernel> kernel;
  std::shared_ptr<const dsl::RequestEncoder> encoder;
};

// Readers of one shard share its lock; shards keep threads that ask for different kernels apart.
class Memo {
 public:
  UntypedFunction find(const BorrowedKey& key, bool& found) const {
    const Shard& shard = shard_of(key.kernel);
    std::shared_lock lock(shard.mutex);
    const auto entry = shard.table.find(key);
    found = entry != shard.table.end();
    return found ? entry->second : UntypedFunction();
  }
  // The handle that was there first.
  UntypedFunction insert(const BorrowedKey& key, UntypedFunction function) {
    Shard& shard = shard_of(key.kernel);
    std::unique_lock lock(shard.mutex);
    return shard.table
        .try_emplace(OwnedKey{key.kernel, key.target, key.constexprs, key.mode, key.tune_budget_ms, key.tune_wait_ms,
                              key.quick_start},
                     std::move(function))
        .first->second;
  }
  // What makes requests of a kernel, whatever its config; null: nobody has asked for it.
  Requests requests(uint64_t kernel) const {
    const Shard& shard = shard_of(kernel);
    std::shared_lock lock(shard.mutex);
    const auto entry = shard.requests.find(kernel);
    return entry == shard.requests.end() ? Requests() : entry->second;
  }
  void insert(uint64_t kernel, const Requests& requests) {
    Shard& shard = shard_of(kernel);
    std::unique_lock lock(shard.mutex);
    shard.requests.try_emplace(kernel, requests);
  }

 private:
  struct alignas(64) Shard {
    mutable std::shared_mutex mutex;
    std::unordered_map<OwnedKey, UntypedFunction, MemoHash, MemoEqual> table;
    std::unordered_map<uint64_t, Requests> requests;
  };
  const Shard& shard_of(uint64_t kernel) const { return shards_[kernel % shards_.size()]; }
  Shard& shard_of(uint64_t kernel) { return shards_[kernel % shards_.size()]; }
  std::array<Shard, 16> shards_;
};

namespace {

Result<Requests> requests_of(const dsl::Kernel& kernel) {
  auto shared = std::make_shared<const dsl::Kernel>(keeps_kernel_files() ? with_lines(kernel) : kernel);
  auto encoder = dsl::RequestEncoder::create(shared);
  if (!encoder) return encoder.error();
  return Requests{std::move(shared), std::make_shared<const dsl::RequestEncoder>(std::move(*encoder))};
}

Result<void> check_tunable(const dsl::Kernel& kernel, const GetOptions& options) {
  if (!asks_tuner(options.mode) || options.target == kInterpreter) return {};
  const dsl::Param* param = array_of_unknown_size(kernel);
  if (param == nullptr) return {};
  return invalid_argument("kernel `" + kernel.name + "` cannot be tuned: nothing says how large the array `" +
                          param->name + "` is; write .array(\"" + param->name +
                          "\", \"n\") behind the kernel, with its size");
}

Result<Requests> requests_of_traced(const Result<dsl::Kernel>& kernel) {
  if (kernel) return requests_of(*kernel);
  try {
    return kernel.error();
  } catch (const std::bad_variant_access&) {  // destroyed: neither a kernel nor an error
    return error(ErrorCode::kCancelled, "get() of a kernel that has been destroyed: the process ends");
  }
}

Result<UntypedFunction> get_function(const std::shared_ptr<Core>& core, const Requests& requests,
                                     const GetOptions& options) {
  const dsl::Kernel& kernel = *requests.kernel;
  const Timed timed(profile::Kind::kGet, kernel.name);
  // A wrong config is refused where nothing answers, too.
  if (auto fine = dsl::complete_constexprs(kernel, options.constexprs, options.target); !fine) return fine.error();
  if (auto tunable = check_tunable(kernel, options); !tunable) return tunable.error();
  auto target = core->resolve_target(options.target, options.deadline_ms);
  if (!target) return target.error();
  auto constexprs = dsl::complete_constexprs(kernel, options.constexprs, *target);
  if (!constexprs) return constexprs.error();
  CompileSpec spec{requests.kernel, std::move(*target), std::move(*constexprs), options.deadline_ms, requests.encoder};
  const bool quick = options.quick_start && core->specialises() && dsl::target_family(spec.target) == "cpu";
  auto generic = quick ? core->compile_quickly(spec, {.deadline_ms = options.deadline_ms})
                       : core->compile(spec, {}, {.deadline_ms = options.deadline_ms});
  if (!generic) return generic.error();
  auto state = FunctionState::make(core, std::move(spec), std::move(*generic));
  if (state->spec.target == kInterpreter || options.mode == Mode::kFixed) return UntypedFunction(std::move(state));
  std::vector<std::string> fixed;
  for (const auto& [name, value] : options.constexprs) fixed.push_back(name);
  if (asks_tuner(options.mode)) {
    state->tuned = std::make_shared<TunedConfigs>(state, std::move(fixed), options);
  } else if (core->specialises() && no_choice(kernel, options.constexprs).empty()) {
    state->chosen = std::make_shared<ChosenConfigs>(state, std::move(fixed));
  }
  return UntypedFunction(std::move(state));
}

}  // namespace

struct Client::State {
  explicit State(const ClientOptions& options)
      : core(std::make_shared<Core>(options.connect, options.specialise_in_background)) {}
  ~State() { core->stop(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const std::shared_ptr<Core> core;
  Memo memo;  // handles by kernel and options
};

Client::Client(ClientOptions options)
    : state_(new PerProcess<State>([options = std::move(options)] { return std::make_unique<State>(options); })) {
  profile_as_environment_says();
}

// One that was never used is kept: exit() may have got here before another thread's first get(). It is small, and has
// neither threads nor a connection.
Client::~Client() {
  if (state_->birth().is_unused())
    state_->keep();
  else
    DeleteUnlessItStays()(state_);
}

std::shared_ptr<Core> Client::core() const { return state_->get().core; }

Result<UntypedFunction> Client::get(const dsl::Kernel& kernel, const GetOptions& options) {
  auto requests = requests_of(kernel);
  if (!requests) return requests.error();
  return get_function(state_->get().core, *requests, options);
}

Result<Artifact> Client::compile(const dsl::Kernel& kernel, const CompileAhead& what) {
  if (what.target == kInterpreter)
    return invalid_argument("the interpreter runs kernels as they are: compile for another target");
  if (auto fine = dsl::complete_constexprs(kernel, what.constexprs, what.target); !fine) return fine.error();
  Core& core = *state_->get().core;
  auto target = core.resolve_target(what.target, what.deadline_ms);
  if (!target) return target.error();
  auto constexprs = dsl::complete_constexprs(kernel, what.constexprs, *target);
  if (!constexprs) return constexprs.error();
  dsl::Facts facts = what.facts;
  if (facts.size() < kernel.params.size()) facts.resize(kernel.params.size(), dsl::ParamFact::kNone);
  const CompileSpec spec{std::make_shared<const dsl::Kernel>(kernel), std::move(*target), std::move(*constexprs)};
  return core.fetch(spec, facts, what.emit, {.deadline_ms = what.deadline_ms});
}

// Looks at the kernel only when it is new: a static one may have been destroyed by exit(), with threads that go on.
Result<UntypedFunction> Client::get_memoised(uint64_t id, const Result<dsl::Kernel>& kernel,
                                             const GetOptions& options) {
  const BorrowedKey key{id,
                        options.target,
                        options.constexprs,
                        options.mode,
                        options.tune_budget_ms,
                        options.tune_wait_ms,
                        options.quick_start};
  State& state = state_->get();
  bool found = false;
  UntypedFunction known = state.memo.find(key, found);
  if (found) return known;
  Requests requests = state.memo.requests(id);
  if (!requests.encoder) {
    auto fresh = requests_of_traced(kernel);
    if (!fresh) return fresh.error();
    state.memo.insert(id, *fresh);
    requests = std::move(*fresh);
  }
  auto made = get_function(state.core, requests, options);
  if (!made) return made;
  return state.memo.insert(key, std::move(*made));
}

}  // namespace kiln::client
