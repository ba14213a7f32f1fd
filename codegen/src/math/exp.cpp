// exp, exp2 and expm1: x = n·ln 2 + r with |r| ≤ ln2 / 2, a polynomial in r, and a scaling by 2^n.
//
// Polynomials: least squares at Chebyshev nodes, weighted for the relative error of the result, coefficients rounded
// one after the other. Errors are relative, on |r| ≤ 0.3468 (exp2: 0.5001).
#include "math/math_builder.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr double kLog2E = 0x1.71547652b82fep+0;
// ln 2 in two parts; the first so short that its product with an exponent is exact.
constexpr double kLn2High32 = 0x1.62e4p-1, kLn2Low32 = 0x1.7f7d1cf79abcap-20;
constexpr double kLn2High64 = 0x1.62e42feep-1, kLn2Low64 = 0x1.a39ef35793c76p-33;

// 2^(x·(high + low)) by the estimate: x·high = n + r, so that it sees |r| ≤ 1/2, and 2^n as one factor. Where n would
// leave the exponents of normal numbers, r makes up for it, and the product is rounded once.
Value* exp_by_estimate(MathBuilder& m, Value* x, double high, double low) {
  Value* scaled = high == 1.0 ? x : m.mul(x, m.constant(high));
  scaled = m.at_most(m.at_least(scaled, m.constant(-126.0)), m.constant(127.0));
  // The shift leaves n and the exponent's bias in the low bits.
  Value* shift = m.constant(0x1.8p23 + 127);
  Value* shifted = m.add(scaled, shift);
  Value* n = m.sub(shifted, shift);
  Value* r = high == 1.0 ? m.sub(x, n) : m.fma(x, m.constant(low), m.fma(x, m.constant(high), m.neg(n)));
  return m.mul(m.estimate(Estimate::kExp2, r), m.from_bits(m.b.CreateShl(m.bits(shifted), m.int_constant(23))));
}

// Into the range where scaling is right. What vanishes need not be in it where zeros are put by a mask.
Value* clamp_exponent(MathBuilder& m, Value* x, Value* least, Value* most) {
  return m.at_most(m.fills_avx512() ? x : m.at_least(x, least), most);
}

}  // namespace

ReducedExp reduce_exp(MathBuilder& m, Value* x, Value* low) {
  const Rounded n = m.round_product(x, m.constant(kLog2E));
  Value* high = m.fma(n.value, m.constant(-kLn2High32, -kLn2High64), x);  // exact
  Value* minus_low = m.constant(-kLn2Low32, -kLn2Low64);
  if (!low) {
    Value* r = m.fma(n.value, minus_low, high);
    return {n, r, m.fma(n.value, minus_low, m.sub(high, r))};
  }
  Value* rest = m.fma(n.value, minus_low, low);
  Value* r = m.add(high, rest);
  return {n, r, m.add(m.sub(high, r), rest)};
}

ScaledExp scaled_exp(MathBuilder& m, Value* x, Value* low) {
  const ReducedExp reduced = reduce_exp(m, x, low);
  Value* r = reduced.r;
  // 1 + r + r²·P(r): f32 2^-28.0 (fast 2^-23.0), f64 2^-57.6.
  Value* p = m.options().fast && !m.is_f64()
                 ? m.polynomial(r, {0x1.fffdcp-2, 0x1.55567ep-3, 0x1.573c02p-5, 0x1.11149ap-7})
                 : m.polynomial(r, {0x1.fffff8p-2, 0x1.55548ep-3, 0x1.555b98p-5, 0x1.123bdep-7, 0x1.685188p-10},
                                {0x1.000000000000cp-1, 0x1.5555555555516p-3, 0x1.555555554fe59p-5, 0x1.1111111120dep-7,
                                 0x1.6c16c185eeaaap-10, 0x1.a01a014ee507ap-13, 0x1.a0199602276dfp-16,
                                 0x1.71ded4c9fd806p-19, 0x1.28b0b4790f19ap-22, 0x1.adfd929183527p-26});
  Value* one = m.constant(1.0);
  // Where the caller is careful about the argument, a form that rounds less.
  Value* power = low ? m.add(one, m.add(r, m.fma(m.mul(r, r), p, reduced.low))) : m.fma(m.fma(p, r, one), r, one);
  return {power, reduced.n};
}

