#include "differentiate/rules.h"

#include "kiln/graph/extents.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

Tensor emit(TensorOp op, std::initializer_list<Tensor> operands, AttrList attrs) {
  return Trace::current()->emit(op, std::span(operands.begin(), operands.size()), std::move(attrs), SourceLocation());
}
// A copy: nodes that follow may move the types.
std::vector<Expr> extents_of(const Tensor& x) {
  const Trace& trace = *Trace::current();
  return trace.knows(x) ? trace.type(x).shape : std::vector<Expr>();
}

}  // namespace

Tensor Adjoint::g(size_t i) const {
  return result_gradients[i].valid() ? result_gradients[i] : zeros_of(trace().type(results[i]));
}

void Adjoint::fail(const std::string& what) const { trace().report(loc, info(op).name + ": " + what); }

Tensor zeros_of(const TensorType& type) { return emit(kFull, {}, {type.element, type.shape, Literal{0}}); }

Tensor number_like(const Tensor& x, double number) {
  const ElementType type = x.element();
  return emit(kFull, {}, {type, extents_of(x), Literal{dsl::bits_from_double(type, number)}});
}

Tensor reshape_to(const Tensor& x, std::vector<Expr> extents) {
  if (extents_of(x) == extents) return x;
  return emit(kReshape, {x}, {std::move(extents)});
}

Tensor broadcast_extents(const Tensor& x, const std::vector<Expr>& extents) {
  if (extents_of(x) == extents) return x;
  return emit(kBroadcast, {x}, {extents});
}

Tensor sum_axes(const Tensor& x, const std::vector<int64_t>& axes) {
  if (axes.empty()) return x;
  return emit(kReduce, {x}, {static_cast<int64_t>(ReduceKind::kSum), axes, int64_t{0}});
}

Tensor sum_to(const Tensor& x, const std::vector<Expr>& extents) {
  const std::vector<Expr> from = extents_of(x);
  if (from == extents) return x;
  const size_t missing = from.size() - extents.size();
  std::vector<int64_t> axes;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool repeated = i < missing || (extents[i - missing].as_constant() == 1 && from[i].as_constant() != 1);
    if (repeated) axes.push_back(static_cast<int64_t>(i));
  }
  return reshape_to(sum_axes(x, axes), extents);
}

Tensor restore(const Tensor& reduced, const std::vector<Expr>& extents, const std::vector<int64_t>& axes) {
  std::vector<Expr> kept = extents;
  for (const int64_t axis : axes) kept[static_cast<size_t>(axis)] = Expr(1);
  return broadcast_extents(reshape_to(reduced, kept), extents);
}

Tensor count_of(const std::vector<Expr>& extents, const std::vector<int64_t>& axes, ElementType type) {
  Expr count(1);
  for (const int64_t axis : axes) count = count * extents[static_cast<size_t>(axis)];
  if (auto known = count.as_constant()) {
    return emit(kFull, {},
                {type, std::vector<Expr>(), Literal{dsl::bits_from_double(type, static_cast<double>(*known))}});
  }
  return emit(kExtent, {}, {type, std::move(count)});
}

Tensor slice_axis(const Tensor& x, size_t axis, const Expr& start, const Expr& end) {
  std::vector<Expr> to = extents_of(x), from(to.size(), Expr(0));
  if (start == Expr(0) && end == to[axis]) return x;
  from[axis] = start;
  to[axis] = end;
  std::vector<int64_t> step(to.size(), 1);
  return emit(kSlice, {x}, {std::move(from), std::move(to), std::move(step)});
}

Tensor pad_axis(const Tensor& x, size_t axis, const Expr& low, const Expr& high) {
  const size_t rank = extents_of(x).size();
  std::vector<Expr> front(rank, Expr(0)), behind(rank, Expr(0));
  front[axis] = low;
  behind[axis] = high;
  return emit(kPad, {x, zeros_of({x.element(), {}})},
              {std::move(front), std::move(behind), std::vector<int64_t>(rank, 0)});
}

std::vector<int64_t> inverse_order(const std::vector<int64_t>& order) {
  std::vector<int64_t> out(order.size());
  for (size_t i = 0; i < order.size(); ++i) out[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return out;
}

Lines::Lines(const std::vector<Expr>& extents, const std::vector<int64_t>& axes) {
  std::vector<bool> last(extents.size(), false);
  for (const int64_t axis : axes) last[static_cast<size_t>(axis)] = true;
  Expr length(1);
  for (const bool those : {false, true}) {
    for (size_t i = 0; i < extents.size(); ++i) {
      if (last[i] != those) continue;
      order_.push_back(static_cast<int64_t>(i));
      moved_.push_back(extents[i]);
      if (those) length = length * extents[i];
      if (!those) shape_.push_back(extents[i]);
    }
  }
  shape_.push_back(length);
}

Tensor Lines::in(const Tensor& x) const { return reshape_to(emit(kPermute, {x}, {order_}), shape_); }

Tensor Lines::out(const Tensor& lines) const {
  return emit(kPermute, {reshape_to(lines, moved_)}, {inverse_order(order_)});
}

const GradientEntry& gradient_entry(TensorOp op) {
  // Never destroyed: other threads may ask while exit() destroys statics.
  static const GradientTable& table = *[] {
    auto* made = new GradientTable;
    add_elementwise_rules(*made);
    add_view_rules(*made);
    add_index_rules(*made);
    add_reduce_rules(*made);
    add_scan_rules(*made);
    add_contract_rules(*made);
    add_window_rules(*made);
    add_activation_rules(*made);
    add_norm_rules(*made);
    add_layer_rules(*made);
    add_control_rules(*made);
    add_custom_rules(*made);
    return made;
  }();
  return table.entries[static_cast<size_t>(op)];
}

}  // namespace kiln::graph
