// Sigmoid, silu, gelu.
#include <array>
#include <cmath>
#include <numbers>

#include "recognise/matching.h"

namespace kiln::graph::recognition {
namespace {

using enum TensorOp;

// x of 1 + e^-x. (Without the minus, or as e^x / (1 + e^x), it would be infinite where sigmoid is 1.)
ValueId of_one_plus_exp_minus(const Matching& m, ValueId sum) {
  const ValueId raised = m.other_than_number(sum, kAdd, 1);
  if (!m.is(raised, kExp)) return kNoValue;
  const ValueId exponent = m.operand(raised, 0);
  if (m.is(exponent, kNeg)) return m.operand(exponent, 0);
  if (m.is(exponent, kSub) && m.is_number(m.operand(exponent, 0), 0)) return m.operand(exponent, 1);
  return m.other_than_number(exponent, kMul, -1);
}

// x of where(x < 0, -x, x).
ValueId of_magnitude(const Matching& m, ValueId value) {
  if (m.is(value, kAbs)) return m.operand(value, 0);
  const ValueId x = m.is(value, kSelect) ? m.operand(value, 2) : kNoValue;
  const ValueId test = x == kNoValue ? kNoValue : m.operand(value, 0), other = x == kNoValue ? x : m.operand(value, 1);
  const bool fits = m.is(test, kCmp) && enum_attr<Predicate>(m.attrs(test), 0) == Predicate::kLt &&
                    m.operand(test, 0) == x && m.is_number(m.operand(test, 1), 0) && m.is(other, kNeg) &&
                    m.operand(other, 0) == x;
  return fits ? x : kNoValue;
}

// x of where(x < 0, e, 1) / (1 + e), e = e^-|x|.
ValueId of_two_branches(const Matching& m, ValueId value) {
  const ValueId choice = m.is(value, kDiv) ? m.operand(value, 0) : kNoValue;
  if (!m.is(choice, kSelect)) return kNoValue;
  const ValueId e = m.operand(choice, 1), test = m.operand(choice, 0);
  if (m.other_than_number(m.operand(value, 1), kAdd, 1) != e || !m.is(e, kExp) || !m.is(m.operand(e, 0), kNeg)) {
    return kNoValue;
  }
  const ValueId x = of_magnitude(m, m.operand(m.operand(e, 0), 0));
  const bool fits = x != kNoValue && m.is_number(m.operand(choice, 2), 1) && m.is(test, kCmp) &&
                    enum_attr<Predicate>(m.attrs(test), 0) == Predicate::kLt && m.operand(test, 0) == x &&
                    m.is_number(m.operand(test, 1), 0);
  return fits ? x : kNoValue;
}

// A factor of a product, at most three multiplications below, for which `wanted` gives a value.
template <class Wanted>
ValueId factor_of(const Matching& m, ValueId product, const Wanted& wanted, int depth = 3) {
  if (wanted(product)) return product;
  if (depth == 0) return kNoValue;
  if (m.is(product, kDiv)) return factor_of(m, m.operand(product, 0), wanted, depth - 1);
  if (!m.is(product, kMul)) return kNoValue;
  const ValueId left = factor_of(m, m.operand(product, 0), wanted, depth - 1);
  return left != kNoValue ? left : factor_of(m, m.operand(product, 1), wanted, depth - 1);
}

// coefficient · one · other, and nothing else.
bool is_product(const Matching& m, ValueId value, double coefficient, ValueId one, ValueId other) {
  const Product found = m.product(value, std::array{one, other});
  const Product wanted{coefficient, {std::min(one, other), std::max(one, other)}};
  return found.factors == wanted.factors && m.near(found.coefficient, coefficient, m.type(value).element);
}

// x of c·x, where the sign may be x's.
ValueId scaled_by(const Matching& m, ValueId value, double c) {
  if (m.is(value, kNeg)) return scaled_by(m, m.operand(value, 0), -c);
  for (size_t i = 0; i < 2; ++i) {
    if (!m.is(value, kMul) && !(m.is(value, kDiv) && i == 1)) continue;
    const double factor = m.is(value, kMul) ? c : 1 / c;
    const ValueId other = m.operand(value, 1 - i);
    if (m.near(m.operand(value, i), factor)) return other;
    if (m.near(m.operand(value, i), -factor) && m.is(other, kNeg)) return m.operand(other, 0);
  }
  return kNoValue;
}

// x·(1 + erf(x/√2))/2 and x·erfc(-x/√2)/2.
ValueId find_gelu_erf(Matching& m, ValueId root) {
  const ValueId one_plus = factor_of(m, root, [&](ValueId v) { return m.is(m.other_than_number(v, kAdd, 1), kErf); });
  if (one_plus != kNoValue) {
    const ValueId erf = m.other_than_number(one_plus, kAdd, 1);
    const ValueId x = scaled_by(m, m.operand(erf, 0), std::numbers::sqrt2 / 2);
    if (x != kNoValue && is_product(m, root, 0.5, x, one_plus)) return x;
  }
  const ValueId erfc = factor_of(m, root, [&](ValueId v) { return m.is(v, kErfc); });
  if (erfc == kNoValue) return kNoValue;
  const ValueId x = scaled_by(m, m.operand(erfc, 0), -std::numbers::sqrt2 / 2);
  return x != kNoValue && is_product(m, root, 0.5, x, erfc) ? x : kNoValue;
}

constexpr double kCubic = 0.044715;

// x of min(x, a number that makes no difference to tanh).
ValueId below_bound(const Matching& m, ValueId value) {
  for (size_t i = 0; m.is(value, kMin) && i < 2; ++i) {
    const auto bound = m.number(m.operand(value, i));
    if (bound && *bound >= 1e4) return m.operand(value, 1 - i);
  }
  return value;
}

// x of √(2/π)·(x + 0.044715·x³), or of √(2/π)·x·(1 + 0.044715·x²).
ValueId of_tanh_argument(const Matching& m, ValueId value) {
  const double outer = std::sqrt(2 / std::numbers::pi);
  const ValueId sum = scaled_by(m, value, outer);
  for (size_t i = 0; m.is(sum, kAdd) && i < 2; ++i) {
    const ValueId x = m.operand(sum, i);
    const Product cube = m.product(m.operand(sum, 1 - i), std::array{x});
    if (cube.factors == std::vector(3, x) && m.near(cube.coefficient, kCubic, m.type(x).element)) return x;
  }
  const ValueId one_plus = factor_of(m, value, [&](ValueId v) { return m.other_than_number(v, kAdd, 1) != kNoValue; });
  if (one_plus == kNoValue) return kNoValue;
  const ValueId part = m.other_than_number(one_plus, kAdd, 1);
  const ValueId tail = below_bound(m, scaled_by(m, part, kCubic));
  const ValueId square = tail == kNoValue ? kNoValue : m.square_of(tail);
  if (square != kNoValue && is_product(m, value, outer, square, one_plus)) return square;
  return kNoValue;
}

ValueId find_gelu_tanh(Matching& m, ValueId root) {
  const ValueId one_plus = factor_of(m, root, [&](ValueId v) { return m.is(m.other_than_number(v, kAdd, 1), kTanh); });
  if (one_plus == kNoValue) return kNoValue;
  const ValueId x = of_tanh_argument(m, m.operand(m.other_than_number(one_plus, kAdd, 1), 0));
  return x != kNoValue && is_product(m, root, 0.5, x, one_plus) ? x : kNoValue;
}

}  // namespace

ValueId find_sigmoid(Matching& m, ValueId root) {
  ValueId x = of_one_plus_exp_minus(m, m.reciprocal_of(root));
  if (x == kNoValue) x = of_two_branches(m, root);
  return x == kNoValue ? kNoValue : m.emit(kSigmoid, {x});
}

// x·sigmoid(x), x / (1 + e^-x).
ValueId find_silu(Matching& m, ValueId root) {
  if (m.is(root, kDiv)) {
    const ValueId x = m.operand(root, 0);
    return of_one_plus_exp_minus(m, m.operand(root, 1)) == x ? m.emit(kSilu, {x}) : kNoValue;
  }
  for (size_t i = 0; i < 2; ++i) {
    const ValueId x = m.operand(root, i), other = m.operand(root, 1 - i);
    if (m.is(other, kSigmoid) && m.operand(other, 0) == x) return m.emit(kSilu, {x});
  }
  return kNoValue;
}

ValueId find_gelu(Matching& m, ValueId root) {
  if (const ValueId x = find_gelu_erf(m, root); x != kNoValue) {
    return m.emit(kGelu, {x}, {static_cast<int64_t>(GeluKind::kErf)});
  }
  const ValueId x = find_gelu_tanh(m, root);
  return x == kNoValue ? kNoValue : m.emit(kGelu, {x}, {static_cast<int64_t>(GeluKind::kTanh)});
}

}  // namespace kiln::graph::recognition
