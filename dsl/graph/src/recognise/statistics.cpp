// Mean, variance, softmax, and what is made of them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kiln/graph/extents.h"
#include "recognise/matching.h"

namespace kiln::graph::recognition {
namespace {

using enum TensorOp;
using Rows = Matching::Rows;

Expr size_along(const Matching& m, ValueId x, const std::vector<int64_t>& axes) {
  Expr out(1);
  for (const int64_t axis : axes) out = out * m.shape(x)[static_cast<size_t>(axis)];
  return out;
}

// What a value is over: of a division the divisor, of a product with a number its inverse.
struct Quotient {
  ValueId dividend = kNoValue, divisor = kNoValue;
  std::optional<double> inverse;
};

std::vector<Quotient> quotients(const Matching& m, ValueId root) {
  if (m.is(root, kDiv)) return {{m.operand(root, 0), m.operand(root, 1), {}}};
  std::vector<Quotient> out;
  for (size_t i = 0; m.is(root, kMul) && i < 2; ++i) {
    const ValueId factor = m.operand(root, i), other = m.operand(root, 1 - i);
    if (const auto number = m.number(factor)) out.push_back({other, kNoValue, number});
    if (const ValueId divisor = m.reciprocal_of(factor); divisor != kNoValue) out.push_back({other, divisor, {}});
  }
  return out;
}

// Whether a quotient is over a count, less a correction.
bool is_over(const Matching& m, const Quotient& quotient, const Expr& count, ElementType type) {
  if (const auto known = count.as_constant(); known && *known > 0) {
    const auto wanted = static_cast<double>(*known);
    return quotient.inverse ? m.near(*quotient.inverse, 1 / wanted, type)
                            : quotient.divisor != kNoValue && m.near(quotient.divisor, wanted);
  }
  const auto divisor = quotient.divisor == kNoValue ? std::nullopt : m.expression(quotient.divisor);
  return divisor && m.same_extent(*divisor, count);
}

// A sum as it stands, or reshaped to the shape that it has with its axes kept.
struct Sum {
  ValueId of = kNoValue;
  std::vector<int64_t> axes;
  bool keep = false;
};
std::optional<Sum> sum_of(const Matching& m, ValueId value) {
  const ValueId sum = m.is(value, kReshape) ? m.operand(value, 0) : value;
  if (!m.is(sum, kReduce) || enum_attr<ReduceKind>(m.attrs(sum), 0) != ReduceKind::kSum) return std::nullopt;
  Sum out{m.operand(sum, 0), ints_attr(m.attrs(sum), 1), flag_attr(m.attrs(sum), 2)};
  if (sum == value) return out;
  std::vector<Expr> kept = m.shape(out.of);
  for (const int64_t axis : out.axes) kept[static_cast<size_t>(axis)] = Expr(1);
  if (!m.same_extents(kept, m.shape(value))) return std::nullopt;
  out.keep = true;
  return out;
}

// x of (x - mean(x))², and the axes of the mean.
std::optional<Rows> distance_of(const Matching& m, ValueId squares) {
  const ValueId centered = m.square_of(squares);
  if (!m.is(centered, kSub)) return std::nullopt;
  const auto mean = m.rows(m.peel(m.operand(centered, 1)), kMean);
  if (!mean || mean->of != m.operand(centered, 0)) return std::nullopt;
  return mean;
}

bool same_axes(std::vector<int64_t> a, std::vector<int64_t> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

// Of x - max(x): x and the axes.
std::optional<Rows> shifted(const Matching& m, ValueId value) {
  if (!m.is(value, kSub)) return std::nullopt;
  const auto most = m.rows(m.peel(m.operand(value, 1)), kReduce, ReduceKind::kMax);
  if (!most || most->of != m.operand(value, 0)) return std::nullopt;
  return most;
}

// The value whose row sums, each row seeing its own, these are: along the axes.
ValueId summed(const Matching& m, const Seen& seen, const std::vector<int64_t>& axes) {
  const auto sum = m.rows(seen, kReduce, ReduceKind::kSum);
  return sum && same_axes(sum->axes, axes) ? sum->of : kNoValue;
}

// max(x), 0 where it is infinite: x and its axes. From the frame of x.
std::optional<Rows> finite_max(const Matching& m, const Seen& seen) {
  if (!m.is(seen.value, kSelect) || !m.is_number(m.operand(seen.value, 1), 0)) return std::nullopt;
  const Seen most = m.peel(seen, 2), test = m.peel(seen, 0);
  const auto rows = m.rows(most, kReduce, ReduceKind::kMax);
  if (!rows) return std::nullopt;
  const ValueId infinite = test.value;
  if (m.is(infinite, kIsinf)) return m.peel(test, 0).value == most.value ? rows : std::nullopt;
  // |max| = ∞
  if (!m.is(infinite, kCmp) || enum_attr<Predicate>(m.attrs(infinite), 0) != Predicate::kEq) return std::nullopt;
  const ValueId magnitude = m.peel(test, 0).value;
  const bool fits = m.is(magnitude, kAbs) && m.plain(m.operand(magnitude, 0)) == most.value &&
                    m.is_number(m.operand(infinite, 1), INFINITY);
  return fits ? rows : std::nullopt;
}

}  // namespace

ValueId find_mean(Matching& m, ValueId root) {
  for (const Quotient& quotient : quotients(m, root)) {
    const auto sum = sum_of(m, quotient.dividend);
    if (!sum || !dsl::is_float(m.type(root).element)) continue;
    if (!is_over(m, quotient, size_along(m, sum->of, sum->axes), m.type(root).element)) continue;
    return m.emit(kMean, {sum->of}, {sum->axes, int64_t{sum->keep}});
  }
  return kNoValue;
}

// mean((x - mean(x))²), or its sum over the count less one. (mean(x²) - mean(x)² cancels, and is another number.)
ValueId find_variance(Matching& m, ValueId root) {
  if (m.is(root, kMean)) {
    const std::vector<int64_t> axes = ints_attr(m.attrs(root), 0);
    const auto from = distance_of(m, m.operand(root, 0));
    if (!from || !same_axes(from->axes, axes)) return kNoValue;
    return m.emit(kVariance, {from->of}, {axes, int64_t{0}, int64_t{flag_attr(m.attrs(root), 1)}});
  }
  for (const Quotient& quotient : quotients(m, root)) {
    const auto sum = sum_of(m, quotient.dividend);
    const auto from = sum ? distance_of(m, sum->of) : std::nullopt;
    if (!from || !same_axes(from->axes, sum->axes)) continue;
    if (!is_over(m, quotient, size_along(m, from->of, sum->axes) - Expr(1), m.type(root).element)) continue;
    return m.emit(kVariance, {from->of}, {sum->axes, int64_t{1}, int64_t{sum->keep}});
  }
  return kNoValue;
}

// log(sum(e^(x - max))) + max, where an infinite max counts as 0: without that, rows of -inf were NaN.
ValueId find_logsumexp(Matching& m, ValueId root) {
  for (size_t i = 0; i < 2; ++i) {
    const Seen log = m.peel(m.operand(root, i)), top = m.peel(m.operand(root, 1 - i));
    if (!m.is(log.value, kLog)) continue;
    const Seen sum = m.peel(log, 0);
    if (!m.is(sum.value, kReduce)) continue;
    const ValueId raised = m.operand(sum.value, 0);
    const ValueId below = m.is(raised, kExp) ? m.operand(raised, 0) : kNoValue;
    if (!m.is(below, kSub)) continue;
    const Seen shift = m.peel(m.operand(below, 1));
    const auto most = finite_max(m, shift);
    const ValueId x = m.operand(below, 0);
    if (!most || most->of != x || top.value != shift.value) continue;
    const auto total = sum_of(m, sum.value);
    if (!total || !same_axes(total->axes, most->axes)) continue;
    // The sum has the axes with extent 1, or not; the result has the shape of the root.
    const bool keep = m.rank(root) == m.rank(x);
    const ValueId y = m.emit(kLogsumexp, {x}, {most->axes, int64_t{keep}});
    return y != kNoValue && m.same_extents(m.shape(y), m.shape(root)) ? y : kNoValue;
  }
  return kNoValue;
}

// e^(x - max) over its sum. (Without the max it is another function: e^x overflows.)
ValueId find_softmax(Matching& m, ValueId root) {
  for (const Quotient& quotient : quotients(m, root)) {
    if (!m.is(quotient.dividend, kExp) || quotient.divisor == kNoValue) continue;
    const auto most = shifted(m, m.operand(quotient.dividend, 0));
    if (!most || most->axes.size() != 1) continue;
    if (summed(m, m.peel(quotient.divisor), most->axes) != quotient.dividend) continue;
    return m.emit(kSoftmax, {most->of}, {most->axes[0]});
  }
  // The reciprocal may be of the sums, before they are repeated.
  for (size_t i = 0; m.is(root, kMul) && i < 2; ++i) {
    const ValueId raised = m.operand(root, i);
    const auto most = m.is(raised, kExp) ? shifted(m, m.operand(raised, 0)) : std::nullopt;
    const Seen factor = m.peel(m.operand(root, 1 - i));
    if (!most || most->axes.size() != 1 || m.reciprocal_of(factor.value) == kNoValue) continue;
    const size_t divisor = m.is(factor.value, kDiv) ? 1 : 0;
    if (summed(m, m.peel(factor, divisor), most->axes) != raised) continue;
    return m.emit(kSoftmax, {most->of}, {most->axes[0]});
  }
  return kNoValue;
}

// (x - max) - log(sum(e^(x - max))). (log(softmax(x)) is -inf where that underflows, and stays.)
ValueId find_log_softmax(Matching& m, ValueId root) {
  const ValueId below = m.operand(root, 0);
  const auto most = shifted(m, below);
  const Seen log = m.peel(m.operand(root, 1));
  if (!most || most->axes.size() != 1 || !m.is(log.value, kLog)) return kNoValue;
  const ValueId raised = summed(m, m.peel(log, 0), most->axes);
  if (!m.is(raised, kExp) || m.operand(raised, 0) != below) return kNoValue;
  return m.emit(kLogSoftmax, {most->of}, {most->axes[0]});
}

namespace {

constexpr int64_t kNothing = std::numeric_limits<int64_t>::min();  // ignored: no target is it

// The condition that targets count, or the number that does not: targets ≠ ignored.
struct Counts {
  ValueId targets = kNoValue;
  int64_t ignored = kNothing;
};
std::optional<Counts> counting(const Matching& m, ValueId condition) {
  const bool negated = m.is(condition, kNot);
  if (negated) condition = m.operand(condition, 0);
  const Predicate wanted = negated ? Predicate::kEq : Predicate::kNe;
  if (!m.is(condition, kCmp) || enum_attr<Predicate>(m.attrs(condition), 0) != wanted) return std::nullopt;
  const auto number = m.number(m.operand(condition, 1));
  if (!number) return std::nullopt;
  return Counts{m.operand(condition, 0), static_cast<int64_t>(*number)};
}

ValueId without_casts_of_ints(const Matching& m, ValueId value) {
  while (m.is(value, kCast) && dsl::is_int(m.type(value).element) && dsl::is_int(m.type(m.operand(value, 0)).element) &&
         dsl::info(m.type(value).element).bits >= dsl::info(m.type(m.operand(value, 0)).element).bits &&
         m.type(m.operand(value, 0)).element != ElementType::kU64) {
    value = m.operand(value, 0);
  }
  return value;
}

// -log_softmax(logits)[target], with the classes behind the rows: not ignoring, or of targets made safe.
struct Picked {
  ValueId logits = kNoValue, classes = kNoValue;
};
std::optional<Picked> picked(const Matching& m, ValueId value) {
  bool negated = false;
  while (true) {
    if (!negated && m.is(value, kNeg)) {
      negated = true;
    } else if (!m.is(value, kReshape)) {
      break;
    }
    value = m.operand(value, 0);
  }
  if (!negated || !m.is(value, kGather)) return std::nullopt;
  const ValueId scores = m.operand(value, 0);
  const ValueId places = m.operand(value, 1);
  const int64_t last = m.rank(scores) - 1;
  if (!m.is(scores, kLogSoftmax) || int_attr(m.attrs(scores), 0) != last || int_attr(m.attrs(value), 0) != last ||
      m.shape(places).back().as_constant() != 1) {
    return std::nullopt;
  }
  return Picked{m.operand(scores, 0), m.is(places, kReshape) ? m.operand(places, 0) : places};
}

// The losses of rows with a mean over classes of weight s beside them.
struct Losses {
  Picked picked;
  double smoothing = 0;
};
std::optional<Losses> losses(const Matching& m, ValueId value) {
  if (const auto plain = picked(m, value)) return Losses{*plain};
  if (!m.is(value, kSub) || !m.is(m.operand(value, 0), kMul) || !m.is(m.operand(value, 1), kMul)) return std::nullopt;
  const ValueId one = m.operand(value, 0), even = m.operand(value, 1);
  for (size_t i = 0; i < 4; ++i) {
    const auto keeps = m.number(m.operand(one, i % 2)), smooths = m.number(m.operand(even, i / 2));
    if (!keeps || !smooths) continue;
    const auto plain = picked(m, m.operand(one, 1 - i % 2));
    const ValueId mean = m.operand(even, 1 - i / 2);
    if (!plain || !m.is(mean, kMean) || !m.near(*keeps, 1 - *smooths, m.type(value).element)) continue;
    const ValueId scores = m.operand(mean, 0);
    const bool fits = m.is(scores, kLogSoftmax) && m.operand(scores, 0) == plain->logits &&
                      ints_attr(m.attrs(mean), 0) == std::vector<int64_t>{m.rank(scores) - 1};
    if (fits) return Losses{*plain, *smooths};
  }
  return std::nullopt;
}

ValueId emit_loss(Matching& m, ValueId logits, ValueId targets, LossReduction reduction, int64_t ignored, double s) {
  const std::vector<Expr> rows(m.shape(logits).begin(), m.shape(logits).end() - 1);
  const ValueId shaped = m.reshaped(targets, rows);
  if (shaped == kNoValue) return kNoValue;
  return m.emit(kCrossEntropy, {logits, shaped}, {static_cast<int64_t>(reduction), ignored, s});
}

// How many count, as a float: the sum of the condition under casts.
bool counts_the_same(const Matching& m, ValueId divisor, const Counts& counts) {
  divisor = m.plain(divisor);
  while (m.is(divisor, kCast)) divisor = m.operand(divisor, 0);
  ValueId each = divisor;
  if (m.rank(counts.targets) > 0) {
    if (!m.is(divisor, kReduce) || enum_attr<ReduceKind>(m.attrs(divisor), 0) != ReduceKind::kSum) return false;
    each = m.operand(divisor, 0);
    if (static_cast<int>(ints_attr(m.attrs(divisor), 1).size()) != m.rank(each)) return false;
  }
  while (m.is(each, kCast)) each = m.operand(each, 0);
  const auto own = counting(m, each);
  return own && own->ignored == counts.ignored &&
         without_casts_of_ints(m, own->targets) == without_casts_of_ints(m, counts.targets);
}

struct Loss {
  ValueId logits, targets;
  LossReduction reduction;
  int64_t ignored;
  double smoothing;
};
std::optional<Loss> loss_at(const Matching& m, ValueId value) {
  if (!m.is(value, kCrossEntropy)) return std::nullopt;
  const AttrList& attrs = m.attrs(value);
  return Loss{m.operand(value, 0), m.operand(value, 1), enum_attr<LossReduction>(attrs, 0), int_attr(attrs, 1),
              float_attr(attrs, 2)};
}

// A reduction of all rows of losses that are not reduced.
ValueId find_whole_loss(Matching& m, ValueId root) {
  if (m.is(root, kReduce) || m.is(root, kMean)) {
    const bool mean = m.is(root, kMean);
    if (!mean && enum_attr<ReduceKind>(m.attrs(root), 0) != ReduceKind::kSum) return kNoValue;
    const auto loss = loss_at(m, m.operand(root, 0));
    // A mean counts rows that are ignored too.
    if (!loss || loss->reduction != LossReduction::kNone || m.rank(root) != 0) return kNoValue;
    if (mean && loss->ignored != kNothing) return kNoValue;
    return m.emit(
        kCrossEntropy, {loss->logits, loss->targets},
        {static_cast<int64_t>(mean ? LossReduction::kMean : LossReduction::kSum), loss->ignored, loss->smoothing});
  }
  const auto loss = loss_at(m, m.operand(root, 0));
  // The sum of one loss is it itself.
  const bool whole = loss && (loss->reduction == LossReduction::kSum || m.rank(loss->targets) == 0);
  if (!whole || loss->reduction == LossReduction::kMean) return kNoValue;
  if (!counts_the_same(m, m.operand(root, 1), {loss->targets, loss->ignored})) return kNoValue;
  return m.emit(kCrossEntropy, {loss->logits, loss->targets},
                {static_cast<int64_t>(LossReduction::kMean), loss->ignored, loss->smoothing});
}

}  // namespace

ValueId find_cross_entropy(Matching& m, ValueId root) {
  if (m.is(root, kReduce) || m.is(root, kMean) || m.is(root, kDiv)) return find_whole_loss(m, root);
  if (m.is(root, kSelect)) {
    // Rows that are ignored are 0, and read class 0.
    const auto counts = counting(m, m.operand(root, 0));
    const auto found = losses(m, m.operand(root, 1));
    if (!counts || !found || !m.is_number(m.operand(root, 2), 0)) return kNoValue;
    const ValueId safe = found->picked.classes;
    const bool fits = m.is(safe, kSelect) && m.operand(safe, 0) == m.operand(root, 0) &&
                      m.operand(safe, 1) == counts->targets && m.number(m.operand(safe, 2)).has_value();
    if (!fits) return kNoValue;
    return emit_loss(m, found->picked.logits, without_casts_of_ints(m, counts->targets), LossReduction::kNone,
                     counts->ignored, found->smoothing);
  }
  // Without a number that is ignored; what is made safe belongs to a `select` that comes.
  const auto found = losses(m, root);
  if (!found || m.is(found->picked.classes, kSelect)) return kNoValue;
  const ValueId y = emit_loss(m, found->picked.logits, without_casts_of_ints(m, found->picked.classes),
                              LossReduction::kNone, kNothing, found->smoothing);
  return y != kNoValue && m.same_extents(m.shape(y), m.shape(root)) ? y : kNoValue;
}

namespace {

// number·value
std::pair<double, ValueId> scaled(const Matching& m, ValueId value) {
  for (size_t i = 0; m.is(value, kMul) && i < 2; ++i) {
    if (const auto number = m.number(m.operand(value, i))) return {*number, m.operand(value, 1 - i)};
  }
  const auto divisor = m.is(value, kDiv) ? m.number(m.operand(value, 1)) : std::nullopt;
  return divisor && *divisor != 0 ? std::pair(1 / *divisor, m.operand(value, 0)) : std::pair(1.0, value);
}

// -Σ log_softmax(logits) over the classes of each row, 0 in rows that the loss ignores.
bool is_even_loss(const Matching& m, ValueId value, const Loss& loss) {
  if (!m.is(value, kSelect)) return false;
  ValueId condition = m.operand(value, 0), kept = m.operand(value, 1), zero = m.operand(value, 2);
  const bool ignores = m.is(condition, kCmp) && enum_attr<Predicate>(m.attrs(condition), 0) == Predicate::kEq;
  if (ignores) std::swap(kept, zero);
  const auto number = m.is(condition, kCmp) ? m.number(m.operand(condition, 1)) : std::nullopt;
  const auto own = ignores && number ? std::optional(Counts{m.operand(condition, 0), static_cast<int64_t>(*number)})
                                     : counting(m, condition);
  if (!own || own->ignored != loss.ignored || !m.is_number(zero, 0) || !m.is(kept, kNeg)) return false;
  if (without_casts_of_ints(m, own->targets) != without_casts_of_ints(m, loss.targets)) return false;
  const auto sum = sum_of(m, m.operand(kept, 0));
  const int64_t last = m.rank(loss.logits) - 1;
  return sum && !sum->keep && sum->axes == std::vector<int64_t>{last} && m.is(sum->of, kLogSoftmax) &&
         m.operand(sum->of, 0) == loss.logits && int_attr(m.attrs(sum->of), 0) == last;
}

// The same, reduced as the loss is.
bool is_even_part(const Matching& m, ValueId value, const Loss& loss) {
  if (loss.reduction == LossReduction::kNone) return is_even_loss(m, value, loss);
  if (loss.reduction == LossReduction::kMean) {
    if (!m.is(value, kDiv) || !counts_the_same(m, m.operand(value, 1), {loss.targets, loss.ignored})) return false;
    value = m.operand(value, 0);
  }
  const auto sum = sum_of(m, value);
  return sum && m.rank(value) == 0 && is_even_loss(m, sum->of, loss);
}

}  // namespace

// (1 - s)·loss + s/C·(the loss with each of C classes for a target), as PyTorch writes it: both reduced on their own.
ValueId find_smoothed(Matching& m, ValueId root) {
  for (size_t i = 0; i < 2; ++i) {
    const auto [keeps, one] = scaled(m, m.operand(root, i));
    const auto [smooths, even] = scaled(m, m.operand(root, 1 - i));
    const auto loss = loss_at(m, one);
    if (!loss || loss->smoothing != 0 || !is_even_part(m, even, *loss)) continue;
    const auto classes = m.shape(loss->logits).back().as_constant();
    if (!classes) continue;
    const double smoothing = smooths * static_cast<double>(*classes);
    if (!m.near(keeps, 1 - smoothing, m.type(root).element) || smoothing < 0 || smoothing > 1) continue;
    return m.emit(kCrossEntropy, {loss->logits, loss->targets},
                  {static_cast<int64_t>(loss->reduction), loss->ignored, smoothing});
  }
  return kNoValue;
}

}  // namespace kiln::graph::recognition
