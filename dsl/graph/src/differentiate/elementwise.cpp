// Gradients of one element at a time. Where a function has a kink the rule says which of its slopes it takes: abs 0,
// min and max half each of equal operands.
#include <cmath>
#include <numbers>

#include "differentiate/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

// A rule of one operand: g times the derivative.
#define KILN_SLOPE(name, slope)                 \
  void name(Adjoint& a) {                       \
    const Tensor &x = a.x(), &y = a.y();        \
    static_cast<void>(x), static_cast<void>(y); \
    a.give(0, a.g() * (slope));                 \
  }

void add_rule(Adjoint& a) {
  if (a.wants(0)) a.give(0, a.g());
  if (a.wants(1)) a.give(1, a.g());
}
void sub_rule(Adjoint& a) {
  if (a.wants(0)) a.give(0, a.g());
  if (a.wants(1)) a.give(1, -a.g());
}
void mul_rule(Adjoint& a) {
  if (a.wants(0)) a.give(0, a.g() * a.x(1));
  if (a.wants(1)) a.give(1, a.g() * a.x(0));
}
void div_rule(Adjoint& a) {
  const Tensor over = a.g() / a.x(1);
  if (a.wants(0)) a.give(0, over);
  if (a.wants(1)) a.give(1, -(over * a.y()));
}
// a - b·trunc(a/b)
void rem_rule(Adjoint& a) {
  if (a.wants(0)) a.give(0, a.g());
  if (a.wants(1)) a.give(1, -(a.g() * trunc(a.x(0) / a.x(1))));
}
void fma_rule(Adjoint& a) {
  mul_rule(a);
  if (a.wants(2)) a.give(2, a.g());
}
void neg_rule(Adjoint& a) { a.give(0, -a.g()); }
KILN_SLOPE(abs_rule, sign(x))

// Half each where they are equal; NaN loses nothing.
void choose_rule(Adjoint& a) {
  const Tensor shared = where(a.x(0) == a.x(1), a.g() * 0.5, a.g());
  const Tensor less = a.x(0)<a.x(1), more = a.x(0)> a.x(1);
  const bool least = a.op == kMin;
  if (a.wants(0)) a.give(0, where(least ? more : less, 0, shared));
  if (a.wants(1)) a.give(1, where(least ? less : more, 0, shared));
}
void select_rule(Adjoint& a) {
  const Tensor zero = zeros_like(a.g());
  if (a.wants(1)) a.give(1, where(a.x(0), a.g(), zero));
  if (a.wants(2)) a.give(2, where(a.x(0), zero, a.g()));
}

KILN_SLOPE(exp_rule, y)
KILN_SLOPE(exp2_rule, y* std::numbers::ln2)
KILN_SLOPE(expm1_rule, y + 1)
void log_rule(Adjoint& a) { a.give(0, a.g() / a.x()); }
void log2_rule(Adjoint& a) { a.give(0, a.g() / (a.x() * std::numbers::ln2)); }
void log10_rule(Adjoint& a) { a.give(0, a.g() / (a.x() * std::numbers::ln10)); }
void log1p_rule(Adjoint& a) { a.give(0, a.g() / (a.x() + 1)); }
KILN_SLOPE(sin_rule, cos(x))
KILN_SLOPE(cos_rule, -sin(x))
KILN_SLOPE(tan_rule, y* y + 1)
KILN_SLOPE(asin_rule, rsqrt(1 - x * x))
KILN_SLOPE(acos_rule, -rsqrt(1 - x * x))
void atan_rule(Adjoint& a) { a.give(0, a.g() / (a.x() * a.x() + 1)); }
void atan2_rule(Adjoint& a) {
  // By the distance twice: its square is soon infinite, or 0. 0 at the origin, where it has no derivative.
  const Tensor length = hypot(a.x(0), a.x(1)), distance = where(length == 0, 1, length), over = a.g() / distance;
  if (a.wants(0)) a.give(0, over * (a.x(1) / distance));
  if (a.wants(1)) a.give(1, -(over * (a.x(0) / distance)));
}
KILN_SLOPE(sinh_rule, cosh(x))
KILN_SLOPE(cosh_rule, sinh(x))
KILN_SLOPE(tanh_rule, 1 - y * y)
KILN_SLOPE(erf_rule, exp(-(x* x)) * (2 / std::sqrt(std::numbers::pi)))
KILN_SLOPE(erfc_rule, exp(-(x* x)) * (-2 / std::sqrt(std::numbers::pi)))
void sqrt_rule(Adjoint& a) { a.give(0, a.g() / (a.y() * 2)); }
KILN_SLOPE(rsqrt_rule, y * y * y * -0.5)

