#include "graph_state.h"

#include <algorithm>
#include <cstring>
#include <mutex>

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

GraphState::GraphState(graph::Plan what, std::vector<UntypedFunction> functions, std::vector<Block> data)
    : plan(std::move(what)), kernels(std::move(functions)), constants(std::move(data)) {}

// As of kernels' handles: runs may be in other threads when exit() destroys a static one.
Result<std::shared_ptr<const GraphState>> GraphState::make(graph::Plan plan, std::vector<UntypedFunction> kernels) {
  std::vector<Block> constants;
  for (const std::vector<std::byte>& bytes : plan.constants) {
    auto block = Block::allocate(bytes.size());
    if (!block) return block.error();
    std::ranges::copy(bytes, block->data);
    constants.push_back(std::move(*block));
  }
  return std::shared_ptr<const GraphState>(new GraphState(std::move(plan), std::move(kernels), std::move(constants)),
                                           DeleteUnlessItStays());
}

}  // namespace kiln::client
