// pow: |x|^y = 2^(y·log2 |x|), then the sign and the special values of IEEE 754 and C.
//
// The absolute error of y·log2 |x| becomes a relative one of the result, so the logarithm needs 10 bits more than the
// type has. f32 computes in f64; f64 carries sums of two numbers where it matters. Polynomials as in exp.cpp.
#include "math/math_builder.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

// In f64, to 2^-38 relative: enough for f32.
Value* short_log2(MathBuilder& m, Value* x) {
  const Normalised n = normalise(m, x);
  Value* f = m.sub(n.mantissa, m.constant(1.0));
  Value* p = m.polynomial(f, {0x1.71547652b86e9p+0, -0x1.715476540bb86p-1, 0x1.ec709dc483dacp-2, -0x1.715473a1a3f99p-2,
                              0x1.2776bfeea036cp-2, -0x1.ec721fc4cf4a8p-3, 0x1.a61c1a71a1922p-3, -0x1.712bc8c1787d8p-3,
                              0x1.478ff5cc7d89cp-3, -0x1.28aed3a4f8e57p-3, 0x1.17d06cb25f583p-3, -0x1.0239c023a6be5p-3,
                              0x1.6d3cf9a7f032bp-4, -0x1.01bb5f858c87ep-5});
  return m.fma(f, p, n.exponent);
}

// x^y for x ≥ 0, in f64 with the accuracy and the range of f32: 2^(y·log2 x), 2^-28.8.
Value* short_power(MathBuilder& m, Value* x, Value* y) {
  Value* product = m.mul(y, short_log2(m, x));
  product = m.at_most(m.at_least(product, m.constant(-160.0)), m.constant(160.0));
  const Rounded n = m.round_near(product);
  Value* r = m.sub(product, n.value);
  Value* q = m.polynomial(r, {0x1.62e430c6ca09ep-1, 0x1.ebfbdcf7c707fp-3, 0x1.c6aed5c30dba1p-5, 0x1.3b2cc3b3f02cap-7,
                              0x1.5f45095200cb9p-10, 0x1.4258c49e8c858p-13});
  return m.mul(m.fma(q, r, m.constant(1.0)), m.power_of_two(n.bits));
}

// log2 x to about 2^-65 relative, for x ≥ 0; infinite, with a meaningless low part, for 0 and inf.
//
// With s = f / (2 + f) and z = s², log2(1 + f) = s·(2 / ln 2)·(1 + w), w = z/3 + z²·Q(z): s, its product with the
// constant and w are pairs, and |w| < 2^-6, so that plain arithmetic does for what is smaller.
Pair long_log2(MathBuilder& m, Value* x) {
  const Normalised n = normalise(m, x);
  Value* f = m.sub(n.mantissa, m.constant(1.0));
  const Pair divisor = m.fast_two_sum(m.constant(2.0), f);
  Value* reciprocal = m.near_reciprocal(divisor.high);
  Value* quotient = m.mul(f, reciprocal);
  const Pair back = m.two_product(quotient, divisor.high);
  Value* remainder = m.sub(m.sub(f, back.high), m.fma(quotient, divisor.low, back.low));
  const Pair s = m.fast_two_sum(quotient, m.mul(remainder, reciprocal));
  const Pair square = m.two_product(s.high, s.high);
  Value *z = square.high, *z_low = m.fma(m.add(s.high, s.high), s.low, square.low);
  // 2^-62.1.
  Value* q = m.polynomial(z, {0x1.999999999a8ccp-3, 0x1.24924922fe547p-3, 0x1.c71c73c7f95e6p-4, 0x1.745c71c4a6a53p-4,
                              0x1.3b3182768f6e6p-4, 0x1.0e09cd13ff763p-4, 0x1.1a0c823b866c3p-4});
  Value *third = m.constant(0x1.5555555555555p-2), *third_low = m.constant(0x1.5555555555555p-56);
  const Pair w = m.two_product(z, third);
  Value* w_low = m.fma(m.mul(z, z), q, m.fma(z, third_low, m.fma(z_low, third, w.low)));
  Value *scale = m.constant(0x1.71547652b82fep+1), *scale_low = m.constant(0x1.777d0ffda0d24p-55);
  const Pair line = m.two_product(s.high, scale);
  Value* line_low = m.fma(s.low, scale, m.fma(s.high, scale_low, line.low));
  const Pair bend = m.two_product(line.high, w.high);
  Value* bend_low = m.fma(line.high, w_low, m.fma(line_low, w.high, bend.low));
  const Pair sum = m.fast_two_sum(line.high, bend.high);
  const Pair log_mantissa = m.fast_two_sum(sum.high, m.add(sum.low, m.add(line_low, bend_low)));
  const Pair whole = m.two_sum(n.exponent, log_mantissa.high);
  return {whole.high, m.add(whole.low, log_mantissa.low)};
}

