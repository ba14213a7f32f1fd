#include "tuned.h"

#include <algorithm>
#include <cstring>

namespace kiln::client {
namespace {

constexpr auto kSlice = std::chrono::milliseconds(10);  // between two looks at a stop

// Shapes beyond these take the default: a program whose every launch has a new shape must not tune for ever.
constexpr size_t kMaxShapes = 256;

// Who asked got no answer, and the next one that wants to wait may ask again.
bool has_failed(const std::shared_future<Result<void>>& asked) {
  if (asked.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
  try {
    return !asked.get();
  } catch (const std::future_error&) {
    return true;
  }
}

// Another caller has asked.
Result<void> wait_for_other(const std::shared_future<Result<void>>& asked, const TunedConfigs::Patience& patience) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience.ms);
  while (asked.wait_for(kSlice) != std::future_status::ready) {
    if (patience.cancel.stop_requested()) return error(ErrorCode::kCancelled, "cancelled");
    if (patience.ms == 0 || std::chrono::steady_clock::now() < end) continue;
    return error(ErrorCode::kDeadlineExceeded, "the tuner has not answered in time");
  }
  try {
    return asked.get();
  } catch (const std::future_error&) {  // whoever asked gave up with its client
    return error(ErrorCode::kCancelled, "the client is gone");
  }
}

bool is_dimension(const dsl::Param& param) { return !param.type.pointer && dsl::is_int(param.type.element); }

// The bits that belong to the type.
uint64_t narrowed(dsl::ElementType type, uint64_t bits) {
  const int unused = 64 - 8 * dsl::info(type).bytes;
  return bits << unused >> unused;
}

}  // namespace

wire::Scalar scalar_of(dsl::ElementType type, uint64_t bits) {
  if (dsl::is_float(type)) return dsl::double_from_bits(type, bits);
  const int unused = 64 - 8 * dsl::info(type).bytes;
  if (dsl::info(type).is_signed) return static_cast<int64_t>(bits << unused) >> unused;
  return narrowed(type, bits);
}

const dsl::Param* array_of_unknown_size(const dsl::Kernel& kernel) {
  const auto unknown = std::ranges::find_if(kernel.params, [&](const dsl::Param& param) {
    return param.type.pointer &&
           std::ranges::find(kernel.arrays, param.name, &dsl::ArrayInfo::param) == kernel.arrays.end();
  });
  return unknown == kernel.params.end() ? nullptr : &*unknown;
}

TunedConfigs::TunedConfigs(const std::shared_ptr<FunctionState>& fallback, std::vector<std::string> fixed,
                           const GetOptions& options)
    : fallback_(fallback),
      core_(fallback->core),
      spec_(fallback->spec),
      fixed_(std::move(fixed)),
      mode_(options.mode),
      budget_ms_(options.tune_budget_ms),
      wait_ms_(options.tune_wait_ms) {
  snapshots_.push_back(std::make_unique<const States>());
  current_.store(snapshots_.back().get(), std::memory_order_release);
}

void TunedConfigs::shape_of(std::span<const Argument> arguments, uint32_t device, Shape& shape) const {
  shape.assign(1, device);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const dsl::Param& param = spec_.kernel->params[i];
    if (is_dimension(param)) shape.push_back(narrowed(param.type.element, arguments[i].bits));
  }
}

wire::TuneHeader TunedConfigs::header_of(const Shape& shape, std::span<const Argument> arguments, bool wait) const {
  wire::TuneHeader out{.fixed = fixed_,
                       .wait = wait,
                       .budget_ms = budget_ms_,
                       .device = static_cast<uint32_t>(shape.front()),
                       .trace_id = {}};
  for (size_t i = 0; i < arguments.size(); ++i) {
    const dsl::Param& param = spec_.kernel->params[i];
    if (!param.type.pointer) out.scalars[param.name] = scalar_of(param.type.element, arguments[i].bits);
  }
  return out;
}

FunctionState* TunedConfigs::for_launch(std::span<const Argument> arguments, uint32_t device) {
  if (arguments.size() != spec_.kernel->params.size()) return nullptr;  // the launch says so
  Shape& shape = of_thread<Shape>();
  shape_of(arguments, device, shape);
  auto find = [&]() -> FunctionState* {
    const States& states = current();  // one snapshot: a swap may come between two reads
    const auto found = states.find(shape);
    return found == states.end() ? nullptr : found->second.get();
  };
  if (FunctionState* state = find()) return state;
  if (core_->of_parent() || mode_ == Mode::kFixed) return nullptr;
  if (mode_ == Mode::kMax)
    (void)wait_for(Shape(shape), arguments, {.ms = wait_ms_});
  else
    ask_behind(shape, arguments);
  return find();
}

std::shared_ptr<FunctionState> TunedConfigs::known(std::span<const Argument> arguments) const {
  if (arguments.size() != spec_.kernel->params.size()) return nullptr;
  Shape shape;
  shape_of(arguments, 0, shape);
  const States& states = current();
  const auto found = states.find(shape);
  return found == states.end() ? nullptr : found->second;
}

Result<void> TunedConfigs::prepare(std::span<const Argument> arguments) {
  return mode_ == Mode::kFixed ? Result<void>() : wait(arguments, 0, {});
}

void TunedConfigs::ask_behind(std::span<const Argument> arguments, uint32_t device) {
  if (core_->of_parent()) return;
  Shape shape;
  shape_of(arguments, device, shape);
  ask_behind(shape, arguments);
}

