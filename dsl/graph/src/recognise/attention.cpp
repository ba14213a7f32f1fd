// Attention: softmax(q·kᵀ·scale + mask)·v, with heads as axes of their own, merged with the batch, or in groups.
//
// The frame is the shape of the scores where softmax stands, […, M, N]. Products may have its axes in front merged
// into one, as a batched product of three axes has them.
#include <algorithm>
#include <array>
#include <cmath>

#include "recognise/masks.h"
#include "recognise/matching.h"

namespace kiln::graph::recognition {
namespace {

using enum TensorOp;

constexpr int kMostSteps = 8;  // from softmax to the product

// A dot with batch axes in front of both operands, which contracts one axis.
struct Contraction {
  ValueId a = kNoValue, b = kNoValue;
  size_t batch = 0;
  int64_t contract_a = 0, contract_b = 0;
};

std::optional<Contraction> contraction(const Matching& m, ValueId value) {
  if (!m.is(value, kDot)) return std::nullopt;
  const AttrList& attrs = m.attrs(value);
  const auto &batch_a = ints_attr(attrs, 0), &batch_b = ints_attr(attrs, 1);
  const auto in_front = [](const std::vector<int64_t>& axes) {
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] != static_cast<int64_t>(i)) return false;
    }
    return true;
  };
  if (!in_front(batch_a) || !in_front(batch_b) || ints_attr(attrs, 2).size() != 1 || int_attr(attrs, 5) != 0) {
    return std::nullopt;
  }
  return Contraction{m.operand(value, 0), m.operand(value, 1), batch_a.size(), ints_attr(attrs, 2)[0],
                     ints_attr(attrs, 3)[0]};
}

// Below reshapes that only merge or part axes in front of the last two.
ValueId below_merges(const Matching& m, ValueId value) {
  while (m.is(value, kReshape)) {
    const ValueId from = m.operand(value, 0);
    const std::span<const Expr> inner = m.shape(from), outer = m.shape(value);
    if (inner.size() < 2 || outer.size() < 2 || !m.same_extents(inner.last(2), outer.last(2))) break;
    value = from;
  }
  return value;
}

// The scores of weights: softmax of them along the last axis, 0 in rows that are all -inf, or not.
ValueId softmaxed(const Matching& m, ValueId weights) {
  const int64_t last = m.rank(weights) - 1;
  if (m.is(weights, kSoftmax)) return int_attr(m.attrs(weights), 0) == last ? m.operand(weights, 0) : kNoValue;
  if (m.is(weights, kSelect) && m.is_number(m.operand(weights, 1), 0)) {
    // 0 where all of a row is -inf.
    const ValueId scores = softmaxed(m, m.operand(weights, 2));
    const auto every = m.rows(m.peel(m.operand(weights, 0)), kReduce, ReduceKind::kAnd);
    if (scores == kNoValue || !every || every->axes != std::vector<int64_t>{last} || !m.is(every->of, kCmp))
      return kNoValue;
    const bool fits = enum_attr<Predicate>(m.attrs(every->of), 0) == Predicate::kEq &&
                      m.operand(every->of, 0) == scores && m.is_number(m.operand(every->of, 1), -INFINITY);
    return fits ? scores : kNoValue;
  }
  // e / where(sum(e) = 0, 1, sum(e)) of e = exp(s - where(max(s) = -inf, 0, max(s)))
  const ValueId raised = m.is(weights, kDiv) ? m.operand(weights, 0) : kNoValue;
  const ValueId below = m.is(raised, kExp) ? m.operand(raised, 0) : kNoValue;
  if (!m.is(below, kSub)) return kNoValue;
  const ValueId scores = m.operand(below, 0);
  const auto guarded = [&](ValueId value, double wanted, double instead, ReduceKind kind, ValueId of) {
    const Seen choice = m.peel(value);
    if (!m.is(choice.value, kSelect) || !m.is_number(m.operand(choice.value, 1), instead)) return false;
    const Seen rows = m.peel(choice, 2), test = m.peel(choice, 0);
    const auto found = m.rows(rows, kReduce, kind);
    if (!found || found->of != of || found->axes != std::vector<int64_t>{last} || !m.is(test.value, kCmp)) return false;
    return enum_attr<Predicate>(m.attrs(test.value), 0) == Predicate::kEq &&
           m.plain(m.operand(test.value, 0)) == rows.value && m.is_number(m.operand(test.value, 1), wanted);
  };
  const bool fits = guarded(m.operand(below, 1), -INFINITY, 0, ReduceKind::kMax, scores) &&
                    guarded(m.operand(weights, 1), 0, 1, ReduceKind::kSum, raised);
  return fits ? scores : kNoValue;
}

