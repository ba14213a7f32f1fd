#include "passes/refine_axes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/op_builder.h"
#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/traits.h"
#include "kiln/dsl/wide.h"
#include "passes/cse.h"
#include "passes/fold.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ValueId;

// What each axis of a shape becomes, outermost first.
using Axes = std::vector<std::vector<int64_t>>;

constexpr int kMostOps = 64;        // of those that are written once more
constexpr size_t kMostAxes = 5;     // of any tile
constexpr int64_t kMostNarrow = 8;  // elements in a last axis that is no row of vectors

std::vector<int64_t> flat(const Axes& axes) {
  std::vector<int64_t> out;
  for (const auto& axis : axes) out.insert(out.end(), axis.begin(), axis.end());
  return out;
}

// How to make `fine` of the axes of `coarse`; absent where an axis of the first goes across two of the second.
std::optional<Axes> axes_between(const std::vector<int64_t>& coarse, const std::vector<int64_t>& fine) {
  Axes out;
  size_t at = 0;
  for (int64_t extent : coarse) {
    std::vector<int64_t> axis;
    int64_t count = 1;
    while (at < fine.size() && (count < extent || axis.empty())) {
      count *= fine[at];
      axis.push_back(fine[at++]);
    }
    if (count != extent) return std::nullopt;
    out.push_back(std::move(axis));
  }
  // Axes of one element that are left belong to the last.
  for (; at < fine.size(); ++at) {
    if (fine[at] != 1 || out.empty()) return std::nullopt;
    out.back().push_back(1);
  }
  return out;
}

// Rows become rows of a few elements, and nothing else changes: a mask along the rows is then one of a single index
// still.
bool is_narrow(const Axes& axes) {
  if (axes.empty()) return false;
  const auto is_one = [](const std::vector<int64_t>& axis) { return axis.size() == 1; };
  return std::all_of(axes.begin(), axes.end() - 1, is_one) && axes.back().size() == 2 &&
         axes.back().back() <= kMostNarrow;
}

class Refiner {
 public:
  explicit Refiner(dsl::Kernel& kernel) : kernel_(kernel) {}

  bool run() {
    dsl::for_each_op(kernel_, [this](Op& op) {
      all_.push_back(&op);
      for (ValueId operand : op.operands) ++uses_[operand];
      for (ValueId result : op.results) definition_[result] = &op;
    });
    for (Op* op : all_) {
      if (op->code == OpCode::kStore) refine_store(*op);
      if (op->code == OpCode::kReshape) refine_source(*op);
    }
    if (added_.empty()) return false;
    insert();
    return true;
  }

 private:
  // New ops stand behind those in whose place they are.
  void insert() {
    dsl::rewrite_ops(kernel_, [this](Op& op, std::vector<Op>& out) {
      const auto more = added_.find(&op);
      out.push_back(std::move(op));
      if (more != added_.end()) std::ranges::move(more->second, std::back_inserter(out));
    });
  }

  std::vector<int64_t> shape(ValueId id) const { return dsl::concrete_shape(kernel_.type(id)); }

  static bool is_elementwise(const Op& op) {
    if (op.code == OpCode::kPhilox || op.code == OpCode::kInlineAsm) return false;
    return dsl::is_elementwise(op) || op.code == OpCode::kLoad;
  }

  // A reshape that a value comes from by elementwise ops, of what is computed where it is wanted.
  const Op* merging(ValueId id, int budget) const {
    const auto found = definition_.find(id);
    if (found == definition_.end() || budget == 0) return nullptr;
    const Op& op = *found->second;
    if (op.code == OpCode::kReshape) {
      const auto source = definition_.find(op.operands[0]);
      if (source == definition_.end()) return nullptr;
      const OpCode code = source->second->code;
      const bool waits = code == OpCode::kJoin || code == OpCode::kPermute || is_elementwise(*source->second);
      return waits ? &op : nullptr;
    }
    if (!is_elementwise(op) || op.code == OpCode::kLoad) return nullptr;
    for (ValueId operand : op.operands) {
      if (const Op* reshape = merging(operand, budget - 1)) return reshape;
    }
    return nullptr;
  }

  void refine_store(Op& store) {
    const Op* reshape = merging(store.operands[1], 16);
    if (!reshape) return;
    const auto axes = axes_between(shape(store.operands[1]), shape(reshape->operands[0]));
    if (!axes || !is_narrow(*axes)) return;
    begin();
    std::vector<ValueId> operands;
    for (ValueId operand : store.operands) {
      const auto refined = refine(operand, *axes);
      if (!refined) return;
      operands.push_back(*refined);
    }
    commit();
    store.operands = std::move(operands);
  }

  void refine_source(Op& reshape) {
    const ValueId source = reshape.operands[0];
    const auto found = definition_.find(source);
    if (found == definition_.end() || !is_elementwise(*found->second) || uses_[source] != 1) return;
    const auto axes = axes_between(shape(source), shape(reshape.results[0]));
    if (!axes || !is_narrow(*axes)) return;
    begin();
    const auto refined = refine(source, *axes);
    if (!refined || kernel_.type(*refined).shape != kernel_.type(reshape.results[0]).shape) return;
    commit();
    reshape.operands = {*refined};  // of the shape that it makes: an identity, which folding takes away
  }