Result<void> TunedConfigs::wait(std::span<const Argument> arguments, uint32_t device, const Patience& patience) {
  if (core_->of_parent()) return {};  // what there is was found before fork()
  Shape shape;
  shape_of(arguments, device, shape);
  auto done = wait_for(shape, arguments, patience);
  // Who had asked gave up, and that is not this caller's matter.
  const bool asks_itself = !done && done.error().code == ErrorCode::kCancelled && !patience.cancel.stop_requested();
  return asks_itself ? wait_for(shape, arguments, patience) : done;
}

std::vector<dsl::ConstexprValues> TunedConfigs::configs() const {
  std::vector<dsl::ConstexprValues> out;
  for (const auto& [shape, state] : current()) {
    const dsl::ConstexprValues& config = state->spec.constexprs;
    if (config != spec_.constexprs && std::ranges::find(out, config) == out.end()) out.push_back(config);
  }
  return out;
}

// Looks up on the thread that specialises; if the service tunes now, another one waits for it.
void TunedConfigs::ask_behind(const Shape& shape, std::span<const Argument> arguments) {
  auto done = std::make_shared<std::promise<Result<void>>>();
  {
    std::lock_guard lock(mutex_);
    if (asked_.size() >= kMaxShapes || !asked_.emplace(shape, done->get_future().share()).second) return;
  }
  auto facts = exact_facts(*spec_.kernel, arguments);
  core_->specialise_behind([weak = weak_from_this(), shape, header = header_of(shape, arguments, false), facts,
                            done](const std::stop_token& stop) {
    auto self = weak.lock();
    if (!self) return;
    auto final = self->ask(shape, header, facts, stop);
    if (!final || *final) return done->set_value(final ? Result<void>() : final.error());
    self->wait_behind(shape, header, facts, done);
  });
}

void TunedConfigs::wait_behind(const Shape& shape, wire::TuneHeader header, const dsl::Facts& facts, const Done& done) {
  header.wait = header.behind = true;
  core_->tune_behind([weak = weak_from_this(), shape, header, facts, done](const std::stop_token& stop) {
    auto self = weak.lock();
    if (!self) return;
    auto tuned = self->ask(shape, header, facts, stop);
    done->set_value(tuned ? Result<void>() : tuned.error());
  });
}

// One caller asks; the others of the shape wait for it, each as long as it may.
Result<void> TunedConfigs::wait_for(const Shape& shape, std::span<const Argument> arguments, const Patience& patience) {
  const Done done = std::make_shared<std::promise<Result<void>>>();
  std::shared_future<Result<void>> other;
  {
    std::lock_guard lock(mutex_);
    const auto found = asked_.find(shape);
    if (found != asked_.end() && !has_failed(found->second)) {
      other = found->second;
    } else {
      if (asked_.size() >= kMaxShapes) return error(ErrorCode::kResourceExhausted, "too many shapes are tuned");
      asked_.insert_or_assign(shape, done->get_future().share());
    }
  }
  if (other.valid()) return wait_for_other(other, patience);
  const wire::TuneHeader header = header_of(shape, arguments, true);
  const dsl::Facts facts = exact_facts(*spec_.kernel, arguments);
  auto tuned = ask(shape, header, facts, patience.cancel, patience.ms);
  const Result<void> status = tuned ? Result<void>() : tuned.error();
  if (patience.ms && !tuned && tuned.error().code == ErrorCode::kDeadlineExceeded)
    wait_behind(shape, header, facts, done);
  else
    done->set_value(status);
  return status;
}

Result<bool> TunedConfigs::ask(const Shape& shape, const wire::TuneHeader& header, const dsl::Facts& facts,
                               std::stop_token cancel, uint32_t wait_ms) {
  auto tuned = core_->tune(spec_, facts, header, cancel, wait_ms);
  if (!tuned) return tuned.error();
  auto state = state_of(tuned->config, cancel);
  if (!state) return state.error();
  if (auto exact = (*state)->compile(facts, {.priority = Priority::kBackground, .cancel = cancel}); !exact) {
    return exact.error();
  }
  publish(shape, std::move(*state));
  return tuned->final;
}

Result<std::shared_ptr<FunctionState>> TunedConfigs::state_of(const dsl::ConstexprValues& config,
                                                              const std::stop_token& cancel) {
  if (config == spec_.constexprs) {
    if (auto fallback = fallback_.lock()) return fallback;
    return error(ErrorCode::kCancelled, "the handle is gone");
  }
  {
    std::lock_guard lock(mutex_);
    if (auto found = states_.find(config); found != states_.end()) return found->second;
  }
  CompileSpec spec = spec_;
  spec.constexprs = config;
  auto generic = core_->compile(spec, spec.base, {.priority = Priority::kBackground, .cancel = cancel});
  if (!generic) return generic.error();
  auto made = FunctionState::make(core_, std::move(spec), std::move(*generic));
  std::lock_guard lock(mutex_);
  return states_.try_emplace(config, std::move(made)).first->second;
}

void TunedConfigs::publish(const Shape& shape, std::shared_ptr<FunctionState> state) {
  // The fallback owns this, and must not be kept by it.
  const bool is_default = state == fallback_.lock();
  if (is_default) state = {std::shared_ptr<void>(), state.get()};
  std::lock_guard lock(mutex_);
  // Nothing changes for launches that ask nobody.
  if (is_default && mode_ == Mode::kFixed && !current().contains(shape)) return;
  States next = current();
  next[shape] = std::move(state);
  snapshots_.push_back(std::make_unique<const States>(std::move(next)));
  current_.store(snapshots_.back().get(), std::memory_order_release);
}

}  // namespace kiln::client