// What stands between softmax and the product of q and k.
struct Scores {
  ValueId product = kNoValue;
  double scale = 1;
  std::optional<Expr> root_of;  // scaled by 1/sqrt of it
  Masks masks;
};

// 1/sqrt(extent), by which scores are multiplied, or its inverse, by which they are divided.
std::optional<Expr> inverse_root(const Matching& m, ValueId factor, bool divides) {
  const ValueId below = m.plain(factor);
  if (!divides && m.is(below, kRsqrt)) return m.expression(m.operand(below, 0));
  return divides && m.is(below, kSqrt) ? m.expression(m.operand(below, 0)) : std::nullopt;
}

// A scale on top of a value: what is below. The value itself where there is none.
ValueId unscaled(const Matching& m, ValueId value, Scores& out) {
  for (size_t i = 0; m.is(value, kMul) && i < 2; ++i) {
    const ValueId factor = m.operand(value, i), other = m.operand(value, 1 - i);
    if (const auto number = m.number(factor)) {
      out.scale *= *number;
      return other;
    }
    if (auto extent = out.root_of ? std::nullopt : inverse_root(m, factor, false)) {
      out.root_of = std::move(extent);
      return other;
    }
  }
  if (!m.is(value, kDiv)) return value;
  if (const auto number = m.number(m.operand(value, 1)); number && *number != 0) {
    out.scale /= *number;
    return m.operand(value, 0);
  }
  auto extent = out.root_of ? std::nullopt : inverse_root(m, m.operand(value, 1), true);
  if (!extent) return value;
  out.root_of = std::move(extent);
  return m.operand(value, 0);
}

// Follows scores down to their product. Masks stand above the scale: one below it would be scaled itself.
bool follow(const Matching& m, ValueId value, int steps, Scores& out) {
  if (steps == 0 || value == kNoValue) return false;
  if (m.is(value, kDot)) {
    out.product = value;
    return true;
  }
  if (m.is(value, kReshape)) {
    const ValueId below = below_merges(m, value);
    return below != value && follow(m, below, steps - 1, out);
  }
  const bool scaled = out.scale != 1 || out.root_of;
  if (m.is(value, kSelect) && !scaled) {
    for (const size_t kept : {size_t{1}, size_t{2}}) {
      const ValueId beyond = m.operand(value, 3 - kept);
      if (!hides(m, beyond)) continue;
      out.masks.conditions.push_back({m.operand(value, 0), kept == 2, *m.number(beyond)});
      return follow(m, m.operand(value, kept), steps - 1, out);
    }
    return false;
  }
  if (m.is(value, kAdd) && !scaled) {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      Scores attempt = out;
      attempt.masks.added.push_back(m.operand(value, 1 - i));
      if (!follow(m, m.operand(value, i), steps - 1, attempt)) continue;
      out = std::move(attempt);
      return true;
    }
    return false;
  }
  const ValueId below = unscaled(m, value, out);
  return below != value && follow(m, below, steps - 1, out);
}

// The form of q, k, v: [B, H, M, D], [B, G, N, D], [B, G, N, E].
struct Heads {
  Expr batch{1}, heads{1}, groups{1};
};

// From the frame, and whether k has an axis in front for each of it, or all but the last of them.
std::optional<Heads> heads_of(const Matching& m, std::span<const Expr> frame, const Contraction& product, ValueId dot) {
  const size_t lead = frame.size() - 2;
  const std::span<const Expr> own = m.shape(dot);
  const bool merged = own.size() != frame.size();
  if (merged && (product.batch != 1 || own.size() != 3)) return std::nullopt;
  const size_t apart = merged ? lead : product.batch;
  if (apart != lead && apart + 1 != lead) return std::nullopt;
  const bool shared = apart + 1 == lead;  // the last axis in front is of q alone
  switch (lead) {
    case 0:
      return Heads{};
    case 1:
      return shared ? Heads{Expr(1), frame[0], Expr(1)} : Heads{frame[0], Expr(1), Expr(1)};
    case 2:
      return Heads{frame[0], frame[1], shared ? Expr(1) : frame[1]};
    case 3: {
      const Expr heads = frame[1] * frame[2];
      return Heads{frame[0], heads, shared ? frame[1] : heads};
    }
    default:
      return std::nullopt;
  }
}

// An operand of a product with its last two axes as [place, inner], and [B, heads] in front.
ValueId by_heads(Matching& m, ValueId value, const Expr& batch, const Expr& heads, bool turned) {
  const std::vector<Expr>& shape = m.shape(value);
  if (shape.size() < 2) return kNoValue;
  const ValueId parted = m.reshaped(value, {batch, heads, shape[shape.size() - 2], shape.back()});
  return turned ? m.permuted(parted, {0, 1, 3, 2}) : parted;
}

