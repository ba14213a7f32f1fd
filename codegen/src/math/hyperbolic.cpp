// sinh, cosh and tanh.
//
// sinh and cosh without a division: with |x| = n·ln 2 + r, S = sinh r and C = cosh r by polynomials,
//   sinh |x| = C·(2^n - 2^-n)/2 + S·(2^n + 2^-n)/2,   cosh x = C·(2^n + 2^-n)/2 + S·(2^n - 2^-n)/2.
// tanh |x| = -E / (2 + E) with E = e^(-2|x|) - 1.
#include "math/math_builder.h"

namespace kiln::codegen {

using llvm::Value;

namespace {

struct QuarterPowers {
  Value* grow;    // 2^(n-2)
  Value* shrink;  // 2^(-n-2); beyond n = 64 it may be nothing
};

QuarterPowers quarter_powers(MathBuilder& m, const Rounded& n) {
  if (m.fills_avx512()) {
    Value* quarter = m.constant(0.25);
    return {m.scale(quarter, n), m.scale(quarter, {m.neg(n.value), nullptr})};
  }
  Value* grow = m.power_of_two(m.b.CreateSub(n.bits, m.int_constant(2)));
  Value* shrink = m.power_of_two(m.b.CreateSub(m.int_constant(-2), n.bits));
  return {grow, m.select(m.less(n.value, m.constant(64.0)), shrink, m.constant(0))};
}

}  // namespace

Value* emit_sinh_cosh(MathBuilder& m, Value* x, bool cosine) {
  Value* magnitude = m.at_most(m.abs(x), m.constant(89.5, 710.6));
  const ReducedExp e = reduce_exp(m, magnitude);
  Value* z = m.mul(e.r, e.r);
  // sinh r = r + r³·S(r²): f32 2^-34.1, f64 2^-64.8; cosh r = 1 + r²·C(r²): f32 2^-33.2, f64 2^-70.0.
  Value* s = m.polynomial(z, {0x1.555556p-3, 0x1.110fe2p-7, 0x1.a28f34p-13},
                          {0x1.5555555555555p-3, 0x1.111111111130dp-7, 0x1.a01a019f1150cp-13, 0x1.71de3e41ed1f6p-19,
                           0x1.ae566dd8c2025p-26, 0x1.740cdc28b22bdp-33});
  Value* c = m.polynomial(z, {0x1p-1, 0x1.5554e4p-5, 0x1.6d515ap-10},
                          {0x1p-1, 0x1.5555555555558p-5, 0x1.6c16c16c15005p-10, 0x1.a01a01ad7a60bp-16,
                           0x1.27e4cc1d6347cp-22, 0x1.1f8bc72317a61p-29});
  Value* sinh_r = m.add(e.r, m.fma(m.mul(z, e.r), s, e.low));
  Value* cosh_m1 = m.mul(z, c);
  // Doubled at the end, since 2^(n-1) may overflow where the result does not.
  const auto [grow, shrink] = quarter_powers(m, e.n);
  Value *plus = m.add(grow, shrink), *minus = m.sub(grow, shrink);
  // With C - 1 instead of C the leading term is exact.
  if (!cosine) std::swap(plus, minus);
  Value* half = m.add(plus, m.fma(cosh_m1, plus, m.mul(sinh_r, minus)));
  Value* result = m.add(half, half);
  if (cosine) return result;
  // Halves of subnormals would be rounded.
  result = m.select(m.less(magnitude, m.constant(0x1p-20, 0x1p-40)), magnitude, result);
  return m.copysign(result, x);
}

Value* emit_tanh(MathBuilder& m, Value* x) {
  // From here on tanh is 1 in every bit.
  Value* magnitude = m.at_most(m.abs(x), m.constant(10.0, 20.0));
  ReducedExp e = reduce_exp(m, m.mul(magnitude, m.constant(-2.0)));
  if (m.options().fast) e.low = nullptr;
  Value* scale = m.power_of_two(e.n.bits);
  Value* expm1 = m.fma(reduced_expm1(m, e), scale, m.sub(scale, m.constant(1.0)));
  return m.copysign(m.quotient(expm1, m.add(expm1, m.constant(2.0))), x);
}

}  // namespace kiln::codegen
