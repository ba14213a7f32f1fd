// log, log2, log10 and log1p: x = 2^e · (1 + f) with 1 + f in [0.75, 1.5), then e·log 2 + log1p(f).
//
// f32: log1p(f) = f - f²/2 + f³·P(f). f64: with s = f / (2 + f), log1p(f) = f - f²/2 + s·(f²/2 + s²·L(s²)), half as
// many coefficients. Polynomials as in exp.cpp.
#include "math/math_builder.h"

namespace kiln::codegen {
namespace {

using dsl::MathFn;
using llvm::Value;

// log1p(f) = f + tail.
struct Parts {
  Value* exponent;
  Value* f;
  Value* tail;
};

Value* tail_of(MathBuilder& m, Value* f) {
  Value* f2 = m.mul(f, f);
  if (!m.is_f64()) {
    // 2^-27.4 relative to log1p(f).
    Value* p = m.polynomial(f, {0x1.5555a8p-2, -0x1.000026p-2, 0x1.9967bap-3, -0x1.54f68cp-3, 0x1.28ad52p-3,
                                -0x1.0d684p-3, 0x1.aa0f5p-4, -0x1.6c1ba6p-5});
    return m.fma(m.mul(f2, f), p, m.mul(f2, m.constant(-0.5)));
  }
  Value* s = m.quotient(f, m.add(f, m.constant(2.0)));
  Value* z = m.mul(s, s);
  // 2^-62.6 relative to log1p(f).
  Value* l = m.polynomial(z, {0x1.555555555554fp-1, 0x1.999999999c17ap-2, 0x1.24924921e43bep-2, 0x1.c71c748fd5465p-3,
                              0x1.745c4ad462f7cp-3, 0x1.3b35c20aeb9a6p-3, 0x1.0dcb7aeb9ef4fp-3, 0x1.1b8270dfbef76p-3});
  Value* half_square = m.mul(f2, m.constant(0.5));
  return m.sub(m.mul(s, m.fma(z, l, half_square)), half_square);
}

Parts parts_of(MathBuilder& m, Value* x) {
  const Normalised n = normalise(m, x);
  Value* f = m.sub(n.mantissa, m.constant(1.0));
  return {n.exponent, f, tail_of(m, f)};
}

// 1 + x = u + c; c scaled like u's mantissa joins f, exactly where u is near 1.
Parts parts_of_log1p(MathBuilder& m, Value* x) {
  const Pair u = m.two_sum(m.constant(1.0), x);
  const Split parts = split_number(m, u.high);
  Value* one = m.int_constant(static_cast<int64_t>(m.exponent_bias()) << m.mantissa_bits());
  // 2^-exponent; its clamp cannot matter, c is nothing beside so large a u.
  Value* least = m.int_constant(int64_t{1} << m.mantissa_bits());
  Value* scale =
      m.from_bits(m.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, m.b.CreateSub(one, parts.exponent_bits), least));
  Value* f = m.fma(u.low, scale, m.sub(parts.mantissa, m.constant(1.0)));
  return {parts.exponent, f, tail_of(m, f)};
}

Value* natural(MathBuilder& m, const Parts& p) {
  Value* low = m.fma(p.exponent, m.constant(0x1.7f7d1cf79abcap-20, 0x1.a39ef35793c76p-33), p.tail);
  return m.fma(p.exponent, m.constant(0x1.62e4p-1, 0x1.62e42feep-1), m.add(p.f, low));
}

// (f + tail)·log_b(e), the constant in two parts so that the product keeps its low bits.
Value* binary(MathBuilder& m, const Parts& p) {
  Value *high = m.constant(0x1.7154p+0, 0x1.71547652p+0), *low = m.constant(0x1.d94ae0bf85ddfp-18, 0x1.705fc2eefa2p-33);
  Value* rest = m.fma(m.add(p.f, p.tail), low, m.mul(p.tail, high));
  if (m.has_fma()) return m.add(m.fma(p.f, high, rest), p.exponent);
  const Pair product = m.two_product(p.f, high);
  return m.add(m.add(product.high, m.add(product.low, rest)), p.exponent);
}

Value* decimal(MathBuilder& m, const Parts& p) {
  // log10(e) and log10(2).
  Value *high = m.constant(0x1.bcbp-2, 0x1.bcb7b152p-2),
        *low = m.constant(0x1.ec549b9438caap-16, 0x1.b9438ca9aadd5p-36);
  Value *e_high = m.constant(0x1.344p-2, 0x1.34413508p-2),
        *e_low = m.constant(0x1.3509f79fef312p-18, 0x1.f79fef311f12bp-34);
  Value* rest = m.fma(m.add(p.f, p.tail), low, m.fma(p.tail, high, m.mul(p.exponent, e_low)));
  if (!m.has_fma()) {
    // Just below a power of two the two products cancel to a third of the larger: neither may be rounded before.
    const Pair product = m.two_product(p.f, high);
    return m.add(m.add(m.mul(p.exponent, e_high), product.high), m.add(product.low, rest));
  }
  return m.fma(p.exponent, e_high, m.fma(p.f, high, rest));
}

}  // namespace

