#include "graph_state.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "gpu/device_state.h"

namespace kiln::client {

std::shared_ptr<const SizedPlan> KnownSizes::find(std::span<const int64_t> sizes) const {
  const std::shared_lock lock(mutex_, std::try_to_lock);
  if (!lock) return nullptr;
  for (const auto& plan : plans_) {
    if (std::ranges::equal(plan->sizes, sizes)) return plan;
  }
  return nullptr;
}

void KnownSizes::insert(std::shared_ptr<const SizedPlan> plan) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  if (plans_.size() < kMost) {
    plans_.push_back(std::move(plan));
    return;
  }
  plans_[next_] = std::move(plan);
  next_ = (next_ + 1) % kMost;
}

namespace {

Result<Block> constant_block(std::span<const std::byte> bytes, const std::optional<Device>& device,
                             const std::string& graph) {
  auto block = Block::make(bytes.size(), 0, device ? &*device : nullptr, "constants of graph `" + graph + "`");
  if (!block) return block.error();
  if (!device) {
    std::ranges::copy(bytes, block->data);
  } else if (auto copied = block->device->copy_from(bytes); !copied) {
    return copied.error();
  }
  return block;
}

std::vector<uint64_t> bytes_of(std::span<const Block> blocks) {
  std::vector<uint64_t> out;
  for (const Block& block : blocks) out.push_back(block.bytes);
  return out;
}

}  // namespace

GraphState::GraphState(graph::Plan what, std::vector<UntypedFunction> functions, std::vector<std::string> unused,
                       std::vector<std::string> notes, std::optional<Device> on, std::vector<Block> data,
                       Binding binding, GraphTuning how)
    : plan(std::move(what)),
      kernels(std::move(functions)),
      unused_dims(std::move(unused)),
      fallbacks(std::move(notes)),
      device(std::move(on)),
      constants(std::move(data)),
      constant_bytes(bytes_of(constants)),
      bound(std::move(binding)),
      tuning(how),
      arenas("arena of graph `" + plan.name + "`") {
  if (device) cache_.emplace(device->state()->driver->memory(), [this] { return arenas.clear(); });
}

std::shared_ptr<const GraphState> GraphState::make_bound(const GraphState& whole, graph::Plan plan,
                                                         std::span<const uint32_t> kernels, Binding binding,
                                                         GraphTuning tuning) {
  std::vector<UntypedFunction> functions;
  for (const uint32_t kernel : kernels) functions.push_back(whole.kernels[kernel]);
  std::vector<Block> data = std::exchange(binding.constants, {});
  return std::shared_ptr<const GraphState>(
      new GraphState(std::move(plan), std::move(functions), whole.unused_dims, whole.fallbacks, whole.device,
                     std::move(data), std::move(binding), tuning),
      DeleteUnlessItStays());
}

// As of kernels' handles: runs may be in other threads when exit() destroys a static one.
Result<std::shared_ptr<const GraphState>> GraphState::make(graph::Plan plan, std::vector<UntypedFunction> kernels,
                                                           std::vector<std::string> unused,
                                                           std::vector<std::string> fallbacks, GraphTuning tuning) {
  std::optional<Device> device;
  const std::string kind = plan.target.substr(0, plan.target.find(':'));
  if (gpu::is_gpu_kind(kind)) {
    auto opened = Device::open(kind);
    if (!opened) return opened.error();
    device = std::move(*opened);
  }
  std::vector<Block> constants;
  for (const std::vector<std::byte>& bytes : plan.constants) {
    auto block = constant_block(bytes, device, plan.name);
    if (!block) return block.error();
    constants.push_back(std::move(*block));
  }
  return std::shared_ptr<const GraphState>(
      new GraphState(std::move(plan), std::move(kernels), std::move(unused), std::move(fallbacks), std::move(device),
                     std::move(constants), {}, tuning),
      DeleteUnlessItStays());
}

}  // namespace kiln::client
