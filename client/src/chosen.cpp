#include "chosen.h"

#include <algorithm>
#include <optional>

#include "kiln/client/gpu.h"
#include "kiln/dsl/conditions.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/size_class.h"
#include "lifetime.h"
#include "tuned.h"

namespace kiln::client {
namespace {

// Of a kernel, beside the default: shapes of every sort must not compile for ever.
constexpr size_t kMostOthers = 5;
// Classes that the service is asked about; later ones take what the nearest of these has.
constexpr size_t kMostAsked = 128;
// Variants of one config that launches have compiled, beside its first.
constexpr size_t kMostVariants = 2;

uint64_t hash_of(const std::vector<uint64_t>& sizes) {
  uint64_t out = 0;
  for (uint64_t size : sizes) out = (out ^ size) * 0x9e3779b97f4a7c15u;
  return out ^ (out >> 32);
}

// Unsigned, as the type has it; a negative size is as 0.
uint64_t as_size(dsl::ElementType type, uint64_t bits) {
  const int unused = 64 - 8 * dsl::info(type).bytes;
  if (!dsl::info(type).is_signed) return bits << unused >> unused;
  return static_cast<uint64_t>(std::max<int64_t>(0, static_cast<int64_t>(bits << unused) >> unused));
}

}  // namespace

std::string no_choice(const dsl::Kernel& kernel, const dsl::ConstexprValues& given) {
  if (kernel.space.empty()) return "the kernel has no `space`";
  if (kernel.options.deterministic) return "the kernel is `deterministic`, and configs may differ in the last bits";
  if (const dsl::Param* const param = array_of_unknown_size(kernel)) {
    return "nothing says how large the array `" + param->name + "` is";
  }
  for (const auto& [name, value] : given) {
    const bool is_axis = std::ranges::find(kernel.space, name, &dsl::SpaceAxis::name) != kernel.space.end();
    if (is_axis || (dsl::is_schedule_option(name) && !kernel.find_constexpr(name))) {
      return "the caller has chosen `" + name + "`";
    }
  }
  return "";
}

class ChosenConfigs::Closing {
 public:
  Closing(std::weak_ptr<ChosenConfigs> owner, Class& one) : owner_(std::move(owner)), one_(&one) {}
  ~Closing() {
    const auto owner = owner_.lock();  // without it the class is gone, and nobody waits
    if (!owner) return;
    one_->is_open.store(false, std::memory_order_release);
    one_->is_open.notify_all();
  }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;

 private:
  const std::weak_ptr<ChosenConfigs> owner_;
  Class* const one_;
};

ChosenConfigs::ChosenConfigs(const std::shared_ptr<FunctionState>& fallback, std::vector<std::string> fixed)
    : fallback_(fallback), core_(fallback->core), spec_(fallback->spec), fixed_(std::move(fixed)) {}

ChosenConfigs::~ChosenConfigs() = default;

void ChosenConfigs::sizes_of(std::span<const Argument> arguments, uint32_t device, Sizes& sizes) const {
  sizes.assign(1, device);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const dsl::Type& type = spec_.kernel->params[i].type;
    if (!type.pointer && dsl::is_int(type.element)) {
      sizes.push_back(dsl::size_class(as_size(type.element, arguments[i].bits)));
    }
  }
}

ChosenConfigs::Class* ChosenConfigs::find(const Sizes& sizes) const {
  for (uint64_t slot = hash_of(sizes) % kSlots;; slot = (slot + 1) % kSlots) {
    Class* const one = slots_[slot].load(std::memory_order_acquire);
    if (one == nullptr || one->sizes == sizes) return one;
  }
}

std::pair<ChosenConfigs::Class*, bool> ChosenConfigs::insert(const Sizes& sizes) {
  std::lock_guard lock(mutex_);
  if (Class* const known = find(sizes)) return {known, false};
  if (classes_.size() >= kMostClasses) return {nullptr, false};
  classes_.push_back(std::make_unique<Class>(sizes));
  uint64_t slot = hash_of(sizes) % kSlots;
  while (slots_[slot].load(std::memory_order_relaxed) != nullptr) slot = (slot + 1) % kSlots;
  slots_[slot].store(classes_.back().get(), std::memory_order_release);
  return {classes_.back().get(), true};
}

