// Polynomials were fitted for this project: interpolation at Chebyshev nodes in 40 digits, coefficients rounded to f32.
#include "math/vector_math.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <numeric>

#include "math/math_builder.h"

namespace kiln::codegen {
namespace {

using dsl::MathFn;
using llvm::Value;

constexpr double kLog2E = 0x1.71547652b82fep+0;
// ln 2 in two parts; the first has 15 bits, so that its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e4p-1;
constexpr double kLn2Low = 0x1.7f7d1cf79abcap-20;

// x86's vscalefps, 16 lanes at a time.
Value* scalef(MathBuilder& m, Value* p, Value* n, unsigned lanes) {
  auto& b = m.b;
  Value* out = nullptr;
  for (unsigned first = 0; first < lanes; first += 16) {
    std::vector<int> part(16);
    std::iota(part.begin(), part.end(), static_cast<int>(first));
    Value* x = b.CreateShuffleVector(p, part);
    Value* scaled = b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                                      {x, b.CreateShuffleVector(n, part), x, b.getInt16(0xffff), b.getInt32(4)});
    // Grows the result by the part: first widen both to the same length, then take all lanes of the sum.
    if (!out) {
      out = scaled;
      continue;
    }
    std::vector<int> widen(first, -1), all(first + 16);
    std::iota(widen.begin(), widen.begin() + 16, 0);
    std::iota(all.begin(), all.end(), 0);
    out = b.CreateShuffleVector(out, b.CreateShuffleVector(scaled, widen), all);
  }
  return out;
}

// p · 2^n for integral n (as float) in [-300, 300], in two exact steps so that subnormal results round once.
Value* scale_by_power(MathBuilder& m, Value* p, Value* n) {
  auto& b = m.b;
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(m.type());
  if (m.options().has_avx512 && vector && vector->getNumElements() % 16 == 0)
    return scalef(m, p, n, vector->getNumElements());
  // NaN converts to poison; any number will do, the product is NaN by p.
  Value* exponent = b.CreateFreeze(b.CreateFPToSI(n, m.int_type()));
  Value* half = b.CreateAShr(exponent, m.int_constant(1));
  Value* rest = b.CreateSub(exponent, half);
  auto power = [&](Value* e) {
    return m.from_bits(b.CreateShl(b.CreateAdd(e, m.int_constant(127)), m.int_constant(23)));
  };
  return m.mul(m.mul(p, power(half)), power(rest));
}

// e^x = 2^n · e^r with |r| ≤ ln2 / 2.
Value* emit_exp(MathBuilder& m, Value* x) {
  Value* clamped = m.at_most(m.at_least(x, -105.0), 89.0);
  Value* n = m.round_even(m.mul(clamped, m.constant(kLog2E)));
  Value* r = m.fma(n, m.constant(-kLn2High), clamped);
  r = m.fma(n, m.constant(-kLn2Low), r);
  Value* p = m.polynomial(r, {1.0, 1.0, 0x1p-1, 0x1.5554dep-3, 0x1.55551ap-5, 0x1.120b62p-7, 0x1.6d10fcp-10});
  // A zero, not a product that underflows: multiplications with subnormal results are slow on some CPUs.
  p = m.select(m.b.CreateFCmpOLT(x, m.constant(-104.0)), m.constant(0), p);
  return scale_by_power(m, p, n);
}

Value* emit_exp2(MathBuilder& m, Value* x) {
  Value* clamped = m.at_most(m.at_least(x, -152.0), 129.0);
  Value* n = m.round_even(clamped);
  Value* r = m.sub(clamped, n);
  Value* q = m.polynomial(
      r, {0x1.62e430p-1, 0x1.ebfbe0p-3, 0x1.c6b08ep-5, 0x1.3b2a1cp-7, 0x1.5d879ep-10, 0x1.444p-13, 0x1.00a582p-16});
  Value* p = m.fma(q, r, m.constant(1.0));
  p = m.select(m.b.CreateFCmpOLT(x, m.constant(-151.0)), m.constant(0), p);
  return scale_by_power(m, p, n);
}

// log x = e·ln2 + log1p(f) with x = 2^e · (1 + f), 1 + f in [√½, √2).
Value* emit_log(MathBuilder& m, Value* x, bool base2) {
  auto& b = m.b;
  Value* small = b.CreateFCmpOLT(x, m.constant(0x1p-126));
  Value* normal = m.select(small, m.mul(x, m.constant(0x1p23)), x);
  Value* bits = m.bits(normal);
  // The bits of √½ subtracted: the exponent field then switches at √½·2^k instead of 2^k.
  Value* shifted = b.CreateSub(bits, m.int_constant(0x3f3504f3));
  Value* exponent = b.CreateAShr(shifted, m.int_constant(23));
  Value* mantissa = m.from_bits(b.CreateSub(bits, b.CreateShl(exponent, m.int_constant(23))));
  Value* e = b.CreateSIToFP(exponent, m.type());
  e = m.select(small, m.sub(e, m.constant(23.0)), e);
  Value* f = m.sub(mantissa, m.constant(1.0));
  Value* p = m.polynomial(f, {0x1.555554p-2, -0x1.fffffcp-3, 0x1.999d5ap-3, -0x1.555b4ap-3, 0x1.23d21ap-3,
                              -0x1.fcf4c6p-4, 0x1.dea282p-4, -0x1.d635bcp-4, 0x1.1d8ea6p-4});
  Value* f2 = m.mul(f, f);
  Value* tail = m.fma(m.mul(f2, f), p, m.mul(f2, m.constant(-0.5)));  // log1p(f) - f
  Value* result = nullptr;
  if (base2) {
    // (f + tail)·log2(e) with the constant in two parts, so that the product keeps its low bits.
    constexpr double kHigh = 0x1.7154p+0, kLow = kLog2E - kHigh;
    Value* low = m.fma(m.add(f, tail), m.constant(kLow), m.mul(tail, m.constant(kHigh)));
    result = m.add(m.fma(f, m.constant(kHigh), low), e);
  } else {
    Value* low = m.fma(e, m.constant(kLn2Low), tail);
    result = m.fma(e, m.constant(kLn2High), m.add(f, low));
  }
  result = m.select(b.CreateFCmpOEQ(x, m.infinity()), m.infinity(), result);
  result = m.select(b.CreateFCmpOEQ(x, m.constant(0)), llvm::ConstantFP::getInfinity(m.type(), true), result);
  return m.select(b.CreateFCmpULT(x, m.constant(0)), m.nan(), result);
}

// Odd polynomial near zero; beyond, 1 - 2 / (e^2x + 1).
Value* emit_tanh(MathBuilder& m, Value* x) {
  auto& b = m.b;
  Value* magnitude = m.abs(x);
  Value* z = m.mul(x, x);
  Value* t =
      m.polynomial(z, {-0x1.555556p-2, 0x1.1110eap-3, -0x1.ba08c4p-5, 0x1.64a976p-6, -0x1.116a16p-7, 0x1.2c83c0p-9});
  Value* near_zero = m.fma(m.mul(z, x), t, x);
  Value* e = emit_exp(m, m.at_most(m.add(magnitude, magnitude), 40.0));
  Value* far = m.sub(m.constant(1.0), b.CreateFDiv(m.constant(2.0), m.add(e, m.constant(1.0))));
  // The sign is set last: the sum near zero would lose that of -0.
  return m.copysign(m.select(b.CreateFCmpOLT(magnitude, m.constant(0.625)), near_zero, far), x);
}

// Odd polynomial below 1; beyond, 1 - e^P(|x|) with P fitted to log erfc.
Value* emit_erf(MathBuilder& m, Value* x) {
  auto& b = m.b;
  Value* magnitude = m.abs(x);
  Value* z = m.mul(x, x);
  Value* near_poly = m.polynomial(z, {0x1.06eba8p-3, -0x1.812746p-2, 0x1.ce2f08p-4, -0x1.b829c8p-6, 0x1.562a60p-8,
                                      -0x1.bccf66p-11, 0x1.d88750p-14, -0x1.445f48p-17});
  Value* near_zero = m.fma(near_poly, x, x);
  Value* y = m.at_most(magnitude, 3.95);
  Value* log_erfc = m.polynomial(y, {0x1.59b11ep-12, -0x1.2159a4p+0, -0x1.43752ap-1, -0x1.c32ebap-4, 0x1.b195f8p-6,
                                     -0x1.38f5c4p-8, 0x1.3abf1cp-11, -0x1.86066ap-15, 0x1.bda53cp-20});
  Value* far = m.sub(m.constant(1.0), emit_exp(m, log_erfc));
  return m.select(b.CreateFCmpULT(magnitude, m.constant(1.0)), near_zero, m.copysign(far, x));
}

// Through f64, whose error disappears in the one rounding to f32.
Value* emit_rsqrt(MathBuilder& m, Value* x) {
  auto& b = m.b;
  llvm::Type* wide = m.type()->getWithNewType(b.getDoubleTy());
  Value* root = b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, b.CreateFPExt(x, wide));
  return b.CreateFPTrunc(b.CreateFDiv(llvm::ConstantFP::get(wide, 1.0), root), m.type());
}

