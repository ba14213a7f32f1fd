#include "prepared_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tuned.h"

namespace kiln::client {
namespace {

constexpr size_t kBlockAlignment = 16;
// What moves fewer bytes is sooner done by one thread than by several that must meet before and behind it.
constexpr uint64_t kWideBytes = 16 << 10;
// Loops of more launches, over all their passes, go one by one: what is ready of them would fill the caches.
constexpr size_t kMostInstances = 8192;

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
    for (const graph::PlannedKernel& kernel : plan_.kernels) {
      loops_.push_back(kernel.has_loop || has_loop(kernel.kernel.body));
    }
    counters_.constexprs.assign(plan_.dims.size() + graph::kMostCounters, std::nullopt);
    size_t loop = 0;
    for (uint32_t i = 0; i < plan_.launches.size(); i += out_->units.back().count) {
      while (loop < plan_.loops.size() && plan_.loops[loop].first < i) ++loop;
      const bool is_loop = loop < plan_.loops.size() && plan_.loops[loop].first == i;
      add_unit({.first = i, .count = is_loop ? plan_.loops[loop].count : 1}, loop);
    }
    return std::move(out_);
  }

 private:
  // All of a unit is ready, or nothing.
  void add_unit(PreparedPlan::Unit unit, size_t loop) {
    PreparedPlan& out = *out_;
    const size_t instances = out.instances.size(), steps = out.steps.size(), blocks = out.blocks.size(),
                 patches = out.patches.size();
    unit.is_ready = add_range(unit.first, unit.first + unit.count, loop);
    if (!unit.is_ready) {
      out.instances.resize(instances);
      out.steps.resize(steps);
      out.blocks.resize(blocks);
      out.patches.resize(patches);
    }
    unit.step_end = static_cast<uint32_t>(out.steps.size());
    out.units.push_back(unit);
  }

  // As Run::launch_range() runs them.
  bool add_range(uint32_t first, uint32_t last, size_t loop) {
    for (uint32_t i = first; i < last;) {
      while (loop < plan_.loops.size() && plan_.loops[loop].first < i) ++loop;
      if (loop == plan_.loops.size() || plan_.loops[loop].first != i) {
        if (!add_launch(i++)) return false;
        continue;
      }
      const graph::PlannedLoop& here = plan_.loops[loop];
      const size_t counter = plan_.dims.size() + here.counter;
      for (int64_t pass = 0; pass < sized_.loop_lengths[loop]; ++pass) {
        counters_.constexprs[counter] = pass;
        if (!add_range(here.first, here.first + here.count, loop + 1)) return false;
      }
      counters_.constexprs[counter].reset();
      i += here.count;
      ++loop;
    }
    return true;
  }

  bool add_launch(uint32_t number) {
    if (out_->instances.size() >= kMostInstances + plan_.launches.size()) return false;
    if (!set_arguments(number)) return false;
    const uint32_t kernel = plan_.launches[number].kernel;
    const std::shared_ptr<FunctionState>& state = kernels_[kernel].state();
    if (!state) return false;
    auto launch = prepare_on_cpu(*state, arguments_);
    if (!launch) return false;
    add_version({launch->state, nullptr, launch->version});
    if (launch->configs != nullptr) add_version({nullptr, state->tuned.get(), launch->configs});
    if (launch->has_programs && !add_steps(number, *state, *launch)) return false;
    PreparedPlan::Instance instance{number, *launch, {}};
    for (size_t i = 0; i < instance.counters.size(); ++i) {
      instance.counters[i] = counters_.constexprs[plan_.dims.size() + i].value_or(0);
    }
    out_->instances.push_back(instance);
    return true;
  }

  // The first of each: if it has changed since, nothing here is up to date.
  void add_version(const PreparedPlan::Version& version) {
    const auto same = [&](const PreparedPlan::Version& other) { return other.is_of_same(version); };
    if (std::ranges::none_of(out_->versions, same)) out_->versions.push_back(version);
  }

  bool set_arguments(uint32_t number) {
    places_.clear();
    arguments_.clear();
    for (const SizedPlan::Argument& argument : sized_.arguments_of(number)) {
      if (!argument.varying) {
        places_.push_back(argument);
      } else {
        auto here = SizedPlan::at(argument, counters_);
        if (!here) return false;
        places_.push_back(std::move(*here));
      }
      const SizedPlan::Argument& place = places_.back();
      if (place.buffer == graph::kNone)
        arguments_.push_back({nullptr, 0, place.value});
      else
        arguments_.push_back({bases_[place.buffer] + place.value, place.extent, 0});
    }
    return true;
  }

  bool add_steps(uint32_t number, const FunctionState& state, const PreparedLaunch& launch) {
    const auto workspace = workspace_of(launch);
    const size_t at = (out_->blocks.size() + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
    if (!workspace || at + state.layout.bytes > UINT32_MAX) return false;
    const bool is_wide = loops_[plan_.launches[number].kernel] || sized_.moved_bytes[number] >= kWideBytes;
    const auto params = static_cast<uint32_t>(at), instance = static_cast<uint32_t>(out_->instances.size());
    if (!append_steps(launch, params, instance, is_wide, out_->steps)) return false;
    out_->workspace_bytes = std::max(out_->workspace_bytes, *workspace);
    out_->blocks.resize(at + state.layout.bytes);
    pack_arguments(*state.spec.kernel, state.layout, arguments_, out_->blocks.data() + at);
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].buffer == graph::kNone) continue;
      out_->patches.push_back({params + state.layout.slots[i].offset, places_[i].buffer, places_[i].value});
    }
    return true;
  }

  const graph::Plan& plan_;
  const SizedPlan& sized_;
  const std::span<const UntypedFunction> kernels_;
  const std::span<std::byte* const> bases_;
  std::vector<bool> loops_;  // by kernel: it has one
  dsl::Bindings counters_;
  std::vector<SizedPlan::Argument> places_;  // of the launch that is added
  std::vector<Argument> arguments_;
  std::unique_ptr<PreparedPlan> out_ = std::make_unique<PreparedPlan>();
};

}  // namespace

bool PreparedPlan::Version::is_current() const {
  return version == (function != nullptr ? function->version() : configs->version());
}

bool PreparedPlan::is_current() const { return std::ranges::all_of(versions, &Version::is_current); }

bool PreparedPlan::has_alignment(std::span<std::byte* const> bases) const {
  for (size_t i = 0; i < bases.size(); ++i) {
    if (alignment_of(bases[i]) != alignment[i]) return false;
  }
  return true;
}

const PreparedPlan* PreparedPlans::get(const graph::Plan& plan, const SizedPlan& sized,
                                       std::span<const UntypedFunction> kernels, std::span<std::byte* const> bases) {
  const PreparedPlan* newest = newest_.load(std::memory_order_acquire);
  if (newest != nullptr && newest->fits(bases)) return newest;
  const std::unique_lock lock(making_, std::try_to_lock);
  if (!lock) return nullptr;
  size_t current = 0;
  for (const auto& other : all_) {
    if (!other->is_current()) continue;
    ++current;
    if (!other->has_alignment(bases)) continue;
    newest_.store(other.get(), std::memory_order_release);
    return other.get();
  }
  if (current >= kMostAlignments || all_.size() >= kMost) return nullptr;
  all_.push_back(Preparing(plan, sized, kernels, bases).run());
  newest_.store(all_.back().get(), std::memory_order_release);
  return all_.back().get();
}

}  // namespace kiln::client
