// Arithmetic on scalars and vectors of f32 and f64 alike, for the functions of this directory: constants and
// polynomials in both precisions, scaling by powers of two, quotients, and error-free transforms.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include <initializer_list>
#include <span>

#include "math/vector_math.h"

namespace kiln::codegen {

// An unevaluated sum; |low| is at most half a unit in the last place of |high|, or a little more.
struct Pair {
  llvm::Value* high;
  llvm::Value* low;
};

// An integer in two forms: as a float, and in the low bits of an integer whose high bits mean nothing.
struct Rounded {
  llvm::Value* value;
  llvm::Value* bits;
};

class MathBuilder {
 public:
  using Value = llvm::Value;
  using Coefficients = std::initializer_list<double>;

  MathBuilder(llvm::IRBuilder<>& builder, llvm::Type* type, const MathOptions& options)
      : b(builder), type_(type), options_(options) {}

  llvm::IRBuilder<>& b;

  llvm::Type* type() const { return type_; }
  llvm::Type* int_type() const { return type_->getWithNewType(b.getIntNTy(is_f64() ? 64 : 32)); }
  bool is_f64() const { return type_->getScalarType()->isDoubleTy(); }
  unsigned lanes() const;
  // "f32.16": names what is generated once a type.
  std::string type_name() const;
  const MathOptions& options() const { return options_; }
  bool has_fma() const { return options_.has_fma; }
  int mantissa_bits() const { return is_f64() ? 52 : 23; }
  int exponent_bias() const { return is_f64() ? 1023 : 127; }
  double smallest_normal() const { return is_f64() ? 0x1p-1022 : 0x1p-126; }

  Value* constant(double value) { return llvm::ConstantFP::get(type_, value); }
  Value* constant(double f32, double f64) { return constant(is_f64() ? f64 : f32); }
  Value* int_constant(int64_t value) { return llvm::ConstantInt::get(int_type(), static_cast<uint64_t>(value), true); }
  Value* infinity() { return llvm::ConstantFP::getInfinity(type_); }
  Value* nan() { return llvm::ConstantFP::getNaN(type_); }

  Value* add(Value* x, Value* y) { return b.CreateFAdd(x, y); }
  Value* sub(Value* x, Value* y) { return b.CreateFSub(x, y); }
  Value* mul(Value* x, Value* y) { return b.CreateFMul(x, y); }
  Value* neg(Value* x) { return b.CreateFNeg(x); }
  // Fused where the target can, else rounded twice.
  Value* fma(Value* x, Value* y, Value* z) {
    if (!has_fma()) return add(mul(x, y), z);
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {x, y, z});
  }
  Value* abs(Value* x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  Value* sqrt(Value* x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x); }
  Value* copysign(Value* magnitude, Value* sign) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
  }
  Value* select(Value* condition, Value* x, Value* y) { return b.CreateSelect(condition, x, y); }
  Value* less(Value* x, Value* y) { return b.CreateFCmpOLT(x, y); }
  Value* greater(Value* x, Value* y) { return b.CreateFCmpOGT(x, y); }
  Value* equal(Value* x, Value* y) { return b.CreateFCmpOEQ(x, y); }
  Value* bits(Value* x) { return b.CreateBitCast(x, int_type()); }
  Value* from_bits(Value* x) { return b.CreateBitCast(x, type_); }
  // NaN in gives NaN out, as `b`: the order that x86's min and max give for free. GPUs have the instruction as it is.
  Value* at_least(Value* x, Value* low) {
    if (has_estimates()) return b.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, x, low);
    return select(greater(low, x), low, x);
  }
  Value* at_most(Value* x, Value* high) {
    if (has_estimates()) return b.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, x, high);
    return select(less(high, x), high, x);
  }

  // c0 + c1·x + c2·x² + …
  Value* polynomial(Value* x, Coefficients coefficients);
  Value* polynomial(Value* x, Coefficients f32, Coefficients f64) { return polynomial(x, is_f64() ? f64 : f32); }

  // x·factor to the nearest integer, for |x·factor| < 2^21 (f64: 2^50); beyond, and for NaN, any number.
  Rounded round_product(Value* x, Value* factor);
  Rounded round_near(Value* x) { return round_product(x, constant(1.0)); }
  // 2^n for n whose result is a normal number; n as in Rounded::bits.
  Value* power_of_two(Value* n);
  // p·2^n, rounded once, for p near 1 and any n that may come up.
  Value* scale(Value* p, const Rounded& n);
  // The same, and 0 where `vanishes`, whatever p and n are there: results below the normal numbers are slow on some
  // CPUs.
  Value* scale_or_zero(Value* p, const Rounded& n, Value* vanishes);
  // A small integer as a float.
  Value* to_float(Value* n);

  // 1 / d to at least 42 bits (f32: 14), where d and 1/d are normal.
  Value* near_reciprocal(Value* d);
  // n / d to 1 ulp, where d and 1/d are normal and n/d does not overflow.
  Value* quotient(Value* n, Value* d);
  // Whether the target has those of MathOptions for this type: f32 scalars.
  bool has_estimates() const { return options_.estimate && type_->isFloatTy(); }
  Value* estimate(Estimate function, Value* x) { return options_.estimate(b, function, x); }
  // 1/√x to 14 bits; nullptr where the target has no estimate for this type.
  Value* rsqrt_estimate(Value* x);

  // True for types whose registers AVX-512's own instructions fill.
  bool fills_avx512() const;
  // x's significand in [0.75, 1.5) and its exponent as floats; ±0 gives exponent -inf, inf gives +inf, NaN and negative
  // numbers NaN. Only where fills_avx512().
  Value* avx512_mantissa(Value* x);
  Value* avx512_exponent(Value* x);
  // table[index mod 16], one instruction; f32 alone.
  Value* avx512_lookup(std::span<const double, 16> table, Value* index);

  // Error-free: the pair is exactly the sum or product (barring overflow; products above the subnormals).
  Pair two_sum(Value* x, Value* y);
  Pair fast_two_sum(Value* x, Value* y);  // |x| ≥ |y|
  Pair two_product(Value* x, Value* y);

 private:
  // c[first] + c[first + step]·x + c[first + 2·step]·x² + …
  Value* horner(Value* x, llvm::ArrayRef<double> coefficients, size_t first, size_t step);
  using EmitRegister = llvm::function_ref<Value*(llvm::ArrayRef<Value*> parts)>;
  // The mask of an AVX-512 instruction that leaves none out.
  Value* every_lane() { return is_f64() ? b.getInt8(0xff) : b.getInt16(0xffff); }
  // p·2^n, 0 where `vanishes`, which may be null.
  Value* avx512_scale(Value* p, Value* n, Value* vanishes);
  // Applies `emit` to the operands 64 bytes at a time.
  Value* by_register(llvm::ArrayRef<Value*> operands, EmitRegister emit);

  llvm::Type* type_;
  MathOptions options_;
};