llvm::Intrinsic::ID rounding_intrinsic(MathFn fn) {
  switch (fn) {
    case MathFn::kSqrt:
      return llvm::Intrinsic::sqrt;
    case MathFn::kFloor:
      return llvm::Intrinsic::floor;
    case MathFn::kCeil:
      return llvm::Intrinsic::ceil;
    case MathFn::kRound:
      return llvm::Intrinsic::roundeven;
    case MathFn::kTrunc:
      return llvm::Intrinsic::trunc;
    default:
      return llvm::Intrinsic::not_intrinsic;
  }
}

const char* libm_name(MathFn fn) {
  switch (fn) {
    case MathFn::kExp:
      return "exp";
    case MathFn::kExp2:
      return "exp2";
    case MathFn::kLog:
      return "log";
    case MathFn::kLog2:
      return "log2";
    case MathFn::kSin:
      return "sin";
    case MathFn::kCos:
      return "cos";
    case MathFn::kTanh:
      return "tanh";
    case MathFn::kErf:
      return "erf";
    default:
      return nullptr;
  }
}

}  // namespace

Value* emit_math_f32(llvm::IRBuilder<>& b, MathFn fn, Value* x, const MathOptions& options) {
  MathBuilder m(b, x->getType(), options);
  switch (fn) {
    case MathFn::kExp:
      return emit_exp(m, x);
    case MathFn::kExp2:
      return emit_exp2(m, x);
    case MathFn::kLog:
      return emit_log(m, x, false);
    case MathFn::kLog2:
      return emit_log(m, x, true);
    case MathFn::kSin:
      return emit_sin_cos(m, x, false);
    case MathFn::kCos:
      return emit_sin_cos(m, x, true);
    case MathFn::kTanh:
      return emit_tanh(m, x);
    case MathFn::kErf:
      return emit_erf(m, x);
    case MathFn::kRsqrt:
      return emit_rsqrt(m, x);
    default:
      return b.CreateUnaryIntrinsic(rounding_intrinsic(fn), x);
  }
}

Value* emit_math_f64(llvm::IRBuilder<>& b, MathFn fn, Value* x) {
  if (auto id = rounding_intrinsic(fn); id != llvm::Intrinsic::not_intrinsic) return b.CreateUnaryIntrinsic(id, x);
  if (fn == MathFn::kRsqrt) {
    return b.CreateFDiv(llvm::ConstantFP::get(x->getType(), 1.0), b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x));
  }
  llvm::Module* module = b.GetInsertBlock()->getModule();
  auto callee =
      module->getOrInsertFunction(libm_name(fn), llvm::FunctionType::get(b.getDoubleTy(), {b.getDoubleTy()}, false));
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (!vector) return b.CreateCall(callee, {x});
  Value* out = llvm::PoisonValue::get(vector);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    out = b.CreateInsertElement(out, b.CreateCall(callee, {b.CreateExtractElement(x, lane)}), lane);
  }
  return out;
}

}  // namespace kiln::codegen
