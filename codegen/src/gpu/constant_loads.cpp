#include "gpu/constant_loads.h"

#include <algorithm>

#include "passes/pointers.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

bool writes(const Op& op) {
  return dsl::info(op.code).has(dsl::kWrites) || std::ranges::any_of(op.regions, [](const dsl::Region& region) {
           return std::ranges::any_of(region.ops, writes);
         });
}

bool uses_any(const Op& op, const std::set<ValueId>& values) {
  return std::ranges::any_of(op.operands, [&](ValueId id) { return values.contains(id); }) ||
         std::ranges::any_of(op.regions, [&](const dsl::Region& region) {
           return std::ranges::any_of(region.ops, [&](const Op& inner) { return uses_any(inner, values); });
         });
}

// Whether all writes behind an op at top level store what is computed from its result.
bool is_in_all_writes(const std::vector<Op>& ops, size_t number) {
  std::set<ValueId> computed(ops[number].results.begin(), ops[number].results.end());
  for (size_t i = number + 1; i < ops.size(); ++i) {
    const Op& op = ops[i];
    if (writes(op) && (op.code != OpCode::kStore || !computed.contains(op.operands[1]))) return false;
    if (uses_any(op, computed)) computed.insert(op.results.begin(), op.results.end());
  }
  return true;
}

}  // namespace

std::set<const Op*> constant_loads(const dsl::Kernel& kernel) {
  const Pointers pointers(kernel);
  std::set<const Op*> out;
  const std::vector<Op>& ops = kernel.body.ops;
  if (std::ranges::none_of(ops, [](const Op& op) { return op.code == OpCode::kReduce; })) return out;
  for (size_t i = 0; i < ops.size() && !writes(ops[i]); ++i) {
    if (ops[i].code != OpCode::kLoad) continue;
    const auto param = pointers.parameter(ops[i].operands[0]);
    if (!param || !kernel.params[*param].readonly || kernel.params[*param].may_alias) continue;
    if (is_in_all_writes(ops, i)) out.insert(&ops[i]);
  }
  return out;
}

}  // namespace kiln::codegen::gpu