// exp.cpp
llvm::Value* emit_exp(MathBuilder& m, llvm::Value* x);
llvm::Value* emit_exp2(MathBuilder& m, llvm::Value* x);
llvm::Value* emit_expm1(MathBuilder& m, llvm::Value* x);
// e^x = power · 2^n, power in about [0.7, 1.42].
struct ScaledExp {
  llvm::Value* power;
  Rounded n;
};
// e^(x + low) for x that the caller has clamped so that the result's exponent is at most twice the type's.
ScaledExp scaled_exp(MathBuilder& m, llvm::Value* x, llvm::Value* low = nullptr);
// x + low = n·ln 2 + r + the result's low, |r| ≤ ln2 / 2.
struct ReducedExp {
  Rounded n;
  llvm::Value* r;
  llvm::Value* low;
};
ReducedExp reduce_exp(MathBuilder& m, llvm::Value* x, llvm::Value* low = nullptr);
// e^r - 1 for a reduced argument, with relative accuracy near zero; a null `low` is cheaper by an ulp.
llvm::Value* reduced_expm1(MathBuilder& m, const ReducedExp& reduced);

// log.cpp
llvm::Value* emit_log(MathBuilder& m, dsl::MathFn fn, llvm::Value* x);  // log, log2, log10, log1p

// A positive normal number as 2^exponent · mantissa with the mantissa in [0.75, 1.5).
struct Split {
  llvm::Value* exponent;       // as a float
  llvm::Value* exponent_bits;  // the exponent times 2^(mantissa bits)
  llvm::Value* mantissa;
};
Split split_number(MathBuilder& m, llvm::Value* x);
// The same of any number: exponents of ±0 and inf are infinite, NaN and negative numbers give NaN.
struct Normalised {
  llvm::Value* exponent;
  llvm::Value* mantissa;
};
Normalised normalise(MathBuilder& m, llvm::Value* x);

// trig.cpp
llvm::Value* emit_trig(MathBuilder& m, dsl::MathFn fn, llvm::Value* x);  // sin, cos, tan

// reduce_large.cpp
// {double, i64} kiln.reduce_large(double x) for |x| ≥ 2^18: r in [-π/4, π/4] and n with x = r + n·π/2 (mod 2π). NaN for
// infinities and NaN.
llvm::Function* reduce_large(llvm::Module& module);
// void kiln.reduce_lanes.TYPE(ptr x, ptr r, ptr quadrant): for the lanes with |x| ≥ `large` (and infinities and NaN), r
// and n, in memory; other lanes are left alone.
llvm::Function* reduce_lanes(llvm::Module& module, const MathBuilder& m, double large);

// inverse_trig.cpp
llvm::Value* emit_asin_acos(MathBuilder& m, llvm::Value* x, bool cosine);
llvm::Value* emit_atan(MathBuilder& m, llvm::Value* x);
llvm::Value* emit_atan2(MathBuilder& m, llvm::Value* y, llvm::Value* x);

// hyperbolic.cpp
llvm::Value* emit_sinh_cosh(MathBuilder& m, llvm::Value* x, bool cosine);
llvm::Value* emit_tanh(MathBuilder& m, llvm::Value* x);

// erf.cpp
llvm::Value* emit_erf(MathBuilder& m, llvm::Value* x);
llvm::Value* emit_erfc(MathBuilder& m, llvm::Value* x);

// pow.cpp
llvm::Value* emit_pow(MathBuilder& m, llvm::Value* x, llvm::Value* y);

// roots.cpp
llvm::Value* emit_sqrt(MathBuilder& m, llvm::Value* x);
llvm::Value* emit_rsqrt(MathBuilder& m, llvm::Value* x);
llvm::Value* emit_hypot(MathBuilder& m, llvm::Value* x, llvm::Value* y);

}  // namespace kiln::codegen
