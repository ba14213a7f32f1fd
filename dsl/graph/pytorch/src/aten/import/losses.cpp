// Losses.
#include <cmath>
#include <numbers>

#include "aten/import/functions.h"

namespace kiln::graph::aten {
namespace {

// None, the mean or the sum of each element's loss; of x's type.
Tensor settled(Arguments& a, const Tensor& each, const Tensor& x) {
  const int64_t reduction = a.integer("reduction", 1);
  if (reduction < 0 || reduction > 2) a.fail("`reduction` is 0, 1 or 2");
  if (!a.ok()) return {};
  if (reduction == 0 || each.rank() == 0) return like(each, x);
  return like(reduction == 1 ? mean(each) : sum(each), x);
}

Results mean_square(Arguments& a) {
  const Tensor x = a.tensor("self"), target = a.tensor("target");
  if (!a.ok()) return {};
  const Tensor d = wide(x) - wide(target);
  return {settled(a, d * d, x)};
}

Results mean_magnitude(Arguments& a) {
  const Tensor x = a.tensor("self"), target = a.tensor("target");
  if (!a.ok()) return {};
  return {settled(a, abs(wide(x) - wide(target)), x)};
}

// Squares near 0, magnitudes beyond: huber_loss has them times delta.
Results smooth(Arguments& a) {
  const Tensor x = a.tensor("self"), target = a.tensor("target");
  const bool huber = a.base() == "huber_loss";
  const double bound = a.real(huber ? "delta" : "beta", 1);
  if (!a.ok()) return {};
  const Tensor d = abs(wide(x) - wide(target));
  if (bound == 0) return {settled(a, huber ? d * 0 : d, x)};
  const Tensor near = huber ? d * d * 0.5 : d * d * (0.5 / bound);
  const Tensor far = huber ? bound * (d - 0.5 * bound) : d - 0.5 * bound;
  return {settled(a, where(huber ? d <= bound : d < bound, near, far), x)};
}

Results soft_margin(Arguments& a) {
  const Tensor x = a.tensor("self"), target = a.tensor("target");
  return {a.ok() ? settled(a, softplus(-wide(x) * wide(target)), x) : Tensor()};
}

Operand if_there(const Operand& x) { return x.present() ? Operand(wide(x.tensor())) : x; }

Results binary_cross_entropy(Arguments& a) {
  const Tensor x = a.tensor("self"), target = a.tensor("target");
  const Operand weight = if_there(a.optional("weight"));
  if (!a.ok()) return {};
  const Tensor p = wide(x), t = wide(target);
  // Logarithms are -100 at least, as PyTorch has them.
  const Tensor each = (t - 1) * max(log1p(-p), -100) - t * max(log(p), -100);
  return {settled(a, weight.present() ? each * weight : each, x)};
}

Results binary_cross_entropy_of_logits(Arguments& a) {
  const Tensor given = a.tensor("self"), target = a.tensor("target");
  const Operand weight = if_there(a.optional("weight")), positive = if_there(a.optional("pos_weight"));
  if (!a.ok()) return {};
  const Tensor x = wide(given), t = wide(target);
  Tensor each;
  if (positive.present()) {
    const Tensor factor = 1 + (positive - 1) * t;
    each = (1 - t) * x + factor * (max(-x, 0) + log1p(exp(-abs(x))));
  } else {
    each = (max(x, 0) + log1p(exp(-abs(x)))) - x * t;
  }
  return {settled(a, weight.present() ? each * weight : each, given)};
}

Results divergence(Arguments& a) {
  const Tensor given = a.tensor("self"), target = wide(a.tensor("target"));
  const bool in_logs = a.flag("log_target", false);
  if (!a.ok()) return {};
  const Tensor x = wide(given);
  const Tensor each = in_logs ? exp(target) * (target - x)
                              : where(isnan(target), target, where(target == 0, 0, target * log(target))) - target * x;
  return {settled(a, each, given)};
}

// --- classes ---

// [rows, classes] of what has classes on axis 1, or is one row.
struct Classes {
  Tensor x, target;  // [N, C], [N]
  Shape shape;       // of each row's loss
  Dim count;
};

Classes classes_of(Arguments& a, const Tensor& x, const Tensor& target) {
  Classes out{x, target, target.shape(), 1};
  if (a.ok() && x.rank() < 1) a.fail("a tensor without classes");
  if (!a.ok()) return out;
  const int axis = x.rank() == 1 ? 0 : 1;
  out.count = x.extent(axis);
  out.x = reshape(move_axis(x, axis, x.rank() - 1), {-1, out.count});
  out.target = reshape(target, {product(target.shape())});
  return out;
}

// What each row counts: the weight of its class, 0 of those to be ignored.
struct Rows {
  Tensor place;  // of the class, 0 where it is ignored
  Tensor counts;
};
Rows rows_of(const Classes& by, const Operand& weight, int64_t ignore, ElementType type) {
  const Tensor seen = by.target != ignore;
  Rows out{where(seen, by.target, 0), {}};
  const Operand one = weight.present() ? Operand(index(as(weight.tensor(), type), {out.place}, {0}))
                                       : Operand(full(out.place.shape(), 1, type));
  out.counts = where(seen, one, 0);
  return out;
}

// The loss, and the sum of what its rows count.
Results picked(Arguments& a, const Tensor& scores, const Tensor& x, const Tensor& target, const Operand& weight) {
  const int64_t reduction = a.integer("reduction", 1), ignore = a.integer("ignore_index", -100);
  if (reduction < 0 || reduction > 2) a.fail("`reduction` is 0, 1 or 2");
  const Classes by = classes_of(a, scores, target);
  if (!a.ok()) return {};
  const Rows rows = rows_of(by, weight, ignore, by.x.element());
  const Tensor chosen =
      reshape(gather(by.x, reshape(rows.place, inserted(rows.place.shape(), 1, 1)), 1), rows.place.shape());
  // Of rows that count nothing what the score is does not matter.
  const Tensor each = where(by.target != ignore, -(chosen * rows.counts), 0);
  if (reduction == 0) return {like(reshape(each, by.shape), x), full({}, 0, x.element())};
  const Tensor total = sum(each), count = sum(rows.counts);
  return {like(reduction == 1 ? total / count : total, x), like(count, x)};
}

Results negative_log_likelihood(Arguments& a) {
  const Tensor x = a.tensor("self"), target = a.tensor("target");
  const Operand weight = a.optional("weight");
  if (!a.ok()) return {};
  Results out = picked(a, wide(x), x, target, weight);
  if (a.base() == "nll_loss" || a.base() == "nll_loss_nd" || a.base() == "nll_loss2d") out.resize(1);
  return out;
}

// Of targets that are probabilities.
Results entropy_of_probabilities(Arguments& a, const Tensor& x, const Tensor& logs, int axis, double smoothing) {
  Tensor target = wide(a.tensor("target"));
  const int64_t reduction = a.integer("reduction", 1);
  const Operand weight = if_there(a.optional("weight"));
  if (!a.ok()) return {};
  const Dim classes = x.extent(axis);
  if (smoothing > 0) target = target * (1 - smoothing) + smoothing / extent(classes, target.element());
  Tensor each = logs * target;
  if (weight.present()) {
    Shape shape(static_cast<size_t>(x.rank() - axis), Dim(1));
    shape[0] = classes;
    each = each * reshape(weight, shape);
  }
  const Tensor rows = -sum(each, {axis});
  if (reduction == 0) return {like(rows, x)};
  const Tensor total = sum(rows);
  return {like(reduction == 1 ? total / extent(product(rows.shape()), total.element()) : total, x)};
}

Results cross_entropy_of(Arguments& a) {
  const Tensor x = a.tensor("self"), target = a.tensor("target");
  const Operand weight = a.optional("weight");
  const int64_t reduction = a.integer("reduction", 1), ignore = a.integer("ignore_index", -100);
  const double smoothing = a.real("label_smoothing", 0);
  if (reduction < 0 || reduction > 2) a.fail("`reduction` is 0, 1 or 2");
  if (a.ok() && x.rank() < 1) a.fail("a tensor without classes");
  if (!a.ok()) return {};
  const int axis = x.rank() == 1 ? 0 : 1;
  if (is_float(target)) return entropy_of_probabilities(a, x, log_softmax(wide(x), axis), axis, smoothing);
  if (!weight.present()) {
    const Tensor rows = move_axis(x, axis, x.rank() - 1);
    return {cross_entropy(rows, target, static_cast<LossReduction>(reduction), ignore, smoothing)};
  }
  const Tensor logs = log_softmax(wide(x), axis);
  if (smoothing == 0) {
    Results out = picked(a, logs, x, target, weight);
    out.resize(1);
    return out;
  }
  // (1 - s) of the class's and s / C of all classes' weighted logarithms.
  const Classes by = classes_of(a, logs, target);
  const Rows rows = rows_of(by, weight, ignore, by.x.element());
  const Tensor seen = by.target != ignore;
  const Tensor chosen =
      reshape(gather(by.x, reshape(rows.place, inserted(rows.place.shape(), 1, 1)), 1), rows.place.shape());
  const Tensor all = where(seen, -sum(by.x * as(weight.tensor(), by.x.element()), {1}), 0);
  const Tensor one = where(seen, -(chosen * rows.counts), 0);
  const Tensor each = (1 - smoothing) * one + smoothing / extent(by.count, one.element()) * all;
  if (reduction == 0) return {like(reshape(each, by.shape), x)};
  const Tensor total = sum(each);
  return {like(reduction == 1 ? total / sum(rows.counts) : total, x)};
}

// --- pairs ---

// max(0, margin - target·(x1 - x2)).
Results ranked(Arguments& a) {
  const Tensor x = a.tensor("input1"), y = a.tensor("input2"), target = a.tensor("target");
  const double margin = a.real("margin", 0);
  if (!a.ok()) return {};
  const Tensor each = max(margin - wide(target) * (wide(x) - wide(y)), 0);
  return {settled(a, each, as(x, as_real(common(Term(x), Term(y), Term(target)))))};
}

Results cosine_similarity_of(Arguments& a) {
  const Tensor x = a.tensor("x1"), y = a.tensor("x2");
  const double eps = a.real("eps", 1e-8);
  if (!a.ok()) return {};
  const ElementType type = common(Term(x), Term(y));
  const Shape shape = broadcast_shape(x.shape(), y.shape());
  const Tensor p = broadcast_to(wide(as(x, type)), shape), q = broadcast_to(wide(as(y, type)), shape);
  const int axis = a.axis("dim", p.rank(), 1);
  if (!a.ok()) return {};
  const Axes over = p.rank() == 0 ? Axes{} : Axes{axis};
  const auto length = [&](const Tensor& each) { return max(sqrt(sum(each * each, over, true)), eps); };
  return {as(sum((p / length(p)) * (q / length(q)), over), type)};
}

constexpr Function kLossFunctions[] = {
    {"binary_cross_entropy", binary_cross_entropy},
    {"binary_cross_entropy_with_logits", binary_cross_entropy_of_logits},
    {"cosine_similarity", cosine_similarity_of},
    {"cross_entropy_loss", cross_entropy_of},
    {"huber_loss", smooth},
    {"kl_div", divergence},
    {"l1_loss", mean_magnitude},
    {"margin_ranking_loss", ranked},
    {"mse_loss", mean_square},
    {"nll_loss", negative_log_likelihood},
    {"nll_loss2d", negative_log_likelihood},
    {"nll_loss2d_forward", negative_log_likelihood},
    {"nll_loss_forward", negative_log_likelihood},
    {"nll_loss_nd", negative_log_likelihood},
    {"smooth_l1_loss", smooth},
    {"soft_margin_loss", soft_margin},
};

}  // namespace

std::span<const Function> loss_functions() { return kLossFunctions; }

}  // namespace kiln::graph::aten