// By a: 0 where b is 0. By b: 0 where a is 0 and b no less, for there a^b stays 0 (or 1 at a point).
void pow_rule(Adjoint& a) {
  const Tensor &base = a.x(0), &power = a.x(1);
  if (a.wants(0)) {
    const Tensor slope = power * pow(base, power - 1);
    a.give(0, a.g() * where(power == 0, 0, slope));
  }
  if (a.wants(1)) {
    const Tensor flat = (base == 0) & (power >= 0);
    a.give(1, a.g() * where(flat, 0, a.y() * log(where(flat, 1, base))));
  }
}
// 0 at the origin, where it has no derivative.
void hypot_rule(Adjoint& a) {
  const Tensor origin = a.y() == 0;
  const Tensor over = a.g() / where(origin, 1, a.y());
  if (a.wants(0)) a.give(0, over * a.x(0));
  if (a.wants(1)) a.give(1, over * a.x(1));
}
void copysign_rule(Adjoint& a) {
  const Tensor turned = signbit(a.x(0)) ^ signbit(a.x(1));
  if (a.wants(0)) a.give(0, where(a.x(0) == 0, 0, where(turned, -a.g(), a.g())));
}
void cast_rule(Adjoint& a) { a.give(0, cast(a.g(), a.x().element())); }
// Of a type as itself, which is no op to the simplifier; other bits are no function of the number.
void bitcast_rule(Adjoint& a) {
  if (a.x().element() == a.y().element()) a.give(0, a.g());
}

#undef KILN_SLOPE

}  // namespace

void add_elementwise_rules(GradientTable& table) {
  table.all(GradientKind::kNone,
            {kConstant, kFull, kExtent, kIota,  kPhilox, kMulhi, kSign,  kAnd,     kOr,    kXor,   kNot,
             kShl,      kShr,  kCmp,    kFloor, kCeil,   kRound, kTrunc, kSignbit, kIsnan, kIsinf, kStopGradient});
  table.rule(kAdd, add_rule);
  table.rule(kSub, sub_rule);
  table.rule(kMul, mul_rule);
  table.rule(kDiv, div_rule);
  table.rule(kRem, rem_rule);
  table.rule(kFma, fma_rule);
  table.rule(kMin, choose_rule);
  table.rule(kMax, choose_rule);
  table.rule(kNeg, neg_rule);
  table.rule(kAbs, abs_rule);
  table.rule(kSelect, select_rule);
  table.rule(kExp, exp_rule);
  table.rule(kExp2, exp2_rule);
  table.rule(kExpm1, expm1_rule);
  table.rule(kLog, log_rule);
  table.rule(kLog2, log2_rule);
  table.rule(kLog10, log10_rule);
  table.rule(kLog1p, log1p_rule);
  table.rule(kSin, sin_rule);
  table.rule(kCos, cos_rule);
  table.rule(kTan, tan_rule);
  table.rule(kAsin, asin_rule);
  table.rule(kAcos, acos_rule);
  table.rule(kAtan, atan_rule);
  table.rule(kAtan2, atan2_rule);
  table.rule(kSinh, sinh_rule);
  table.rule(kCosh, cosh_rule);
  table.rule(kTanh, tanh_rule);
  table.rule(kErf, erf_rule);
  table.rule(kErfc, erfc_rule);
  table.rule(kSqrt, sqrt_rule);
  table.rule(kRsqrt, rsqrt_rule);
  table.rule(kPow, pow_rule);
  table.rule(kHypot, hypot_rule);
  table.rule(kCopysign, copysign_rule);
  table.rule(kCast, cast_rule);
  table.rule(kBitcast, bitcast_rule);
}

}  // namespace kiln::graph