// x^y for x ≥ 0 in f64.
Value* long_power(MathBuilder& m, Value* x, Value* y) {
  const Pair log2 = long_log2(m, x);
  // Beyond 2^66 every power of a number other than 1 overflows or vanishes; the splitting must not overflow before.
  Value* bounded = m.at_most(m.at_least(y, m.constant(-0x1p70)), m.constant(0x1p70));
  const Pair product = m.two_product(log2.high, bounded);
  Value* high = m.at_most(m.at_least(product.high, m.constant(-1100.0)), m.constant(1100.0));
  Value* low = m.select(m.equal(high, product.high), m.fma(log2.low, bounded, product.low), m.constant(0));
  const Rounded n = m.round_near(high);
  Value* r = m.add(m.sub(high, n.value), low);
  // 2^-57.3, as in exp2.
  Value* q = m.polynomial(r, {0x1.62e42fefa39efp-1, 0x1.ebfbdff82c5a5p-3, 0x1.c6b08d704a121p-5, 0x1.3b2ab6fb9ffaap-7,
                              0x1.5d87fe78a14c3p-10, 0x1.4309130f16937p-13, 0x1.ffcbfc583ad7p-17, 0x1.62bfc714d35f2p-20,
                              0x1.b52541ad23cd5p-24, 0x1.e61c24b5d1a7dp-28, 0x1.e943cb0625814p-32});
  Value* power = m.fma(q, r, m.constant(1.0));
  return m.scale(m.select(m.less(high, m.constant(-1076.0)), m.constant(0), power), n);
}

}  // namespace

Value* emit_pow(MathBuilder& m, Value* x, Value* y) {
  auto& b = m.b;
  Value *zero = m.constant(0), *one = m.constant(1.0);
  Value* magnitude = m.abs(x);
  Value* result = nullptr;
  if (m.is_f64()) {
    result = long_power(m, magnitude, y);
  } else {
    MathBuilder wide(b, m.type()->getWithNewType(b.getDoubleTy()), m.options());
    Value* power = short_power(wide, b.CreateFPExt(magnitude, wide.type()), b.CreateFPExt(y, wide.type()));
    result = b.CreateFPTrunc(power, m.type());
  }
  // 0, inf and infinite powers come out right by infinite logarithms and products, but for 0·inf.
  result = m.select(m.equal(magnitude, one), one, result);
  // All numbers of large magnitude are whole and even, infinities too.
  auto is_whole = [&](Value* v) { return m.equal(b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, v), v); };
  Value* whole = is_whole(y);
  Value* odd = b.CreateAnd(whole, b.CreateNot(is_whole(m.mul(y, m.constant(0.5)))));
  result = m.select(odd, m.copysign(result, x), result);
  Value* no_power = b.CreateAnd(b.CreateAnd(m.less(x, zero), b.CreateNot(whole)), m.less(magnitude, m.infinity()));
  result = m.select(b.CreateOr(no_power, b.CreateFCmpUNO(x, y)), m.nan(), result);
  return m.select(b.CreateOr(m.equal(x, one), m.equal(y, zero)), one, result);
}

}  // namespace kiln::codegen
