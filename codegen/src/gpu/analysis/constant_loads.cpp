#include "gpu/analysis/constant_loads.h"

#include <algorithm>

#include "kiln/dsl/traits.h"
#include "passes/pointers.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

// Tiles of fewer elements a thread fit into registers anyway, and programs of smaller ones are done too soon.
constexpr int64_t kManyOfAThread = 32;
constexpr int64_t kManyOfAProgram = 8192;

bool is_long(const dsl::Type& type, int64_t threads) {
  return dsl::element_count(type) >= std::max(kManyOfAThread * threads, kManyOfAProgram);
}

// Whether all writes behind an op at top level store what is computed from its result.
bool is_in_all_writes(const std::vector<Op>& ops, size_t number) {
  std::set<ValueId> computed(ops[number].results.begin(), ops[number].results.end());
  for (size_t i = number + 1; i < ops.size(); ++i) {
    const Op& op = ops[i];
    if (may_write(op) && (op.code != OpCode::kStore || !computed.contains(op.operands[1]))) return false;
    const auto is_computed = [&](ValueId id) { return computed.contains(id); };
    const bool uses = any_op(op, [&](const Op& each) { return std::ranges::any_of(each.operands, is_computed); });
    if (uses) computed.insert(op.results.begin(), op.results.end());
  }
  return true;
}

}  // namespace

std::set<const Op*> constant_loads(const dsl::Kernel& kernel, int64_t threads, bool in_order) {
  const Pointers pointers(kernel);
  std::set<const Op*> out;
  const std::vector<Op>& ops = kernel.body.ops;
  if (std::ranges::none_of(ops, [](const Op& op) { return op.code == OpCode::kReduce; })) return out;
  for (size_t i = 0; i < ops.size() && !may_write(ops[i]); ++i) {
    if (ops[i].code != OpCode::kLoad || (!in_order && !is_long(kernel.type(ops[i].results[0]), threads))) continue;
    const auto param = pointers.parameter(ops[i].operands[0]);
    if (!param || !kernel.params[*param].readonly || kernel.params[*param].may_alias) continue;
    if (is_in_all_writes(ops, i)) out.insert(&ops[i]);
  }
  return out;
}

}  // namespace kiln::codegen::gpu
