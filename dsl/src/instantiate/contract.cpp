// Contraction: a product that is only added is not rounded on its own.
//
//   before                                        after
//     %m = mul %a, %b : tile<[BLOCK], f32>          %s = fma %a, %b, %c : tile<[BLOCK], f32>
//     %s = add %m, %c : tile<[BLOCK], f32>
//
// It runs on instantiated IR before any target's passes, so that all targets round alike. The product must have one use
// and lie in the region of the sum (moving it into a loop would repeat it). Where both operands of the sum are such
// products the left one is taken. Only f32 and f64: the smaller floats round at each op's result by definition.
#include <unordered_map>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/rounding.h"
#include "kiln/dsl/uses.h"
#include "kiln/dsl/walk.h"

namespace kiln::dsl {
namespace {

void contract_region(const Kernel& kernel, const std::vector<uint32_t>& uses, Region& region) {
  std::unordered_map<ValueId, size_t> products;  // single-use result of a mul → its place in the region
  std::vector<bool> absorbed(region.ops.size(), false);
  for (size_t i = 0; i < region.ops.size(); ++i) {
    Op& op = region.ops[i];
    if (op.code != OpCode::kMul && op.code != OpCode::kAdd) continue;
    const ElementType element = kernel.type(op.results[0]).element;
    if (element != ElementType::kF32 && element != ElementType::kF64) continue;
    if (op.code == OpCode::kMul) {
      if (uses[op.results[0]] == 1) products[op.results[0]] = i;
      continue;
    }
    for (size_t side = 0; side < 2; ++side) {
      auto product = products.find(op.operands[side]);
      if (product == products.end()) continue;
      const std::vector<ValueId>& factors = region.ops[product->second].operands;
      op.operands = {factors[0], factors[1], op.operands[1 - side]};
      op.code = OpCode::kFma;
      absorbed[product->second] = true;
      break;
    }
  }
  std::vector<Op> kept;
  for (size_t i = 0; i < region.ops.size(); ++i) {
    if (!absorbed[i]) kept.push_back(std::move(region.ops[i]));
  }
  region.ops = std::move(kept);
}

}  // namespace

Kernel contract(Kernel kernel) {
  if (!kernel.options.contract) return kernel;
  const std::vector<uint32_t> uses = count_uses(kernel);
  for_each_region_postorder(kernel, [&](Region& region) { contract_region(kernel, uses, region); });
  return canonicalise(kernel);
}

}  // namespace kiln::dsl
