// Gradients of losses and the other layers.
#include "differentiate/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

// softmax less the target's distribution, for each row that counts.
void cross_entropy_rule(Adjoint& a) {
  const Tensor &logits = a.x(0), &targets = a.x(1);
  const auto reduction = enum_attr<LossReduction>(a.attrs(), 0);
  const int64_t ignore = int_attr(a.attrs(), 1);
  const double smoothing = float_attr(a.attrs(), 2);
  const std::vector<Expr> shape = a.extents(logits);
  const int last = static_cast<int>(shape.size()) - 1;
  const ElementType type = logits.element();
  const Tensor ids = cast(targets, i64);
  const Tensor counts = ids != ignore;
  Tensor scale = a.g();
  if (reduction == LossReduction::kMean) scale = scale / sum(cast(counts, type));
  std::vector<Expr> column = shape;
  column.back() = Expr(1);
  const Tensor row = where(counts, broadcast_extents(scale, a.extents(targets)), 0);
  const Tensor rows = reshape_to(row, column);
  const Tensor hit = a.emit(kIota, {}, {i64, shape, int64_t{last}}) == reshape_to(ids, column);
  const Tensor classes = a.emit(kExtent, {}, {type, shape.back()});
  Tensor target = where(hit, number_like(logits, 1 - smoothing), number_like(logits, 0));
  if (smoothing != 0) target = target + smoothing / classes;
  a.give(0, (softmax(logits, last) - target) * rows);
}

// The same places stay.
void dropout_rule(Adjoint& a) { a.give(0, a.emit(kDropout, {a.g(), a.x(1), a.x(2)}, a.attrs())); }
void triangle_rule(Adjoint& a) { a.give(0, a.emit(kTriangle, {a.g()}, a.attrs())); }
// Turned back by the same angles.
void rope_rule(Adjoint& a) {
  if (a.wants(1) || a.wants(2)) return decomposed_rule(a);
  a.give(0, a.emit(kRope, {a.g(), a.x(1), -a.x(2)}, a.attrs()));
}

}  // namespace

void add_layer_rules(GradientTable& table) {
  table.rule(kCrossEntropy, cross_entropy_rule);
  table.rule(kDropout, dropout_rule);
  table.rule(kTriangle, triangle_rule);
  table.rule(kRope, rope_rule);
  table.all(GradientKind::kNone, {kQuantise});
  table.all(GradientKind::kDecompose, {kEmbeddingBag, kAttention, kPagedAttention, kInteraction, kDequantise, kSgdStep,
                                       kMomentumStep, kAdamStep, kAdagradStep, kLambStep});
}

}  // namespace kiln::graph
