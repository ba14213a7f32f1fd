// Errors of the instructions: 1 ulp of v_rcp_f32, v_rsq_f32, v_sqrt_f32, v_exp_f32 and v_log_f32 (AMD's ISA guides,
// "Vector ALU Instructions"; results below the normal numbers may be flushed). v_sin_f32 has no bound there: sines are
// polynomials.
//
// The f8 of gfx950 and gfx12 are OCP's. Those of gfx942 are others, and what it would take to translate them costs what
// a conversion does.
#include "amdgcn/elements.h"

#include <llvm/IR/IntrinsicsAMDGPU.h>

#include "elementwise/conversions.h"
#include "elementwise/small_floats.h"

namespace kiln::codegen::amdgcn {
namespace {

using dsl::ElementType;
using llvm::Value;
using Builder = llvm::IRBuilder<>;

Value* constant(Value* x, double value) { return llvm::ConstantFP::get(x->getType(), value); }

Value* fma(Builder& ir, Value* x, Value* y, Value* z) {
  return ir.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

// For |x| ≤ π/2: Taylor's series to x^11, off by less than (π/2)^13/13! < 2^-24.
Value* sine_of_quarter(Builder& ir, Value* x) {
  constexpr double kTerms[] = {-1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6};
  Value* square = ir.CreateFMul(x, x);
  Value* sum = constant(x, kTerms[0]);
  for (size_t i = 1; i < std::size(kTerms); ++i) sum = fma(ir, sum, square, constant(x, kTerms[i]));
  return fma(ir, ir.CreateFMul(sum, square), x, x);
}

// |x|, or π where that is less: what is reduced badly, as `fast` may, stays in the range of the polynomials.
Value* magnitude_in_range(Builder& ir, Value* x) {
  Value *magnitude = ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x), *pi = constant(x, 3.14159274101257324219);
  return ir.CreateSelect(ir.CreateFCmpOGT(magnitude, pi), pi, magnitude);
}

// For |x| ≤ π: sin |x| = sin(π - |x|), in which π has the low bits that it loses as an f32.
Value* sine(Builder& ir, Value* x) {
  constexpr double kPi = 3.14159274101257324219, kPiLow = -8.74227765734758577e-8;
  Value* magnitude = magnitude_in_range(ir, x);
  Value* rest = ir.CreateFAdd(ir.CreateFSub(constant(x, kPi), magnitude), constant(x, kPiLow));
  Value* beyond = ir.CreateFCmpOGT(magnitude, constant(x, kPi / 2));
  Value* reduced = ir.CreateSelect(beyond, rest, magnitude);
  return ir.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, sine_of_quarter(ir, reduced), x);
}

// cos x = sin(π/2 - |x|), of at most π/2 either way.
Value* cosine(Builder& ir, Value* x) {
  constexpr double kHalfPi = 1.57079637050628662109, kHalfPiLow = -4.37113882867379288e-8;
  Value* magnitude = magnitude_in_range(ir, x);
  Value* rest = ir.CreateFAdd(ir.CreateFSub(constant(x, kHalfPi), magnitude), constant(x, kHalfPiLow));
  return sine_of_quarter(ir, rest);
}

// v_rsq_f32 takes subnormals for zero, whose root is none: they come to it as normal numbers.
Value* inverse_root(Builder& ir, Value* x) {
  Value* tiny = ir.CreateFCmpOLT(x, constant(x, 0x1p-126));
  Value* normal = ir.CreateSelect(tiny, ir.CreateFMul(x, constant(x, 0x1p24)), x);
  Value* root = ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_rsq, {x->getType()}, {normal});
  return ir.CreateSelect(tiny, ir.CreateFMul(root, constant(x, 0x1p12)), root);
}

}  // namespace

Value* emit_estimate(Builder& ir, Estimate function, Value* x) {
  const auto call = [&](llvm::Intrinsic::ID id) -> Value* { return ir.CreateIntrinsic(id, {x->getType()}, {x}); };
  switch (function) {
    case Estimate::kReciprocal:
      return call(llvm::Intrinsic::amdgcn_rcp);
    case Estimate::kRsqrt:
      return inverse_root(ir, x);
    case Estimate::kSqrt:
      return call(llvm::Intrinsic::amdgcn_sqrt);
    case Estimate::kExp2:
      return call(llvm::Intrinsic::amdgcn_exp2);
    case Estimate::kLog2:
      return call(llvm::Intrinsic::amdgcn_log);
    case Estimate::kSin:
      return sine(ir, x);
    case Estimate::kCos:
      return cosine(ir, x);
  }
  llvm_unreachable("an estimate without an instruction");
}

namespace {

bool is_f8(ElementType element) { return dsl::is_float(element) && dsl::info(element).bits == 8; }

Value* f8_to_f32(Builder& ir, ElementType from, Value* x) {
  if (!is_f8(from)) return nullptr;
  const auto id =
      from == ElementType::kF8E4M3 ? llvm::Intrinsic::amdgcn_cvt_f32_fp8 : llvm::Intrinsic::amdgcn_cvt_f32_bf8;
  return ir.CreateIntrinsic(id, {ir.CreateZExt(x, ir.getInt32Ty()), ir.getInt32(0)});
}

// What overflows the instruction, so it is clamped before; NaN stays.
Value* f32_to_f8(Builder& ir, ElementType to, Value* x, bool saturate) {
  if (!is_f8(to) || !saturate) return nullptr;
  const bool is_e4m3 = to == ElementType::kF8E4M3;
  const double largest = is_e4m3 ? 448 : 57344;
  Value* below = ir.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, x, constant(x, largest));
  Value* clamped = ir.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, below, constant(x, -largest));
  Value* kept = ir.CreateSelect(ir.CreateFCmpUNO(x, x), x, clamped);
  const auto id = is_e4m3 ? llvm::Intrinsic::amdgcn_cvt_pk_fp8_f32 : llvm::Intrinsic::amdgcn_cvt_pk_bf8_f32;
  Value* pair = ir.CreateIntrinsic(id, {kept, kept, ir.getInt32(0), ir.getFalse()});
  return ir.CreateTrunc(pair, ir.getInt8Ty());
}

// Rounded in place, in the upper half of a word: `v_perm_b32` takes two at once.
Value* f32_to_bf16(Builder& ir, Value* x) {
  Value* bits = ir.CreateBitCast(x, ir.getInt32Ty());
  Value* odd = ir.CreateAnd(ir.CreateLShr(bits, 16), 1);
  Value* rounded = ir.CreateAdd(ir.CreateAdd(bits, odd), ir.getInt32(0x7fff));
  Value* kept = ir.CreateSelect(ir.CreateFCmpUNO(x, x), ir.CreateOr(bits, 0x400000), rounded);
  return ir.CreateTrunc(ir.CreateLShr(kept, 16), ir.getInt16Ty());
}

Value* from_f32_without_f8(Builder& ir, ElementType to, Value* x, bool) {
  return to == ElementType::kBF16 ? f32_to_bf16(ir, x) : nullptr;
}

Value* from_f32(Builder& ir, ElementType to, Value* x, bool saturate) {
  return to == ElementType::kBF16 ? f32_to_bf16(ir, x) : f32_to_f8(ir, to, x, saturate);
}

}  // namespace

SmallFloatInstructions small_float_instructions(const Processor& processor) {
  if (!processor.has_ocp_f8()) return {from_f32_without_f8, nullptr};
  return {from_f32, f8_to_f32};
}

}  // namespace kiln::codegen::amdgcn