// A class is chosen for by one of its shapes, and the conditions of a kernel may not hold for another one.
bool ChosenConfigs::may_run(const Other& other, std::span<const Argument> arguments) const {
  if (other.constexprs.empty()) return true;
  struct OfChosen {
    dsl::Bindings bindings;
  };
  dsl::Bindings& bindings = of_thread<OfChosen>().bindings;
  bindings.constexprs = other.constexprs;
  dsl::bind_ints(*spec_.kernel, arguments, bindings.params);
  return dsl::check_conditions(*spec_.kernel, bindings).ok();
}

ChosenConfigs::Taken ChosenConfigs::taken(const Class& one, std::span<const Argument> arguments) const {
  const bool is_open = one.is_open.load(std::memory_order_acquire);
  const Other* const other = one.other.load(std::memory_order_acquire);
  const bool fits = other != nullptr && may_run(*other, arguments);
  return {fits ? other->state.get() : nullptr, is_open};
}

ChosenConfigs::Taken ChosenConfigs::for_launch(std::span<const Argument> arguments, const Stream* stream) {
  if (arguments.size() != spec_.kernel->params.size()) return {};  // the launch says so
  struct OfLaunch {
    Sizes sizes;
  };
  Sizes& sizes = of_thread<OfLaunch>().sizes;
  const uint32_t device = stream ? static_cast<uint32_t>(stream->device().info().ordinal) : 0;
  sizes_of(arguments, device, sizes);
  if (const Class* const known = find(sizes)) return taken(*known, arguments);
  if (core_->of_parent() || core_->rests_from_choosing()) return {};
  const auto [one, is_new] = insert(sizes);
  if (!is_new) return one ? taken(*one, arguments) : Taken();
  const bool on_gpu = stream && dsl::target_family(spec_.target) != "cpu";
  auto closing = std::make_shared<Closing>(weak_from_this(), *one);
  core_->specialise_behind(
      [weak = weak_from_this(), one, closing, facts = exact_facts(*spec_.kernel, arguments),
       header = header_of(arguments, device, on_gpu ? hardware_text(stream->device().info()) : std::string())](
          const std::stop_token& stop) {
        if (const auto self = weak.lock()) self->answer(*one, header, facts, stop);
      });
  return {nullptr, true};
}

ChosenConfigs::Taken ChosenConfigs::prepare(std::span<const Argument> arguments) {
  Sizes sizes;
  sizes_of(arguments, 0, sizes);
  Class* one = find(sizes);
  if (one == nullptr && !core_->of_parent() && !core_->rests_from_choosing()) {
    bool is_new = false;
    std::tie(one, is_new) = insert(sizes);
    if (is_new) {
      const Closing closing(weak_from_this(), *one);
      const std::string kind(dsl::target_family(spec_.target));
      const auto present = kind == "cpu" ? Result<std::vector<DeviceInfo>>(std::vector<DeviceInfo>()) : devices(kind);
      const bool on_gpu = present && !present->empty();
      answer(*one, header_of(arguments, 0, on_gpu ? hardware_text(present->front()) : std::string()),
             exact_facts(*spec_.kernel, arguments), {});
    }
  }
  if (one == nullptr) return {};
  // What the parent of a fork() had asked is never answered here.
  if (!core_->of_parent()) one->is_open.wait(true, std::memory_order_acquire);
  return taken(*one, arguments);
}

std::shared_ptr<FunctionState> ChosenConfigs::known(std::span<const Argument> arguments) {
  if (arguments.size() != spec_.kernel->params.size()) return nullptr;
  Sizes sizes;
  sizes_of(arguments, 0, sizes);
  const Class* const one = find(sizes);
  const Other* const other = one ? one->other.load(std::memory_order_acquire) : nullptr;
  return other && may_run(*other, arguments) ? other->state : nullptr;
}

