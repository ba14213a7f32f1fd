// asin, acos, atan and atan2. Polynomials as in exp.cpp.
#include "math/math_builder.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

Value* half_pi(MathBuilder& m) { return m.constant(0x1.921fb6p+0, 0x1.921fb54442d18p+0); }
double half_pi_low(const MathBuilder& m) { return m.is_f64() ? 0x1.1a62633145c07p-54 : -0x1.777a5cp-25; }

// asin √z = √z + √z·z·P(z) for z ≤ 1/4: f32 2^-27.6, f64 2^-55.8.
Value* asin_polynomial(MathBuilder& m, Value* z) {
  return m.polynomial(z, {0x1.5555c8p-3, 0x1.330246p-4, 0x1.747212p-5, 0x1.8caecep-6, 0x1.58f46p-5},
                      {0x1.5555555555399p-3, 0x1.333333336d0c6p-4, 0x1.6db6db438bf1dp-5, 0x1.f1c72bdb3836fp-6,
                       0x1.6e89fd4d337acp-6, 0x1.1c6b575742ac4p-6, 0x1.c70876a6faecp-7, 0x1.8e7ce7411bf4p-7,
                       0x1.ae2946e023fb2p-8, 0x1.3e5cdb419b902p-6, -0x1.075a900920452p-6, 0x1.04975b21c9536p-5});
}

// atan(numerator / denominator) in [0, π/4] for 0 ≤ numerator ≤ denominator, as base + angle with base 0 or π/4.
struct Angle {
  Value* beyond;  // whether the base is π/4
  Value* angle;
};

// Beyond tan(π/8) of the quotient q, atan q = π/4 + atan((q - 1) / (q + 1)): one division, and |t| ≤ tan(π/8).
// `moderate`: the operands and their quotient are neither huge nor subnormal.
Angle first_octant(MathBuilder& m, Value* numerator, Value* denominator, bool moderate) {
  Value* beyond = m.greater(numerator, m.mul(denominator, m.constant(0x1.a8279ap-2)));
  Value* n = m.select(beyond, m.sub(numerator, denominator), numerator);
  Value* d = m.select(beyond, m.add(numerator, denominator), denominator);
  Value* t = moderate ? m.quotient(n, d) : m.b.CreateFDiv(n, d);
  Value* z = m.mul(t, t);
  // atan t = t + t³·P(t²) for |t| ≤ 0.41422: f32 2^-30.3, f64 2^-59.3.
  Value* p = m.polynomial(z, {-0x1.555548p-2, 0x1.999126p-3, -0x1.23ae22p-3, 0x1.b19126p-4, -0x1.f04e2ap-5},
                          {-0x1.555555555553bp-2, 0x1.99999999954a8p-3, -0x1.2492492298894p-3, 0x1.c71c70deadc7dp-4,
                           -0x1.745cf8189384dp-4, 0x1.3b110c69e6141p-4, -0x1.10eb308bca89ep-4, 0x1.df07fe80cc2b6p-5,
                           -0x1.9cb379229895cp-5, 0x1.3789d7ee5bc5ep-5, -0x1.24cb6a8598ac3p-6});
  return {beyond, m.fma(m.mul(t, z), p, t)};
}

// multiples·π/4 ± angle; the multiple is exact in the high part, and rounding comes last.
Value* add_base(MathBuilder& m, Value* multiples, Value* angle) {
  Value* low = m.fma(multiples, m.constant(half_pi_low(m) * 0.5), angle);
  return m.fma(multiples, m.mul(half_pi(m), m.constant(0.5)), low);
}

}  // namespace

Value* emit_asin_acos(MathBuilder& m, Value* x, bool cosine) {
  Value* magnitude = m.abs(x);
  Value* large = m.greater(magnitude, m.constant(0.5));
  // Beyond 1/2: asin x = π/2 - 2·asin √((1 - x) / 2); the difference is exact.
  Value* half_rest = m.fma(magnitude, m.constant(-0.5), m.constant(0.5));
  Value* z = m.select(large, half_rest, m.mul(x, x));
  Value* s = m.select(large, m.sqrt(half_rest), magnitude);
  Value* tail = m.mul(m.mul(s, z), asin_polynomial(m, z));
  Value* low = m.constant(half_pi_low(m));
  if (!cosine) {
    Value* far = m.sub(half_pi(m), m.sub(m.mul(m.constant(2.0), m.add(s, tail)), low));
    return m.copysign(m.select(large, far, m.add(s, tail)), x);
  }
  Value* twice = m.mul(m.constant(2.0), m.add(s, tail));
  Value* negative = m.less(x, m.constant(0));
  Value* pi = m.mul(half_pi(m), m.constant(2.0));
  Value* far = m.select(negative, m.sub(pi, m.sub(twice, m.mul(low, m.constant(2.0)))), twice);
  Value* near_tail = m.sub(m.copysign(tail, x), low);
  return m.select(large, far, m.sub(half_pi(m), m.add(x, near_tail)));
}

Value* emit_atan(MathBuilder& m, Value* x) {
  // Beyond the limit atan is π/2 in every bit.
  Value *magnitude = m.at_most(m.abs(x), m.constant(0x1p100)), *one = m.constant(1.0);
  Value* inverted = m.greater(magnitude, one);
  const Angle octant = first_octant(m, m.select(inverted, one, magnitude), m.select(inverted, magnitude, one), true);
  // π/2 - (base + angle) where the quotient was inverted.
  Value* base = m.select(octant.beyond, one, m.constant(0));
  Value* multiples = m.select(inverted, m.sub(m.constant(2.0), base), base);
  Value* angle = m.select(inverted, m.neg(octant.angle), octant.angle);
  return m.copysign(add_base(m, multiples, angle), x);
}

Value* emit_atan2(MathBuilder& m, Value* y, Value* x) {
  auto& b = m.b;
  Value *zero = m.constant(0), *one = m.constant(1.0);
  Value *ax = m.abs(x), *ay = m.abs(y);
  Value* inverted = m.greater(ay, ax);
  Value* small = m.select(inverted, ax, ay);
  Value* large = m.select(inverted, ay, ax);
  // inf / inf counts as 1, finite / inf as 0 and 0 / 0 as 0.
  Value* infinite = m.equal(large, m.infinity());
  small = m.select(infinite, m.select(m.equal(small, m.infinity()), one, zero), small);
  large = m.select(b.CreateOr(infinite, m.equal(large, zero)), one, large);
  // Sums must not overflow, nor products with a fraction lose bits below the normal numbers.
  Value* scale = m.select(m.greater(large, m.constant(0x1p126, 0x1p1022)), m.constant(0.25),
                          m.select(m.less(large, m.constant(0x1p-60, 0x1p-900)), m.constant(0x1p60), one));
  const Angle octant = first_octant(m, m.mul(small, scale), m.mul(large, scale), false);
  Value* base = m.select(octant.beyond, one, zero);
  Value* multiples = m.select(inverted, m.sub(m.constant(2.0), base), base);
  Value* angle = m.select(inverted, m.neg(octant.angle), octant.angle);
  // The left half-plane: π less that. The sign of zero counts.
  Value* left = b.CreateICmpSLT(m.bits(x), m.int_constant(0));
  multiples = m.select(left, m.sub(m.constant(4.0), multiples), multiples);
  angle = m.select(left, m.neg(angle), angle);
  Value* result = m.copysign(add_base(m, multiples, angle), y);
  return m.select(b.CreateFCmpUNO(x, y), m.nan(), result);
}

}  // namespace kiln::codegen
