#include "gpu/analysis/dot_chain.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <set>

#include "kiln/dsl/traits.h"
#include "kiln/dsl/uses.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

int log2_of(int64_t x) { return std::countr_zero(static_cast<uint64_t>(x)); }

// Whether each bit of an input stands for a step along one axis.
bool goes_along_axes(const Layout& fragment) {
  return std::ranges::all_of(fragment.columns(), [](Bits element) { return std::popcount(element) <= 1; });
}

// By bit of the inner axis: the bit that takes its place; nothing where lanes have other rows.
std::optional<std::vector<int>> order_of(const Layout& accumulators, const Layout& a) {
  constexpr int kNone = -1;
  const int count = a.axis_bits(1);
  std::vector<int> out(static_cast<size_t>(count), kNone);
  std::set<int> taken;
  const auto put = [&](int64_t from, int64_t to) {
    out[static_cast<size_t>(log2_of(from))] = log2_of(to);
    taken.insert(log2_of(to));
  };
  const Columns &lanes = a.bases(Dim::kLane), &lanes_of_accumulator = accumulators.bases(Dim::kLane);
  if (lanes.size() != lanes_of_accumulator.size() || !goes_along_axes(a) || !goes_along_axes(accumulators))
    return std::nullopt;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const std::vector<int64_t> at = a.coordinates(lanes[i]), there = accumulators.coordinates(lanes_of_accumulator[i]);
    const bool fits = at[0] == there[0] && (at[1] == 0) == (there[1] == 0) && there[1] >> count == 0;
    if (!fits) return std::nullopt;
    if (at[1] != 0) put(at[1], there[1]);
  }
  // Registers: those of a fragment of the accumulators first, then those of the fragments beside it.
  std::vector<int> left;
  for (Bits basis : accumulators.bases(Dim::kRegister)) {
    const int64_t column = accumulators.coordinates(basis)[1];
    if (column != 0 && log2_of(column) < count) left.push_back(log2_of(column));
  }
  for (int bit = accumulators.axis_bits(1); bit < count; ++bit) left.push_back(bit);
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

// Of which product values are the accumulators, or are made of them element by element.
class AccumulatorsBehind {
 public:
  explicit AccumulatorsBehind(const dsl::Kernel& kernel) : kernel_(kernel), definition_(dsl::definitions(kernel)) {}

  const Op* of(ValueId id) const {
    std::set<ValueId> seen;
    return find(id, seen);
  }

  // Whether something is computed of whole rows of them.
  bool are_reduced(const Op& dot) const {
    return any_op(kernel_, [&](const Op& op) {
      return op.code == OpCode::kReduce && int_attr(op, 1) == kernel_.type(op.operands[0]).rank() - 1 &&
             of(op.operands[0]) == &dot;
    });
  }

 private:
  const Op* find(ValueId id, std::set<ValueId>& seen) const {
    const Op* op = definition_[id];
    if (!op || kernel_.type(id).rank() < 2 || !seen.insert(id).second) return nullptr;
    if (op->code == OpCode::kDot) return op;
    if (!is_elementwise(*op)) return nullptr;
    for (ValueId operand : op->operands) {
      if (const Op* found = find(operand, seen)) return found;
    }
    return nullptr;
  }

  const dsl::Kernel& kernel_;
  std::vector<const Op*> definition_;
};

}  // namespace

const Op* dot_before(const dsl::Kernel& kernel, const Op& dot) {
  const AccumulatorsBehind behind(kernel);
  const Op* before = behind.of(dot.operands[0]);
  return before && before != &dot && behind.are_reduced(*before) ? before : nullptr;
}

bool has_dot_behind(const dsl::Kernel& kernel, const Op& dot) {
  const AccumulatorsBehind behind(kernel);
  return behind.are_reduced(dot) && any_op(kernel, [&](const Op& op) {
           return op.code == OpCode::kDot && &op != &dot && behind.of(op.operands[0]) == &dot;
         });
}

MatrixInstruction in_order_of(const Layout& accumulators, MatrixInstruction instruction) {
  if (const auto order = order_of(accumulators, instruction.a)) {
    instruction.a = with_order(instruction.a, 1, *order);
    instruction.b = with_order(instruction.b, 0, *order);
  }
  return instruction;
}

}  // namespace kiln::codegen::gpu