Value* emit_exp(MathBuilder& m, Value* x) {
  if (m.has_estimates()) {
    if (m.options().fast) return m.estimate(Estimate::kExp2, m.mul(x, m.constant(kLog2E)));
    return exp_by_estimate(m, x, 0x1.715476p+0, 0x1.4ae0cp-26);
  }
  Value* clamped = clamp_exponent(m, x, m.constant(-105.0, -746.0), m.constant(89.0, 710.0));
  const bool flush = m.options().fast;
  Value* least = flush ? m.constant(-0x1.5d58ap+6, -0x1.6232bdd7abcd2p+9) : m.constant(-104.0, -745.5);
  const ScaledExp e = scaled_exp(m, clamped);
  return m.scale_or_zero(e.power, e.n, m.less(x, least));
}

Value* emit_exp2(MathBuilder& m, Value* x) {
  if (m.has_estimates()) return m.options().fast ? m.estimate(Estimate::kExp2, x) : exp_by_estimate(m, x, 1.0, 0.0);
  Value* clamped = clamp_exponent(m, x, m.constant(-152.0, -1077.0), m.constant(129.0, 1025.0));
  Value* least = m.options().fast ? m.constant(-126.0, -1022.0) : m.constant(-151.0, -1076.0);
  const Rounded n = m.round_near(clamped);
  Value* r = m.sub(clamped, n.value);
  // 1 + r·Q(r): f32 2^-28.0 (fast 2^-23.2), f64 2^-57.3.
  Value* q =
      m.options().fast && !m.is_f64()
          ? m.polynomial(r, {0x1.62e426p-1, 0x1.ebf9b6p-3, 0x1.c6b9eap-5, 0x1.3cec26p-7, 0x1.5ac8cap-10})
          : m.polynomial(r, {0x1.62e43p-1, 0x1.ebfbd8p-3, 0x1.c6af76p-5, 0x1.3b30a6p-7, 0x1.5f0b8cp-10, 0x1.3f9bcp-13},
                         {0x1.62e42fefa39efp-1, 0x1.ebfbdff82c5a5p-3, 0x1.c6b08d704a121p-5, 0x1.3b2ab6fb9ffaap-7,
                          0x1.5d87fe78a14c3p-10, 0x1.4309130f16937p-13, 0x1.ffcbfc583ad7p-17, 0x1.62bfc714d35f2p-20,
                          0x1.b52541ad23cd5p-24, 0x1.e61c24b5d1a7dp-28, 0x1.e943cb0625814p-32});
  Value* power = m.fma(q, r, m.constant(1.0));
  return m.scale_or_zero(power, n, m.less(x, least));
}

Value* reduced_expm1(MathBuilder& m, const ReducedExp& reduced) {
  // r + r²·P(r): f32 2^-26.1, f64 2^-55.5.
  Value* p = m.polynomial(reduced.r, {0x1.fffffep-2, 0x1.5554aep-3, 0x1.555722p-5, 0x1.1228d2p-7, 0x1.6b655p-10},
                          {0x1.0000000000005p-1, 0x1.555555555553dp-3, 0x1.5555555552109p-5, 0x1.1111111118209p-7,
                           0x1.6c16c17f3156ap-10, 0x1.a01a017989cb8p-13, 0x1.a019a6966f1cfp-16, 0x1.71de7e569d776p-19,
                           0x1.28a29df91e905p-22, 0x1.ae7aae30a325bp-26});
  Value* square = m.mul(reduced.r, reduced.r);
  return reduced.low ? m.add(reduced.r, m.fma(square, p, reduced.low)) : m.fma(square, p, reduced.r);
}

// 2^n·(e^r - 1 + (1 - 2^-n)): the term in 2^-n is exact where it matters.
Value* emit_expm1(MathBuilder& m, Value* x) {
  Value* clamped = m.at_most(m.at_least(x, m.constant(-18.0, -38.0)), m.constant(89.0, 710.0));
  const ReducedExp reduced = reduce_exp(m, clamped);
  Value* inverse =
      m.select(m.less(reduced.n.value, m.constant(64.0)), m.power_of_two(m.b.CreateNeg(reduced.n.bits)), m.constant(0));
  Value* sum = m.add(reduced_expm1(m, reduced), m.sub(m.constant(1.0), inverse));
  // The sign is set last: the reduction loses that of -0.
  return m.copysign(m.scale(sum, reduced.n), x);
}

}  // namespace kiln::codegen