// The tensor [B, G, N, D] that [B, H, N, D] repeats for each head of a group.
ValueId before_repeat(const Matching& m, ValueId value) {
  const ValueId repeated = m.is(value, kReshape) ? m.operand(value, 0) : kNoValue;
  if (!m.is(repeated, kBroadcast) || m.rank(repeated) != 5) return kNoValue;
  const Seen seen = m.peel(repeated);
  if (seen.axes != std::vector<int>{0, 1, -1, 2, 3} || m.rank(seen.value) != 4) return kNoValue;
  return seen.value;
}

struct Inputs {
  ValueId q = kNoValue, k = kNoValue, v = kNoValue;
  bool whole() const { return q != kNoValue && k != kNoValue && v != kNoValue; }
};

Inputs inputs_of(Matching& m, const Heads& heads, const Contraction& first, const Contraction& second, Scores& scores) {
  Inputs out;
  const auto turned = [&](ValueId value, int64_t inner) { return inner != m.rank(value) - 1; };
  out.q = by_heads(m, unscaled(m, first.a, scores), heads.batch, heads.heads, turned(first.a, first.contract_a));
  if (out.q == kNoValue) return {};
  out.q = unscaled(m, out.q, scores);
  const ValueId k = by_heads(m, unscaled(m, first.b, scores), heads.batch, heads.groups, false);
  if (k == kNoValue) return {};
  const ValueId unscaled_k = unscaled(m, k, scores);
  out.k = turned(first.b, first.contract_b) ? m.permuted(unscaled_k, {0, 1, 3, 2}) : unscaled_k;
  if (out.k == kNoValue || out.q == kNoValue) return {};
  out.k = unscaled(m, out.k, scores);
  // v is contracted over its places, the last axis but one.
  out.v = by_heads(m, second.b, heads.batch, heads.groups, second.contract_b == m.rank(second.b) - 1);
  const ValueId k_once = before_repeat(m, out.k), v_once = before_repeat(m, out.v);
  if (k_once != kNoValue && v_once != kNoValue && m.same_extent(m.shape(k_once)[1], m.shape(v_once)[1])) {
    out.k = k_once;
    out.v = v_once;
  }
  return out;
}

// The scale as the attribute has it: 0 for 1/sqrt(D).
std::optional<double> scale_of(const Matching& m, const Scores& scores, const Expr& width) {
  if (scores.root_of) {
    return scores.scale == 1 && m.same_extent(*scores.root_of, width) ? std::optional(0.0) : std::nullopt;
  }
  const auto known = width.as_constant();
  if (known && m.near(scores.scale, 1 / std::sqrt(static_cast<double>(*known)), ElementType::kF32)) return 0.0;
  if (!std::isfinite(scores.scale) || scores.scale == 0) return std::nullopt;
  return scores.scale;
}

}  // namespace

ValueId find_attention(Matching& m, ValueId root) {
  const auto second = contraction(m, root);
  if (!second || second->contract_a != m.rank(second->a) - 1) return kNoValue;
  const ValueId weights = below_merges(m, second->a);
  Scores scores;
  const ValueId top = softmaxed(m, weights);
  if (!follow(m, top, kMostSteps, scores)) return kNoValue;
  const std::vector<Expr> frame = m.shape(weights);
  const auto first = contraction(m, scores.product);
  if (!first || frame.size() < 2 ||
      !m.same_extents(std::span(m.shape(scores.product)).last(2), std::span(frame).last(2))) {
    return kNoValue;
  }
  // Both products have heads in one form.
  const std::vector<Expr> wide = m.shape(second->a);
  const auto heads = heads_of(m, frame, *first, scores.product);
  const auto other = heads_of(m, frame, *second, root);
  if (!heads || !other || wide.size() != m.shape(root).size() || !m.same_extent(heads->groups, other->groups))
    return kNoValue;
  const Inputs inputs = inputs_of(m, *heads, *first, *second, scores);
  if (!inputs.whole()) return kNoValue;
  const auto scale = scale_of(m, scores, m.shape(inputs.q).back());
  const auto mask = mask_of(m, scores.masks, {m.type(top).element, frame}, {heads->batch, heads->heads});
  if (!scale || !mask) return kNoValue;
  // Products of small floats may be in f32 before anything is rounded.
  const ElementType type = m.type(root).element;
  std::array<ValueId, 3> operands = {inputs.q, inputs.k, inputs.v};
  for (ValueId& operand : operands) {
    if (m.type(operand).element != type) operand = m.emit(kCast, {operand}, {type});
  }
  const ValueId y = m.emit(kAttention, {operands[0], operands[1], operands[2], mask->operand},
                           {int64_t{mask->causal}, mask->window, *scale});
  return y == kNoValue ? kNoValue : m.reshaped(y, std::vector<Expr>(m.shape(root)));
}

}  // namespace kiln::graph::recognition