Split split_number(MathBuilder& m, Value* x) {
  auto& b = m.b;
  const int64_t one = static_cast<int64_t>(m.exponent_bias()) << m.mantissa_bits();
  const int64_t half_step = int64_t{1} << (m.mantissa_bits() - 1);  // bits of 1.0 less those of 0.75
  Value* bits = m.bits(x);
  Value* exponent_bits = b.CreateAnd(b.CreateSub(bits, m.int_constant(one - half_step)),
                                     m.int_constant(-(int64_t{1} << m.mantissa_bits())));
  Value* biased = b.CreateLShr(b.CreateAdd(bits, m.int_constant(half_step)), m.int_constant(m.mantissa_bits()));
  return {m.sub(m.to_float(biased), m.constant(m.exponent_bias())), exponent_bits,
          m.from_bits(b.CreateSub(bits, exponent_bits))};
}

Normalised normalise(MathBuilder& m, Value* x) {
  if (m.fills_avx512()) {
    Value* mantissa = m.avx512_mantissa(x);
    return {m.sub(m.avx512_exponent(x), m.avx512_exponent(mantissa)), mantissa};
  }
  const double up = m.is_f64() ? 0x1p52 : 0x1p23;
  Value* subnormal = m.less(x, m.constant(m.smallest_normal()));
  const Split parts = split_number(m, m.select(subnormal, m.mul(x, m.constant(up)), x));
  Value* exponent = m.sub(parts.exponent, m.select(subnormal, m.constant(m.mantissa_bits()), m.constant(0)));
  exponent = m.select(m.equal(x, m.infinity()), m.infinity(), exponent);
  exponent = m.select(m.equal(x, m.constant(0)), m.neg(m.infinity()), exponent);
  return {exponent, m.select(m.b.CreateFCmpULT(x, m.constant(0)), m.nan(), parts.mantissa)};
}

Value* emit_log(MathBuilder& m, MathFn fn, Value* x) {
  if (m.has_estimates() && m.options().fast && fn != MathFn::kLog1p) {
    Value* binary_log = m.estimate(Estimate::kLog2, x);
    if (fn == MathFn::kLog2) return binary_log;
    constexpr double kLog2 = 0x1.62e42fefa39efp-1, kLog10Of2 = 0x1.34413509f79ffp-2;
    return m.mul(binary_log, m.constant(fn == MathFn::kLog ? kLog2 : kLog10Of2));
  }
  switch (fn) {
    case MathFn::kLog:
      return natural(m, parts_of(m, x));
    case MathFn::kLog2:
      return binary(m, parts_of(m, x));
    case MathFn::kLog10:
      return decimal(m, parts_of(m, x));
    default:
      break;
  }
  Value* pole = m.constant(-1.0);
  Value* result = natural(m, parts_of_log1p(m, x));
  result = m.select(m.equal(x, m.infinity()), m.infinity(), result);
  result = m.select(m.equal(x, pole), m.neg(m.infinity()), result);
  result = m.select(m.equal(x, m.constant(0)), x, result);  // keeps the sign of zero
  return m.select(m.b.CreateFCmpULT(x, pole), m.nan(), result);
}

}  // namespace kiln::codegen
