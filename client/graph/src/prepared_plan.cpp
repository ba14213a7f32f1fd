#include "prepared_plan.h"

#include <algorithm>

namespace kiln::client {
namespace {

constexpr size_t kBlockAlignment = 16;
// What moves fewer bytes is sooner done by one thread than by several that must meet before and behind it.
constexpr uint64_t kWideBytes = 16 << 10;

uint8_t alignment_of(const std::byte* base) { return static_cast<uint8_t>(reinterpret_cast<uintptr_t>(base) % 16); }

// Then bytes say little of the time that a kernel takes.
bool has_loop(const dsl::Region& region) {
  return std::ranges::any_of(region.ops, [](const dsl::Op& op) {
    return op.code == dsl::OpCode::kFor || op.code == dsl::OpCode::kWhile || std::ranges::any_of(op.regions, has_loop);
  });
}

class Preparing {
 public:
  Preparing(const graph::Plan& plan, const SizedPlan& sized, std::span<const UntypedFunction> kernels,
            std::span<std::byte* const> bases)
      : plan_(plan), sized_(sized), kernels_(kernels), bases_(bases) {}

  std::unique_ptr<const PreparedPlan> run() {
    for (std::byte* const base : bases_) out_->alignment.push_back(alignment_of(base));
    std::vector<bool> loops;
    for (const graph::PlannedKernel& kernel : plan_.kernels) loops.push_back(has_loop(kernel.kernel.body));
    for (size_t i = 0; i < plan_.launches.size(); ++i) {
      const bool is_wide = loops[plan_.launches[i].kernel] || sized_.moved_bytes[i] >= kWideBytes;
      out_->launches.push_back(prepare(i, is_wide));
      out_->step_end.push_back(static_cast<uint32_t>(out_->steps.size()));
    }
    return std::move(out_);
  }

 private:
  std::optional<PreparedLaunch> prepare(size_t number, bool is_wide) {
    const std::span<const SizedPlan::Argument> given = sized_.arguments_of(number);
    std::vector<Argument> arguments;
    for (const SizedPlan::Argument& argument : given) {
      if (argument.varying) return std::nullopt;
      if (argument.buffer == graph::kNone)
        arguments.push_back({nullptr, 0, argument.value});
      else
        arguments.push_back({bases_[argument.buffer] + argument.value, argument.extent, 0});
    }
    const std::shared_ptr<FunctionState>& state = kernels_[plan_.launches[number].kernel].state();
    if (!state) return std::nullopt;
    auto launch = prepare_on_cpu(*state, arguments);
    if (!launch || !launch->has_programs) return launch;
    const auto workspace = workspace_of(*launch);
    const size_t at = (out_->blocks.size() + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
    if (!workspace || at + state->layout.bytes > UINT32_MAX) return std::nullopt;
    const auto params = static_cast<uint32_t>(at);
    if (!append_steps(*launch, params, static_cast<uint32_t>(number), is_wide, out_->steps)) return std::nullopt;
    out_->workspace_bytes = std::max(out_->workspace_bytes, *workspace);
    out_->blocks.resize(at + state->layout.bytes);
    pack_arguments(*state->spec.kernel, state->layout, arguments, out_->blocks.data() + at);
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i].buffer == graph::kNone) continue;
      out_->patches.push_back({params + state->layout.slots[i].offset, given[i].buffer, given[i].value});
    }
    return launch;
  }

  const graph::Plan& plan_;
  const SizedPlan& sized_;
  const std::span<const UntypedFunction> kernels_;
  const std::span<std::byte* const> bases_;
  std::unique_ptr<PreparedPlan> out_ = std::make_unique<PreparedPlan>();
};

}  // namespace

bool PreparedPlan::fits(std::span<std::byte* const> bases, const graph::Plan& plan,
                        std::span<const UntypedFunction> kernels) const {
  for (size_t i = 0; i < bases.size(); ++i) {
    if (alignment_of(bases[i]) != alignment[i]) return false;
  }
  for (size_t i = 0; i < launches.size(); ++i) {
    if (launches[i] && launches[i]->version != kernels[plan.launches[i].kernel].state()->version()) return false;
  }
  return true;
}

const PreparedPlan* PreparedPlans::get(const graph::Plan& plan, const SizedPlan& sized,
                                       std::span<const UntypedFunction> kernels, std::span<std::byte* const> bases) {
  const PreparedPlan* newest = newest_.load(std::memory_order_acquire);
  if (newest != nullptr && newest->fits(bases, plan, kernels)) return newest;
  const std::unique_lock lock(making_, std::try_to_lock);
  if (!lock || all_.size() >= kMost) return nullptr;
  for (const auto& other : all_) {
    if (!other->fits(bases, plan, kernels)) continue;
    newest_.store(other.get(), std::memory_order_release);
    return other.get();
  }
  all_.push_back(Preparing(plan, sized, kernels, bases).run());
  newest_.store(all_.back().get(), std::memory_order_release);
  return all_.back().get();
}

}  // namespace kiln::client