  // ---- one attempt ----

  void begin() {
    pending_.clear();
    refined_.clear();
    ops_ = 0;
  }

  void commit() {
    for (auto& [op, more] : pending_) {
      auto& list = added_[op];
      list.insert(list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    }
  }

  std::optional<ValueId> refine(ValueId id, const Axes& axes) {
    if (kernel_.type(id).is_scalar()) return id;
    const auto key = std::pair(id, axes);
    if (const auto known = refined_.find(key); known != refined_.end()) return known->second;
    const auto found = definition_.find(id);
    if (found == definition_.end() || ++ops_ > kMostOps || flat(axes).size() > kMostAxes) return std::nullopt;
    const Op& op = *found->second;
    const auto out = refine_op(op, axes);
    if (out) refined_[key] = *out;
    return out;
  }

  std::optional<ValueId> refine_op(const Op& op, const Axes& axes) {
    switch (op.code) {
      case OpCode::kReshape:
        if (shape(op.operands[0]) == flat(axes)) return op.operands[0];
        return std::nullopt;
      case OpCode::kSplat:
        return builder(op).splat(op.operands[0], dsl::shape_of(flat(axes)));
      case OpCode::kArange:
        return refine_arange(op, axes[0]);
      case OpCode::kBroadcast:
        return refine_broadcast(op, axes);
      case OpCode::kExpandDims: {
        const auto axis = static_cast<size_t>(int_attr(op, 0));
        Axes source = axes;
        source.erase(source.begin() + static_cast<ptrdiff_t>(axis));
        size_t at = 0;
        for (size_t i = 0; i < axis; ++i) at += axes[i].size();
        auto out = refine(op.operands[0], source);
        for (size_t i = 0; out && i < axes[axis].size(); ++i) {
          out = builder(op).add(OpCode::kExpandDims, {*out}, {static_cast<int64_t>(at)});
        }
        return out;
      }
      default:
        return is_elementwise(op) ? refine_elementwise(op, axes) : std::nullopt;
    }
  }

  // start + Σ arange(0, axis)·(elements behind it)
  ValueId refine_arange(const Op& op, const std::vector<int64_t>& axis) {
    OpBuilder b = builder(op);
    const auto to = dsl::shape_of(axis);
    const ElementType type = kernel_.type(op.results[0]).element;
    const int64_t start = number_attr(op, 0);
    ValueId sum = b.splat(b.constant(type, bits_from_number(type, start)), to);
    int64_t stride = 1;
    for (size_t i = axis.size(); i-- > 0; stride *= axis[i]) {
      if (axis[i] == 1) continue;
      ValueId index = b.add(OpCode::kArange, {}, {dsl::Expr(0), dsl::Expr(axis[i])});
      for (size_t d = 0; d < axis.size(); ++d) {
        if (d != i) index = b.add(OpCode::kExpandDims, {index}, {static_cast<int64_t>(d)});
      }
      if (axis.size() > 1) index = b.add(OpCode::kBroadcast, {index}, {to});
      const ValueId factor = b.splat(b.constant(type, bits_from_number(type, stride)), to);
      sum = b.add(OpCode::kAdd, {b.add(OpCode::kMul, {index, factor}), sum});
    }
    return sum;
  }

  // Axes of one element that stretch become one, which stretches to the first of those that it becomes part of.
  std::optional<ValueId> refine_broadcast(const Op& op, const Axes& axes) {
    const auto from = shape(op.operands[0]);
    if (from.size() != axes.size()) return std::nullopt;
    Axes source = axes;
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] == 1) source[i].assign(axes[i].size(), 1);
    }
    const auto out = refine(op.operands[0], source);
    if (!out) return out;
    return builder(op).add(OpCode::kBroadcast, {*out}, {dsl::shape_of(flat(axes))});
  }

  std::optional<ValueId> refine_elementwise(const Op& op, const Axes& axes) {
    std::vector<ValueId> operands;
    for (ValueId operand : op.operands) {
      const auto refined = refine(operand, axes);
      if (!refined) return std::nullopt;
      operands.push_back(*refined);
    }
    return builder(op).add(op.code, std::move(operands), op.attrs);
  }

  OpBuilder builder(const Op& op) { return {kernel_, pending_[&op], op.loc}; }

  dsl::Kernel& kernel_;
  std::vector<Op*> all_;
  std::unordered_map<ValueId, int> uses_;
  std::unordered_map<ValueId, const Op*> definition_;
  std::map<const Op*, std::vector<Op>> pending_, added_;
  std::map<std::pair<ValueId, Axes>, ValueId> refined_;
  int ops_ = 0;
};

}  // namespace

dsl::Kernel refine_axes(dsl::Kernel kernel) {
  if (!Refiner(kernel).run()) return kernel;
  return dsl::canonicalise(eliminate_common_subexpressions(fold(std::move(kernel))));
}

}  // namespace kiln::codegen
