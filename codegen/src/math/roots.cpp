// sqrt, rsqrt and hypot.
#include "math/math_builder.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

// One step of third order from y ≈ 1/√x. With FMA the remainder 1 - x·y² is exact but for its own rounding.
Value* refine(MathBuilder& m, Value* x, Value* y, bool exact) {
  Value* h = m.mul(x, y);
  Value* remainder = m.fma(m.neg(h), y, m.constant(1.0));
  if (exact) remainder = m.fma(m.neg(m.fma(x, y, m.neg(h))), y, remainder);
  Value* series = m.fma(remainder, m.constant(0.375), m.constant(0.5));
  return m.fma(m.mul(y, remainder), series, y);
}

// The refinement of 0 and inf is NaN.
Value* keep_extremes(MathBuilder& m, Value* x, Value* refined, Value* y) {
  Value* extreme = m.b.CreateOr(m.equal(x, m.constant(0)), m.equal(x, m.infinity()));
  return m.select(extreme, y, refined);
}

MathBuilder in_f64(MathBuilder& m) {
  return MathBuilder(m.b, m.type()->getWithNewType(m.b.getDoubleTy()), m.options());
}

}  // namespace

// Correctly rounded, but for `fast`.
Value* emit_sqrt(MathBuilder& m, Value* x) {
  if (!m.options().fast || m.is_f64()) return m.sqrt(x);
  if (m.has_estimates()) return m.estimate(Estimate::kSqrt, x);
  Value* estimate = m.rsqrt_estimate(x);
  if (!estimate) return m.sqrt(x);
  // s = x·y, then s + (x - s²)·y/2.
  Value* s = m.mul(x, estimate);
  Value* remainder = m.fma(m.neg(s), s, x);
  return keep_extremes(m, x, m.fma(m.mul(remainder, estimate), m.constant(0.5), s), x);
}

Value* emit_rsqrt(MathBuilder& m, Value* x) {
  auto& b = m.b;
  if (m.has_estimates() && m.options().fast) return m.estimate(Estimate::kRsqrt, x);
  if (Value* estimate = m.rsqrt_estimate(x)) {
    Value* y = m.is_f64() ? refine(m, x, estimate, false) : estimate;
    return keep_extremes(m, x, refine(m, x, y, !m.options().fast), estimate);
  }
  if (m.is_f64() || m.options().fast) return b.CreateFDiv(m.constant(1.0), m.sqrt(x));
  if (m.has_fma()) {
    Value* y = b.CreateFDiv(m.constant(1.0), m.sqrt(x));
    return keep_extremes(m, x, refine(m, x, y, true), y);
  }
  // Through f64, whose error disappears in the one rounding to f32.
  MathBuilder wide = in_f64(m);
  Value* root = wide.sqrt(b.CreateFPExt(x, wide.type()));
  return b.CreateFPTrunc(b.CreateFDiv(wide.constant(1.0), root), m.type());
}

Value* emit_hypot(MathBuilder& m, Value* x, Value* y) {
  auto& b = m.b;
  Value* result = nullptr;
  if (!m.is_f64()) {
    // Squares of f32 neither overflow nor underflow in f64.
    MathBuilder wide = in_f64(m);
    Value *xd = b.CreateFPExt(x, wide.type()), *yd = b.CreateFPExt(y, wide.type());
    result = b.CreateFPTrunc(wide.sqrt(wide.fma(xd, xd, wide.mul(yd, yd))), m.type());
  } else {
    Value *ax = m.abs(x), *ay = m.abs(y);
    Value* large = m.select(m.greater(ax, ay), ax, ay);
    Value *huge = m.greater(large, m.constant(0x1p500)), *tiny = m.less(large, m.constant(0x1p-400));
    Value* one = m.constant(1.0);
    Value* down = m.select(huge, m.constant(0x1p-600), m.select(tiny, m.constant(0x1p600), one));
    Value* up = m.select(huge, m.constant(0x1p600), m.select(tiny, m.constant(0x1p-600), one));
    Value *xs = m.mul(x, down), *ys = m.mul(y, down);
    result = m.mul(m.sqrt(m.fma(xs, xs, m.mul(ys, ys))), up);
  }
  Value* infinite = b.CreateOr(m.equal(m.abs(x), m.infinity()), m.equal(m.abs(y), m.infinity()));
  return m.select(infinite, m.infinity(), result);
}

}  // namespace kiln::codegen
