#include "random/fold.h"

#include "random/edit.h"
#include "random/facts.h"

namespace kiln::random_kernel {

using dsl::Kernel;
using dsl::Op;
using dsl::OpCode;
using dsl::Region;
using dsl::ValueId;

namespace {

// x + 0, 0 + x, x·1, 1·x and pointer + 0 are x.
void add_neutral(const Kernel& kernel, const Op& op, const std::vector<Fact>& facts, std::vector<Kernel>& out) {
  if (op.code != OpCode::kAddptr && op.code != OpCode::kAdd && op.code != OpCode::kMul) return;
  const auto neutral = static_cast<Wide>(op.code == OpCode::kMul);
  for (size_t side = op.code == OpCode::kAddptr ? 1 : 0; side < 2; ++side) {
    const Fact& number = facts[op.operands[side]];
    if (number.low != neutral || number.high != neutral) continue;
    out.push_back(kernel);
    replace_uses(out.back().body, op.results[0], op.operands[1 - side]);
  }
}

// A result of this op would only be made again.
bool is_constant(const Kernel& kernel, const Op& op) {
  if (op.code != OpCode::kSplat) return op.code == OpCode::kConstant;
  bool out = false;
  Region body = kernel.body;
  visit_ops(body, [&](Region& region, size_t index) {
    const Op& other = region.ops[index];
    out = out || (other.code == OpCode::kConstant && other.results[0] == op.operands[0]);
  });
  return out;
}

}  // namespace

std::vector<Kernel> folded(const Case& test, size_t place, size_t result) {
  std::vector<Kernel> out;
  auto facts = value_facts(test);
  if (!facts) return out;
  Op op{};
  Kernel kernel = test.kernel;
  at_op(kernel, place, [&](Region& region, size_t index) { op = region.ops[index]; });
  const dsl::Type& type = kernel.type(op.results[result]);
  if (type.is_value() && dsl::is_float(type.element)) return out;
  add_neutral(kernel, op, *facts, out);
  const Fact& fact = (*facts)[op.results[result]];
  if (type.is_value() && fact.low == fact.high && !fact.may_wrap && !is_constant(kernel, op)) {
    const uint64_t bits = dsl::bits_from_int(type.element, static_cast<int64_t>(fact.low));
    out.push_back(with_constant(kernel, place, result, bits));
  }
  return out;
}

}  // namespace kiln::random_kernel
