#include "gpu/passes/block_passes.h"

#include "gpu/block/held_tiles.h"
#include "gpu/passes/defer_reductions.h"
#include "gpu/passes/gather_waits.h"
#include "gpu/passes/order_products.h"
#include "gpu/passes/swap_operands.h"

namespace kiln::codegen::gpu {
namespace {

constexpr BlockPass kBlockPasses[] = {
    {"swap_operands",
     [](dsl::Kernel kernel, const BlockFacts& facts) {
       return swap_operands(std::move(kernel), facts.target, facts.block);
     },
     "first: it decides which product there is, and what its operands are views of"},
    {"defer_reductions",
     [](dsl::Kernel kernel, const BlockFacts& facts) {
       return defer_reductions(std::move(kernel), facts.block.threads());
     },
     "before gather_waits: reductions that have left a loop have no waits in it"},
    {"gather_waits",
     [](dsl::Kernel kernel, const BlockFacts& facts) { return gather_waits(std::move(kernel), facts.block.threads()); },
     "once it is known which reductions and loads stay"},
    {"order_products", [](dsl::Kernel kernel, const BlockFacts&) { return order_products(std::move(kernel)); },
     "last: the order of products is to be that in which they are read now"},
};

constexpr Pass kRelievingPasses[] = {
    {"load_late", load_late, "once places of tiles are known, and what a thread holds by them"},
};

}  // namespace

std::span<const BlockPass> block_passes() { return kBlockPasses; }
std::span<const Pass> relieving_passes() { return kRelievingPasses; }

}  // namespace kiln::codegen::gpu
