// get(): from a kernel to a handle, and the table that makes a repeated get() cheap.
#include "kiln/client/client.h"

#include <array>
#include <shared_mutex>
#include <unordered_map>

#include "function_state.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/verify.h"
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
           a.tune_budget_ms == b.tune_budget_ms && a.tune_wait_ms == b.tune_wait_ms;
  }
};

}  // namespace

// Readers of one shard share its lock; shards keep threads that ask for different kernels apart.
class Memo {
 public:
  UntypedFunction find(const BorrowedKey& key, bool& found) const {
    const Shard& shard = shard_of(key);
    std::shared_lock lock(shard.mutex);
    const auto entry = shard.table.find(key);
    found = entry != shard.table.end();
    return found ? entry->second : UntypedFunction();
  }
  // The handle that was there first.
  UntypedFunction insert(const BorrowedKey& key, UntypedFunction function) {
    Shard& shard = const_cast<Shard&>(shard_of(key));
    std::unique_lock lock(shard.mutex);
    return shard.table
        .try_emplace(OwnedKey{key.kernel, key.target, key.constexprs, key.mode, key.tune_budget_ms, key.tune_wait_ms},
                     std::move(function))
        .first->second;
  }

 private:
  struct alignas(64) Shard {
    mutable std::shared_mutex mutex;
    std::unordered_map<OwnedKey, UntypedFunction, MemoHash, MemoEqual> table;
  };
  const Shard& shard_of(const BorrowedKey& key) const { return shards_[key.kernel % shards_.size()]; }
  std::array<Shard, 16> shards_;
};

Client::Client(ClientOptions options)
    : core_(std::make_shared<Core>(std::move(options.connect), options.specialise_in_background)),
      memo_(std::make_unique<Memo>()) {}

Client::~Client() { core_->stop(); }

Result<UntypedFunction> Client::get(const dsl::Kernel& kernel, const GetOptions& options) {
  if (auto valid = dsl::verify(kernel); !valid) return valid.error();
  // A wrong config is refused where nothing answers, too.
  if (auto fine = dsl::complete_constexprs(kernel, options.constexprs, options.target); !fine) return fine.error();
  auto target = core_->resolve_target(options.target);
  if (!target) return target.error();
  auto constexprs = dsl::complete_constexprs(kernel, options.constexprs, *target);
  if (!constexprs) return constexprs.error();
  CompileSpec spec{std::make_shared<const dsl::Kernel>(kernel), std::move(*target), std::move(*constexprs),
                   options.deadline_ms};
  auto generic = core_->compile(spec, {}, {.deadline_ms = options.deadline_ms});
  if (!generic) return generic.error();
  auto state = std::make_shared<FunctionState>(core_, std::move(spec), std::move(*generic));
  if (options.mode != Mode::kDefault && state->spec.target != kInterpreter) {
    std::vector<std::string> fixed;
    for (const auto& [name, value] : options.constexprs) fixed.push_back(name);
    state->tuned = std::make_shared<TunedConfigs>(state, std::move(fixed), options);
  }
  return UntypedFunction(std::move(state));
}

Result<UntypedFunction> Client::get_memoised(uint64_t id, const dsl::Kernel& kernel, const GetOptions& options) {
  const BorrowedKey key{id,           options.target,         options.constexprs,
                        options.mode, options.tune_budget_ms, options.tune_wait_ms};
  bool found = false;
  UntypedFunction known = memo_->find(key, found);
  if (found) return known;
  auto made = get(kernel, options);
  if (!made) return made;
  return memo_->insert(key, std::move(*made));
}

}  // namespace kiln::client
