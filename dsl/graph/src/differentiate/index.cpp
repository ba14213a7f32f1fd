// Gradients of gather, scatter, index and index_put. Reading is the transpose of adding; what sets, multiplies or takes
// the least is written with both, so that it holds for several values at one place too.
#include "differentiate/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

// The places of a node, whichever of the four it is.
class Places {
 public:
  explicit Places(Adjoint& a) : a_(a), along_axis_(a.op == kGather || a.op == kScatter) {
    const bool puts = a.op == kIndexPut;
    const auto first = static_cast<ptrdiff_t>(puts ? 2 : 1);
    const auto last = along_axis_ ? first + 1 : static_cast<ptrdiff_t>(a.operands.size());
    indices_.assign(a.operands.begin() + first, a.operands.begin() + last);
  }
  Tensor read(const Tensor& x) const {
    std::vector<Tensor> operands = {x};
    operands.insert(operands.end(), indices_.begin(), indices_.end());
    return a_.emit(along_axis_ ? kGather : kIndex, operands, {a_.attrs()[0]});
  }
  Tensor put(const Tensor& x, const Tensor& values, ScatterKind kind) const {
    std::vector<Tensor> operands = {x};
    if (!along_axis_) operands.push_back(values);
    operands.insert(operands.end(), indices_.begin(), indices_.end());
    if (along_axis_) operands.push_back(values);
    return a_.emit(along_axis_ ? kScatter : kIndexPut, operands, {a_.attrs()[0], static_cast<int64_t>(kind)});
  }

 private:
  Adjoint& a_;
  bool along_axis_;
  std::vector<Tensor> indices_;
};

void read_rule(Adjoint& a) {
  if (a.wants(0)) a.give(0, Places(a).put(zeros_like(a.x()), a.g(), ScatterKind::kAdd));
}

// Row-major numbers of a tensor's elements, i64.
Tensor numbers_like(Adjoint& a, const Tensor& x) {
  const std::vector<Expr> shape = a.extents(x);
  Expr count(1);
  for (const Expr& extent : shape) count = count * extent;
  return reshape_to(a.emit(kIota, {}, {i64, std::vector<Expr>{count}, int64_t{0}}), shape);
}

// Of several values at one place the last stays: the one whose number is there when numbers are put instead.
void set_rule(Adjoint& a, const Places& at, size_t values) {
  const Tensor& v = a.x(values);
  if (a.wants(0)) a.give(0, at.put(a.g(), zeros_like(v), ScatterKind::kSet));
  if (!a.wants(values)) return;
  const Tensor numbers = numbers_like(a, v);
  const Tensor nobody = a.emit(kFull, {}, {i64, a.extents(a.x()), Literal{~uint64_t{0}}});
  const Tensor stays = at.read(at.put(nobody, numbers, ScatterKind::kSet)) == numbers;
  a.give(values, where(stays, at.read(a.g()), 0));
}

void sum_rule(Adjoint& a, const Places& at, size_t values) {
  if (a.wants(0)) a.give(0, a.g());
  if (a.wants(values)) a.give(values, at.read(a.g()));
}

// By a value: the product of all others at its place. Zeros are counted, for nothing can be divided by them.
void mul_rule(Adjoint& a, const Places& at, size_t values) {
  const Tensor& v = a.x(values);
  if (a.wants(0)) a.give(0, a.g() * at.put(ones_like(a.x()), v, ScatterKind::kMul));
  if (!a.wants(values)) return;
  const Tensor is_zero = v == 0, safe = where(is_zero, 1, v);
  const Tensor product = at.put(ones_like(a.x()), safe, ScatterKind::kMul);
  const Tensor one_each = cast(is_zero, i64);
  const Tensor zeros_there = at.put(zeros_of({i64, a.extents(a.x())}), one_each, ScatterKind::kAdd);
  const Tensor others_hold_none = at.read(zeros_there) == one_each;
  a.give(values, where(others_hold_none, at.read(a.g() * a.x() * product) / safe, 0));
}

// In equal shares to all that are equal to the result.
void least_rule(Adjoint& a, const Places& at, size_t values) {
  const Tensor& v = a.x(values);
  const Tensor x_is = a.x() == a.y(), v_is = v == at.read(a.y());
  const Tensor count = at.put(cast(x_is, a.g().element()), cast(v_is, a.g().element()), ScatterKind::kAdd);
  const Tensor share = a.g() / max(count, 1);
  if (a.wants(0)) a.give(0, where(x_is, share, 0));
  if (a.wants(values)) a.give(values, where(v_is, at.read(share), 0));
}

void put_rule(Adjoint& a) {
  const Places at(a);
  const size_t values = a.op == kScatter ? 2 : 1;
  switch (enum_attr<ScatterKind>(a.attrs(), 1)) {
    case ScatterKind::kSet:
      return set_rule(a, at, values);
    case ScatterKind::kAdd:
      return sum_rule(a, at, values);
    case ScatterKind::kMul:
      return mul_rule(a, at, values);
    case ScatterKind::kMin:
    case ScatterKind::kMax:
      return least_rule(a, at, values);
  }
}

// The rows of a table.
void embedding_rule(Adjoint& a) {
  a.give(0, a.emit(kIndexPut, {zeros_like(a.x()), a.g(), a.x(1)},
                   {std::vector<int64_t>{0}, static_cast<int64_t>(ScatterKind::kAdd)}));
}

// Each element back to where it came from.
void order_rule(Adjoint& a) {
  const int64_t axis = int_attr(a.attrs(), a.op == kSort ? 0 : 1);
  if (!a.has_g(0)) return;
  a.give(0, a.emit(kScatter, {zeros_like(a.x()), a.y(1), a.g(0)}, {axis, static_cast<int64_t>(ScatterKind::kAdd)}));
}

}  // namespace

void add_index_rules(GradientTable& table) {
  table.all(GradientKind::kRule, {kGather, kIndex}, read_rule);
  table.all(GradientKind::kRule, {kScatter, kIndexPut}, put_rule);
  table.all(GradientKind::kRule, {kSort, kTopk}, order_rule);
  table.rule(kEmbedding, embedding_rule);
  table.all(GradientKind::kNone, {kHistogram, kOneHot});
}

}  // namespace kiln::graph
