// What lies behind a handle: the kernel, how to compile more variants of it, and those there are.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core.h"
#include "lifetime.h"
#include "variant.h"

namespace kiln::client {

// A snapshot that launches read without a lock.
struct VariantSet {
  std::vector<std::shared_ptr<const Variant>> variants;  // the first is of CompileSpec::base, or load_artifact()'s
  std::vector<dsl::Facts> requested;                     // asked for in the background, whatever became of it
};

class ChosenConfigs;
class TunedConfigs;

struct FunctionState : std::enable_shared_from_this<FunctionState> {
  static std::shared_ptr<FunctionState> make(std::shared_ptr<Core> owner, CompileSpec what,
                                             std::shared_ptr<const Variant> first);

  // The best sound variant for what holds, else the first; it lives as long as this.
  const Variant& best(const dsl::Facts& exact) const;
  bool has(const dsl::Facts& facts) const;
  // Changes whenever best() may choose another variant; equal ones are of the same variants, as long as this lives.
  const void* version() const { return &current(); }
  size_t variant_count() const { return current().variants.size(); }
  // Adds the variant for these facts, unless it is there, in place of one that was made quickly.
  Result<void> compile(const dsl::Facts& facts, const CompileOptions& options);
  // Adds the variant for all arguments, where none is sound for these: `best` is not. Error for load_artifact()'s.
  Result<void> compile_generic(const Variant& best, const dsl::Facts& exact);
  // Asks once for the exact variant, to be compiled behind the caller.
  void specialise_later(const dsl::Facts& exact);
  // The same of the full code for a generic variant that was made quickly.
  void replace_later();

  const Birth& birth() const { return birth_; }
  void keep() const { birth_.keep(); }

  const std::shared_ptr<Core> core;
  const CompileSpec spec;
  const ParamLayout layout;
  // Of a handle with a mode, or in the default one; set before the handle is given out.
  std::shared_ptr<TunedConfigs> tuned;
  std::shared_ptr<ChosenConfigs> chosen;

 private:
  friend DeleteUnlessItStays;
  FunctionState(std::shared_ptr<Core> owner, CompileSpec what, std::shared_ptr<const Variant> first);
  ~FunctionState() = default;

  const Birth birth_;

  void publish(VariantSet next);  // under `mutex_`
  const VariantSet& current() const { return *current_.load(std::memory_order_acquire); }

  // Snapshots are kept until the handle goes, so a reader needs no reference count; there are at most two a variant.
  std::mutex mutex_;
  std::vector<std::unique_ptr<const VariantSet>> snapshots_;
  std::atomic<const VariantSet*> current_{nullptr};
  std::atomic<bool> replacing_{false};
};

}  // namespace kiln::client
