// Inputs that stay: what is computed of them alone is computed once, and the rest of the plan runs as one of its own.
#include <algorithm>
#include <utility>

#include "array_memory.h"
#include "graph_state.h"
#include "split_plan.h"

namespace kiln::client {
namespace {

class Binder {
 public:
  Binder(const GraphState& state, const std::map<std::string, ArrayView>& inputs, const RunOptions& options)
      : state_(state), plan_(state.plan), inputs_(inputs), options_(options) {}

  Result<std::shared_ptr<const GraphState>> run() {
    if (auto found = find_inputs(); !found) return found.error();
    if (auto known = find_sizes(); !known) return known.error();
    SplitPlan split = split_plan(plan_, bound_, dims_, state_.constants.size());
    for (const graph::PlannedTensor& kept : split.once.outputs) {
      auto bytes = kept.type.shape[0].evaluate(dims_);
      if (!bytes || *bytes < 0)
        return internal_error("the plan of graph `" + plan_.name + "` is wrong: a buffer's size");
      kept_bytes_.push_back(static_cast<uint64_t>(*bytes));
    }
    if (auto fine = check_limit(); !fine) return fine.error();
    Binding binding = state_.bound;
    binding.constants = state_.constants;
    if (auto added = add_inputs(binding); !added) return added.error();
    for (size_t i = 0; i < plan_.dims.size(); ++i) {
      if (dims_.constexprs[i]) binding.sizes[plan_.dims[i].name] = *dims_.constexprs[i];
    }
    auto kept = compute(std::move(split.once), split.once_kernels, binding);
    if (!kept) return kept.error();
    for (Block& block : *kept) binding.constants.push_back(std::move(block));
    for (const uint64_t bytes : kept_bytes_) binding.kept_bytes += bytes;
    return GraphState::make_bound(state_, std::move(split.rest), split.rest_kernels, std::move(binding), state_.tuning);
  }

 private:
  const Device* device() const { return state_.device ? &*state_.device : nullptr; }
  std::string text_of(uint32_t input) const { return "input `" + plan_.inputs[input].name + "`"; }
  const ArrayView& view_of(uint32_t input) const { return inputs_.at(plan_.inputs[input].name); }
  bool is_copied(uint32_t input) const {
    return !is_plain(view_of(input)) || (device() != nullptr && !view_of(input).on_device);
  }

  Result<void> find_inputs();
  Result<void> find_sizes();
  Result<void> check_limit() const;
  Result<void> add_inputs(Binding& binding);
  Result<Block> block_of(uint32_t input, uint64_t bytes) const;
  Result<std::vector<Block>> compute(graph::Plan once, std::span<const uint32_t> kernels, const Binding& binding) const;

