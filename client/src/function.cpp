// Launching through a handle, and adding variants to it.
#include <algorithm>

#include "chosen.h"
#include "function_state.h"
#include "kiln/client/gpu.h"
#include "kiln/dsl/facts.h"
#include "tuned.h"

namespace kiln::client {
namespace {

// How much is known: a multiple of 8 is less than one of 16.
size_t strength(const dsl::Facts& facts) {
  size_t out = 0;
  for (const dsl::ParamFact fact : facts) {
    if (fact != dsl::ParamFact::kNone) out += fact == dsl::ParamFact::kMultiple8 ? 1 : 2;
  }
  return out;
}

uint32_t ordinal_of(const Stream* stream) {
  return stream ? static_cast<uint32_t>(stream->device().info().ordinal) : 0;
}

Error no_compiles_of_parent(const dsl::Kernel& kernel) {
  return error(ErrorCode::kUnavailable,
               "kernel `" + kernel.name +
                   "`: this handle was made before fork(), by the parent process, and compiles "
                   "nothing here; get() the kernel again");
}

Error no_kernel() { return invalid_argument("launch of an empty handle"); }

}  // namespace

FunctionState::FunctionState(std::shared_ptr<Core> owner, CompileSpec what, std::shared_ptr<const Variant> first)
    : core(std::move(owner)), spec(std::move(what)), layout(abi::lay_out_params(*spec.kernel)) {
  publish({{std::move(first)}, {}});
}

// Launches may still run in other threads when exit() destroys a static handle.
std::shared_ptr<FunctionState> FunctionState::make(std::shared_ptr<Core> owner, CompileSpec what,
                                                   std::shared_ptr<const Variant> first) {
  return {new FunctionState(std::move(owner), std::move(what), std::move(first)), DeleteUnlessItStays()};
}

void FunctionState::publish(VariantSet next) {
  snapshots_.push_back(std::make_unique<const VariantSet>(std::move(next)));
  current_.store(snapshots_.back().get(), std::memory_order_release);
}

const Variant& FunctionState::best(const dsl::Facts& exact) const {
  const auto& variants = current().variants;
  const Variant* best = nullptr;
  for (const auto& variant : variants) {
    if (variant->facts == exact) return *variant;
    if (best != nullptr && strength(variant->facts) <= strength(best->facts)) continue;
    if (is_sound(variant->facts, exact)) best = variant.get();
  }
  return best != nullptr ? *best : *variants.front();
}

bool FunctionState::has(const dsl::Facts& facts) const {
  const auto& variants = current().variants;
  return std::any_of(variants.begin(), variants.end(),
                     [&](const auto& variant) { return variant->facts == facts && !variant->quick; });
}

Result<void> FunctionState::compile(const dsl::Facts& facts, const CompileOptions& options) {
  if (spec.code || has(facts)) return {};
  if (birth_.of_parent()) return no_compiles_of_parent(*spec.kernel);
  auto variant = core->compile(spec, facts, options);
  if (!variant) return variant.error();
  std::lock_guard lock(mutex_);
  if (has(facts)) return {};
  VariantSet next = current();
  const auto quick = std::find_if(next.variants.begin(), next.variants.end(),
                                  [&](const auto& other) { return other->quick && other->facts == facts; });
  if (quick != next.variants.end()) {
    *quick = std::move(*variant);
  } else {
    next.variants.push_back(std::move(*variant));
  }
  publish(std::move(next));
  return {};
}

Result<void> FunctionState::compile_generic(const Variant& best, const dsl::Facts& exact) {
  const dsl::Kernel& kernel = *spec.kernel;
  if (!spec.base.empty()) {
    return compile(dsl::Facts(kernel.params.size(), dsl::ParamFact::kNone), {.deadline_ms = spec.deadline_ms});
  }
  return invalid_argument("kernel `" + kernel.name + "` was compiled for arguments with " +
                          facts_text(kernel, best.facts) + ", and these have " + facts_text(kernel, exact));
}

void FunctionState::specialise_later(const dsl::Facts& exact) {
  if (birth_.of_parent() || spec.code) return;
  const VariantSet& seen = current();
  if (seen.requested.size() >= spec.most_variants) return;
  if (std::find(seen.requested.begin(), seen.requested.end(), exact) != seen.requested.end()) return;
  {
    std::lock_guard lock(mutex_);
    VariantSet next = current();
    if (std::find(next.requested.begin(), next.requested.end(), exact) != next.requested.end()) return;
    next.requested.push_back(exact);
    publish(std::move(next));
  }
  // A failure leaves the generic variant in use; the author sees it from prepare().
  core->specialise_behind([weak = weak_from_this(), exact](std::stop_token stop) {
    if (auto state = weak.lock()) {
      (void)state->compile(exact, {.priority = Priority::kBackground, .cancel = std::move(stop)});
    }
  });
}

void FunctionState::replace_later() {
  if (birth_.of_parent() || replacing_.exchange(true)) return;
  core->specialise_behind([weak = weak_from_this()](std::stop_token stop) {
    const auto state = weak.lock();
    if (!state) return;
    const dsl::Facts none(state->spec.kernel->params.size(), dsl::ParamFact::kNone);
    (void)state->compile(none, {.priority = Priority::kBackground, .cancel = std::move(stop)});
  });
}

Result<void> UntypedFunction::launch(std::span<const Argument> arguments, const LaunchOptions& options) const {
  if (!state_) return no_kernel();
  const dsl::Kernel& kernel = *state_->spec.kernel;
  // The thread's memory: a launch need not ask for any. A launch inside a launch, from a print, finds it out of use.
  struct Exact {
    dsl::Facts facts;
  };
  dsl::Facts& exact = of_thread<Exact>().facts;
  exact_facts(kernel, arguments, exact);
  FunctionState* state = state_.get();
  state->birth().used();
  // A grid of the caller's is for the config that the caller knows.
  bool is_open = false;
  if (state->tuned && !options.grid) {
    if (FunctionState* chosen = state->tuned->for_launch(arguments, ordinal_of(options.stream))) state = chosen;
  } else if (state->chosen && !options.grid) {
    const ChosenConfigs::Taken taken = state->chosen->for_launch(arguments, options.stream);
    is_open = taken.is_open;
    if (taken.state != nullptr) state = taken.state;
  }
  const Variant* best = &state->best(exact);
  if (!is_sound(best->facts, exact)) [[unlikely]] {
    if (auto done = state->compile_generic(*best, exact); !done) return done;
    best = &state->best(exact);
  }
  const Variant& variant = *best;
  // The variant of a config that may be another one in a moment is not worth compiling.
  const bool specialises = !is_open && state->core->specialises();
  if (variant.facts != exact && !variant.concrete && specialises) state->specialise_later(exact);
  if (variant.quick) [[unlikely]]
    state->replace_later();
  return launch_variant(variant, kernel, state->layout, arguments, options, state_);
}

Result<void> UntypedFunction::prepare(std::span<const Argument> arguments) const {
  if (!state_) return no_kernel();
  if (arguments.size() != state_->spec.kernel->params.size()) {
    return invalid_argument("prepare: kernel `" + state_->spec.kernel->name + "` takes " +
                            std::to_string(state_->spec.kernel->params.size()) + " arguments, not " +
                            std::to_string(arguments.size()));
  }
  const dsl::Facts exact = exact_facts(*state_->spec.kernel, arguments);
  if (state_->chosen) {
    if (const ChosenConfigs::Taken taken = state_->chosen->prepare(arguments); taken.state != nullptr)
      return taken.state->compile(exact, {.deadline_ms = state_->spec.deadline_ms});
  }
  if (auto done = state_->compile(exact, {.deadline_ms = state_->spec.deadline_ms}); !done || !state_->tuned)
    return done;
  return state_->tuned->prepare(arguments);
}

Result<void> UntypedFunction::prepare_facts(const dsl::Facts& facts) const {
  if (!state_) return no_kernel();
  dsl::Facts padded = facts;
  padded.resize(state_->spec.kernel->params.size(), dsl::ParamFact::kNone);
  return state_->compile(padded, {.deadline_ms = state_->spec.deadline_ms});
}

const dsl::Kernel& UntypedFunction::kernel() const { return *state_->spec.kernel; }

abi::Metadata UntypedFunction::metadata(const dsl::Facts& facts) const { return state_->best(facts).metadata; }

dsl::ConstexprValues UntypedFunction::config(std::span<const Argument> arguments) const {
  if (!state_) return {};
  const auto chosen = state_->tuned    ? state_->tuned->known(arguments)
                      : state_->chosen ? state_->chosen->known(arguments)
                                       : nullptr;
  return chosen ? chosen->spec.constexprs : state_->spec.constexprs;
}

size_t UntypedFunction::variant_count() const { return state_->variant_count(); }

}  // namespace kiln::client
