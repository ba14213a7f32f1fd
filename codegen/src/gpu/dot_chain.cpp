#include "gpu/dot_chain.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <set>

namespace kiln::codegen::gpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

void visit_ops(const dsl::Region& region, const std::function<void(const Op&)>& visit) {
  for (const Op& op : region.ops) {
    visit(op);
    for (const dsl::Region& inner : op.regions) visit_ops(inner, visit);
  }
}

int log2_of(int64_t x) { return std::countr_zero(static_cast<uint64_t>(x)); }

// Whether each bit of an input stands for a step along one axis.
bool goes_along_axes(const Layout& fragment) {
  return std::ranges::all_of(fragment.columns(), [](Bits element) { return std::popcount(element) <= 1; });
}

// By bit of the inner axis: the bit that takes its place; nothing where lanes have other rows.
std::optional<std::vector<int>> order_of(const Layout& sums, const Layout& a) {
  constexpr int kNone = -1;
  const int count = a.axis_bits(1);
  std::vector<int> out(static_cast<size_t>(count), kNone);
  std::set<int> taken;
  const auto put = [&](int64_t from, int64_t to) {
    out[static_cast<size_t>(log2_of(from))] = log2_of(to);
    taken.insert(log2_of(to));
  };
  const Columns &lanes = a.bases(Dim::kLane), &lanes_of_sums = sums.bases(Dim::kLane);
  if (lanes.size() != lanes_of_sums.size() || !goes_along_axes(a) || !goes_along_axes(sums)) return std::nullopt;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const std::vector<int64_t> at = a.coordinates(lanes[i]), there = sums.coordinates(lanes_of_sums[i]);
    const bool fits = at[0] == there[0] && (at[1] == 0) == (there[1] == 0) && there[1] >> count == 0;
    if (!fits) return std::nullopt;
    if (at[1] != 0) put(at[1], there[1]);
  }
  // Registers: those of a fragment of the sums first, then those of the fragments beside it.
  std::vector<int> left;
  for (Bits basis : sums.bases(Dim::kRegister)) {
    const int64_t column = sums.coordinates(basis)[1];
    if (column != 0 && log2_of(column) < count) left.push_back(log2_of(column));
  }
  for (int bit = sums.axis_bits(1); bit < count; ++bit) left.push_back(bit);
  for (Bits basis : a.bases(Dim::kRegister)) {
    const int64_t k = a.coordinates(basis)[1];
    if (k == 0) continue;
    if (left.empty()) return std::nullopt;
    put(k, int64_t{1} << left.front());
    left.erase(left.begin());
  }
  if (static_cast<int>(taken.size()) != count) return std::nullopt;
  return out;
}

Layout with_order(const Layout& fragment, int axis, const std::vector<int>& order) {
  Layout out(fragment.shape());
  for (Dim dim : kDims) {
    for (Bits basis : fragment.bases(dim)) {
      std::vector<int64_t> at = fragment.coordinates(basis);
      int64_t& k = at[static_cast<size_t>(axis)];
      if (k != 0) k = int64_t{1} << order[static_cast<size_t>(log2_of(k))];
      out.add(dim, out.element(at));
    }
  }
  return out;
}

}  // namespace

const Op* dot_before(const dsl::Kernel& kernel, const Op& dot) {
  std::vector<const Op*> definition(kernel.values.size());
  visit_ops(kernel.body, [&](const Op& op) {
    for (ValueId id : op.results) definition[id] = &op;
  });
  std::set<ValueId> seen;
  const std::function<const Op*(ValueId)> find = [&](ValueId id) -> const Op* {
    const Op* op = definition[id];
    if (!op || kernel.type(id).rank() < 2 || !seen.insert(id).second) return nullptr;
    if (op->code == OpCode::kDot) return op;
    if (!dsl::info(op->code).has(dsl::kElementwise)) return nullptr;
    for (ValueId operand : op->operands) {
      if (const Op* found = find(operand)) return found;
    }
    return nullptr;
  };
  return find(dot.operands[0]);
}

bool has_dot_behind(const dsl::Kernel& kernel, const Op& dot) {
  bool out = false;
  visit_ops(kernel.body, [&](const Op& op) {
    out |= op.code == OpCode::kDot && op.results != dot.results && dot_before(kernel, op) == &dot;
  });
  return out;
}

MatrixInstruction in_order_of(const Layout& sums, MatrixInstruction instruction) {
  if (const auto order = order_of(sums, instruction.a)) {
    instruction.a = with_order(instruction.a, 1, *order);
    instruction.b = with_order(instruction.b, 0, *order);
  }
  return instruction;
}

}  // namespace kiln::codegen::gpu