  const GraphState& state_;
  const graph::Plan& plan_;
  const std::map<std::string, ArrayView>& inputs_;
  const RunOptions& options_;
  std::vector<uint32_t> bound_;
  std::vector<uint64_t> bytes_;  // of bound_
  dsl::Bindings dims_;
  std::vector<uint64_t> kept_bytes_;
};

Result<void> Binder::find_inputs() {
  for (const auto& [name, view] : inputs_) {
    const auto found = std::ranges::find(plan_.inputs, name, &graph::PlannedTensor::name);
    if (found == plan_.inputs.end()) {
      const bool is_bound =
          std::ranges::any_of(state_.bound.inputs, [&](const auto& each) { return each.name == name; });
      std::string has;
      for (const graph::PlannedTensor& input : plan_.inputs) has += (has.empty() ? "" : ", ") + input.name;
      return invalid_argument("graph `" + plan_.name + "`: " +
                              (is_bound ? "input `" + name + "` is bound already"
                                        : "no input `" + name + "` to bind; it has " + (has.empty() ? "none" : has)));
    }
    const auto input = static_cast<uint32_t>(found - plan_.inputs.begin());
    const auto output = std::ranges::find(plan_.in_place, input);
    if (output != plan_.in_place.end()) {
      const auto number = static_cast<size_t>(output - plan_.in_place.begin());
      return invalid_argument("graph `" + plan_.name + "`: input `" + name + "` is donated to output `" +
                              plan_.outputs[number].name + "`, and cannot be bound");
    }
    if (view.on_device && device() == nullptr) {
      return invalid_argument(text_of(input) + " is on a device, and the graph runs on none");
    }
    bound_.push_back(input);
  }
  return {};
}

Result<void> Binder::find_sizes() {
  std::vector<graph::DeclaredTensor> declared;
  std::vector<graph::GivenTensor> given;
  for (const uint32_t input : bound_) {
    declared.push_back({plan_.inputs[input].name, &plan_.inputs[input].type});
    given.push_back({view_of(input).element, view_of(input).shape});
  }
  std::map<std::string, int64_t> sizes = options_.sizes;
  for (const std::string& dim : state_.unused_dims) sizes.erase(dim);
  for (const auto& [dim, size] : state_.bound.sizes) sizes.emplace(dim, size);
  auto dims = graph::bind_sizes(plan_.name, plan_.dims, declared, given, sizes);
  if (!dims) return dims.error();
  dims_ = std::move(*dims);
  for (const uint32_t input : bound_) {
    const ArrayView& view = view_of(input);
    bytes_.push_back(static_cast<uint64_t>(count_of(view.shape) * dsl::info(view.element).bytes));
    if (auto fine = check_array(view, bytes_.back(), text_of(input)); !fine) return fine;
    if (view.on_device && !is_plain(view)) {
      return invalid_argument(text_of(input) + ": an array on a device is row-major and aligned here");
    }
  }
  return {};
}

Result<void> Binder::check_limit() const {
  if (options_.memory_limit == 0) return {};
  uint64_t kept = 0, copies = 0;
  for (const uint64_t bytes : kept_bytes_) kept += bytes;
  for (size_t i = 0; i < bound_.size(); ++i) copies += is_copied(bound_[i]) ? bytes_[i] : 0;
  if (kept + copies <= options_.memory_limit) return {};
  return error(ErrorCode::kOutOfMemory,
               "graph `" + plan_.name + "` needs " + std::to_string(kept + copies) + " bytes for what is bound: " +
                   std::to_string(kept) + " of results that are kept, " + std::to_string(copies) +
                   " of copies of inputs; the limit is " + std::to_string(options_.memory_limit));
}

// As it lies, or a copy that kernels can read.
Result<Block> Binder::block_of(uint32_t input, uint64_t bytes) const {
  const ArrayView& view = view_of(input);
  // Behind parameters that are read only, as decode_plan() sees to.
  Block out(static_cast<std::byte*>(const_cast<void*>(view.data)), bytes, view.owner);
  if (bytes == 0) return out;
  if (!is_plain(view)) {
    auto copy = Block::allocate(bytes, options_.threads);
    if (!copy) return copy.error();
    copy_plain(view, copy->data);
    out = std::move(*copy);
  }
  if (device() == nullptr || view.on_device) return out;
  auto there = Block::allocate_on(*device(), bytes, "bound inputs of graph `" + plan_.name + "`");
  if (!there) return there.error();
  if (auto done = there->device->copy_from({out.data, bytes}); !done) return done.error();
  return there;
}

Result<void> Binder::add_inputs(Binding& binding) {
  for (size_t i = 0; i < bound_.size(); ++i) {
    auto block = block_of(bound_[i], bytes_[i]);
    if (!block) return block.error();
    binding.kept_bytes += is_copied(bound_[i]) ? bytes_[i] : 0;
    binding.inputs.push_back({plan_.inputs[bound_[i]].name, block->data, bytes_[i]});
    binding.constants.push_back(std::move(*block));
  }
  return {};
}

// The launches that run once, into memory that is kept, in the configs that they have.
Result<std::vector<Block>> Binder::compute(graph::Plan once, std::span<const uint32_t> kernels,
                                           const Binding& binding) const {
  std::vector<Block> out;
  std::vector<ArrayView> views;
  for (const uint64_t bytes : kept_bytes_) {
    auto block = Block::make(bytes, options_.threads, device(), "constants of graph `" + plan_.name + "`");
    if (!block) return block.error();
    out.push_back(std::move(*block));
    views.push_back({.element = dsl::ElementType::kU8,
                     .shape = {static_cast<int64_t>(bytes)},
                     .data = out.back().data,
                     .bytes = bytes,
                     .writable = true,
                     .on_device = device() != nullptr});
  }
  if (once.outputs.empty()) return out;
  RunOptions options{.threads = options_.threads, .cancel = options_.cancel, .print = options_.print};
  if (options_.memory_limit > 0) {
    uint64_t kept = 0;
    for (const uint64_t bytes : kept_bytes_) kept += bytes;
    options.memory_limit = std::max<uint64_t>(1, options_.memory_limit - kept);
  }
  // Nothing here mentions the other dims.
  for (size_t i = 0; i < once.dims.size(); ++i) {
    const graph::DimInfo& dim = once.dims[i];
    const int64_t least = (dim.low + dim.multiple - 1) / dim.multiple * dim.multiple;
    options.sizes[dim.name] = dims_.constexprs[i].value_or(least);
  }
  Binding constants;
  constants.constants = binding.constants;
  const auto state = GraphState::make_bound(state_, std::move(once), kernels, std::move(constants), {});
  auto done = run_graph(*state, {}, views, options);
  if (!done) return done.error();
  return out;
}

}  // namespace

Result<std::shared_ptr<const GraphState>> bind_graph(const GraphState& state,
                                                     const std::map<std::string, ArrayView>& inputs,
                                                     const RunOptions& options) {
  return Binder(state, inputs, options).run();
}

}  // namespace kiln::client