std::vector<dsl::ConstexprValues> ChosenConfigs::configs() const {
  std::lock_guard lock(mutex_);
  std::vector<dsl::ConstexprValues> out;
  for (const auto& other : others_) out.push_back(other->state->spec.constexprs);
  return out;
}

wire::TuneHeader ChosenConfigs::header_of(std::span<const Argument> arguments, uint32_t device,
                                          std::string hardware) const {
  wire::TuneHeader out{
      .fixed = fixed_, .device = device, .trace_id = {}, .choose = true, .hardware = std::move(hardware)};
  for (size_t i = 0; i < arguments.size(); ++i) {
    const dsl::Param& param = spec_.kernel->params[i];
    if (!param.type.pointer) out.scalars[param.name] = scalar_of(param.type.element, arguments[i].bits);
  }
  return out;
}

// On the thread that compiles behind launches, or a caller's that prepares.
void ChosenConfigs::answer(Class& one, wire::TuneHeader header, const dsl::Facts& facts,
                           const std::stop_token& cancel) {
  bool asks = false;
  {
    std::lock_guard lock(mutex_);
    asks = asked_ < kMostAsked;
    asked_ += asks ? 1 : 0;
    header.more = others_.size() < kMostOthers;
    for (const auto& other : others_) header.compiled.push_back(other->state->spec.constexprs);
  }
  const Other* other = nullptr;
  if (asks) {
    const auto chosen = core_->choose(spec_, facts, header, cancel);
    if (chosen && chosen->config != spec_.constexprs) {
      const auto compiled = other_of(chosen->config, cancel);
      other = compiled ? *compiled : nullptr;
    }
  } else {
    other = nearest(one);
  }
  // What goes wrong here leaves the default in use; the author sees it from prepare().
  const CompileOptions options{.priority = Priority::kBackground, .cancel = cancel};
  if (other != nullptr && other->state->compile(facts, options).ok()) {
    one.other.store(other, std::memory_order_release);
    version_.fetch_add(1, std::memory_order_acq_rel);
    return;
  }
  // The launch that asked has left its own variant to what comes of this.
  const auto fallback = fallback_.lock();
  if (fallback && core_->specialises()) fallback->specialise_later(facts);
}

const ChosenConfigs::Other* ChosenConfigs::nearest(const Class& one) const {
  std::lock_guard lock(mutex_);
  const Class* best = nullptr;
  uint64_t least = UINT64_MAX;
  for (const auto& other : classes_) {
    if (other->is_open || other->sizes.front() != one.sizes.front()) continue;
    uint64_t away = 0;
    for (size_t i = 1; i < one.sizes.size(); ++i) {
      away += std::max(one.sizes[i], other->sizes[i]) - std::min(one.sizes[i], other->sizes[i]);
    }
    if (away < least) best = other.get();
    least = std::min(least, away);
  }
  return best ? best->other.load(std::memory_order_acquire) : nullptr;
}

Result<const ChosenConfigs::Other*> ChosenConfigs::other_of(const dsl::ConstexprValues& config,
                                                            const std::stop_token& cancel) {
  const auto find_known = [&]() -> const Other* {
    for (const auto& other : others_) {
      if (other->state->spec.constexprs == config) return other.get();
    }
    return nullptr;
  };
  {
    std::lock_guard lock(mutex_);
    if (const Other* known = find_known()) return known;
    if (others_.size() >= kMostOthers) return error(ErrorCode::kResourceExhausted, "there are enough configs");
  }
  CompileSpec spec = spec_;
  spec.constexprs = config;
  spec.most_variants = kMostVariants;
  auto generic = core_->compile(spec, spec.base, {.priority = Priority::kBackground, .cancel = cancel});
  if (!generic) return generic.error();
  Other made{nullptr, (*generic)->config};
  made.state = FunctionState::make(core_, std::move(spec), std::move(*generic));
  std::lock_guard lock(mutex_);
  if (const Other* known = find_known()) return known;
  others_.push_back(std::make_unique<const Other>(std::move(made)));
  return others_.back().get();
}

}  // namespace kiln::client
