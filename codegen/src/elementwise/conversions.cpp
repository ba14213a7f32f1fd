// Conversions between element types on registers, scalars and vectors alike.
#include "elementwise/conversions.h"

#include <llvm/IR/Intrinsics.h>

#include <cmath>

#include "elementwise/small_floats.h"

namespace kiln::codegen {
namespace {

using dsl::info;
using dsl::is_float;
using dsl::is_small_float;

// bf16 is the upper half of an f32.
Value* bf16_to_f32(Builder& ir, Value* x) {
  Value* wide = ir.CreateZExt(x, like(x, ir.getInt32Ty()));
  return ir.CreateBitCast(ir.CreateShl(wide, int_constant(wide, 16)), like(x, ir.getFloatTy()));
}

// Round to nearest even by hand: the hardware instruction flushes subnormals.
Value* f32_to_bf16(Builder& ir, Value* x) {
  Value* bits = ir.CreateBitCast(x, like(x, ir.getInt32Ty()));
  Value* odd = ir.CreateAnd(ir.CreateLShr(bits, int_constant(bits, 16)), int_constant(bits, 1));
  Value* rounded =
      ir.CreateLShr(ir.CreateAdd(bits, ir.CreateAdd(odd, int_constant(bits, 0x7fff))), int_constant(bits, 16));
  Value* quiet = ir.CreateOr(ir.CreateLShr(bits, int_constant(bits, 16)), int_constant(bits, 0x40));
  return ir.CreateTrunc(ir.CreateSelect(ir.CreateFCmpUNO(x, x), quiet, rounded), like(x, ir.getInt16Ty()));
}

// Without conversion instructions LLVM would call functions of a runtime library that the kernel is not linked with.
Value* f16_to_f32_by_hand(Builder& ir, Value* x) {
  Value* bits = ir.CreateZExt(ir.CreateBitCast(x, like(x, ir.getInt16Ty())), like(x, ir.getInt32Ty()));
  Value* magnitude = ir.CreateShl(ir.CreateAnd(bits, int_constant(bits, 0x7fff)), int_constant(bits, 13));
  // The exponent's bias differs by 112; multiplying by a power of two corrects it, subnormals included.
  Value* finite = ir.CreateFMul(ir.CreateBitCast(magnitude, like(x, ir.getFloatTy())),
                                llvm::ConstantFP::get(like(x, ir.getFloatTy()), 0x1p112));
  Value* special = ir.CreateOr(magnitude, int_constant(bits, 0x7f800000));
  Value* is_special = ir.CreateICmpUGE(magnitude, int_constant(bits, 0x0f800000));
  Value* result = ir.CreateSelect(is_special, special, ir.CreateBitCast(finite, bits->getType()));
  Value* sign = ir.CreateShl(ir.CreateAnd(bits, int_constant(bits, 0x8000)), int_constant(bits, 16));
  return ir.CreateBitCast(ir.CreateOr(result, sign), like(x, ir.getFloatTy()));
}

Value* f32_to_f16_by_hand(Builder& ir, Value* x) {
  Value* bits = ir.CreateBitCast(x, like(x, ir.getInt32Ty()));
  Value* magnitude = ir.CreateAnd(bits, int_constant(bits, 0x7fffffff));
  // Normal results: rebias, then round the 13 bits away; a carry into the exponent is right, up to infinity.
  Value* odd = ir.CreateAnd(ir.CreateLShr(magnitude, int_constant(bits, 13)), int_constant(bits, 1));
  Value* biased = ir.CreateAdd(magnitude, int_constant(bits, 0xc8000fffu));
  Value* normal = ir.CreateLShr(ir.CreateAdd(biased, odd), int_constant(bits, 13));
  // Subnormal results: adding ½ puts the last bit of an f16 at the last bit of the f32 and rounds there.
  Value* half = llvm::ConstantFP::get(x->getType(), 0.5);
  Value* sum = ir.CreateFAdd(ir.CreateBitCast(magnitude, x->getType()), half);
  Value* subnormal = ir.CreateSub(ir.CreateBitCast(sum, bits->getType()), int_constant(bits, 0x3f000000));
  Value* result = ir.CreateSelect(ir.CreateICmpULT(magnitude, int_constant(bits, 0x38800000)), subnormal, normal);
  result =
      ir.CreateSelect(ir.CreateICmpUGE(magnitude, int_constant(bits, 0x47800000)), int_constant(bits, 0x7c00), result);
  result =
      ir.CreateSelect(ir.CreateICmpUGT(magnitude, int_constant(bits, 0x7f800000)), int_constant(bits, 0x7e00), result);
  result = ir.CreateOr(result, ir.CreateAnd(ir.CreateLShr(bits, int_constant(bits, 16)), int_constant(bits, 0x8000)));
  return ir.CreateBitCast(ir.CreateTrunc(result, like(x, ir.getInt16Ty())), like(x, ir.getHalfTy()));
}

// f64 to f32 rounding to odd: a second rounding to a shorter format then gives the result of a single one.
Value* f64_to_f32_odd(Builder& ir, Value* x) {
  Value* nearest = ir.CreateFPTrunc(x, like(x, ir.getFloatTy()));
  Value* back = ir.CreateFPExt(nearest, x->getType());
  Value* bits = ir.CreateBitCast(nearest, like(x, ir.getInt32Ty()));
  auto magnitude = [&](Value* v) { return ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v); };
  Value* away = ir.CreateFCmpOGT(magnitude(back), magnitude(x));
  Value* toward_zero = ir.CreateSelect(away, ir.CreateSub(bits, int_constant(bits, 1)), bits);
  Value* odd = ir.CreateOr(toward_zero, int_constant(bits, 1));
  Value* exact = ir.CreateFCmpUEQ(back, x);
  return ir.CreateBitCast(ir.CreateSelect(exact, bits, odd), nearest->getType());
}

// As fptosi.sat and fptoui.sat, which LLVM takes a vector's elements apart for where no instruction saturates.
Value* vector_to_int(Builder& ir, Value* x, ElementType to) {
  const auto bits = static_cast<int>(info(to).bits);
  const bool is_signed = info(to).is_signed, is_f64 = x->getType()->getScalarType()->isDoubleTy();
  const double low = is_signed ? -std::ldexp(1.0, bits - 1) : 0, end = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  const auto real = [&](double value) { return llvm::ConstantFP::get(x->getType(), value); };
  llvm::Type* type = like(x, ir.getIntNTy(static_cast<unsigned>(bits)));
  const auto convert = [&](Value* value) {
    llvm::Type* wide = bits < 32 ? like(x, ir.getInt32Ty()) : type;
    return is_signed || bits < 32 ? ir.CreateFPToSI(value, wide) : ir.CreateFPToUI(value, wide);
  };
  const auto no_nan = [&](Value* value) {
    if (!is_signed) return value;  // NaN is not above 0
    return ir.CreateSelect(ir.CreateFCmpORD(x, x), value, llvm::Constant::getNullValue(value->getType()));
  };
  if (bits - (is_signed ? 1 : 0) <= (is_f64 ? 53 : 24)) {  // both ends are floats
    Value* up = is_signed ? ir.CreateSelect(ir.CreateFCmpOLT(x, real(low)), real(low), x)
                          : ir.CreateSelect(ir.CreateFCmpOGT(x, real(low)), x, real(low));
    Value* inside = ir.CreateSelect(ir.CreateFCmpOGT(up, real(end - 1)), real(end - 1), up);
    return ir.CreateTrunc(convert(no_nan(inside)), type);
  }
  // Of what does not fit the conversion gives anything, which is not chosen.
  const auto width = static_cast<unsigned>(bits);
  const auto integer = [&](const llvm::APInt& value) { return llvm::ConstantInt::get(type, value); };
  Value* converted = convert(x);
  Value* up = is_signed ? ir.CreateSelect(ir.CreateFCmpOLT(x, real(low)),
                                          integer(llvm::APInt::getSignedMinValue(width)), converted)
                        : ir.CreateSelect(ir.CreateFCmpOGT(x, real(low)), converted, integer(llvm::APInt(width, 0)));
  const llvm::APInt last = is_signed ? llvm::APInt::getSignedMaxValue(width) : llvm::APInt::getMaxValue(width);
  return no_nan(ir.CreateSelect(ir.CreateFCmpOGE(x, real(end)), integer(last), up));
}

Value* float_to_int(const ElementContext& ctx, Builder& ir, Value* x, ElementType to) {
  if (to == ElementType::kI1) return ir.CreateFCmpUNE(x, llvm::Constant::getNullValue(x->getType()));
  const auto bits = static_cast<int>(info(to).bits);
  const bool narrows = bits < (x->getType()->getScalarType()->isDoubleTy() ? 64 : ctx.least_saturated_bits);
  if (x->getType()->isVectorTy() && (narrows || !ctx.saturates_vectors)) return vector_to_int(ir, x, to);
  llvm::Type* type = like(x, ir.getIntNTy(static_cast<unsigned>(info(to).bits)));
  return ir.CreateIntrinsic(info(to).is_signed ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat,
                            {type, x->getType()}, {x});
}

Value* int_to_int(Builder& ir, Value* x, ElementType from, ElementType to) {
  if (to == ElementType::kI1) return ir.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
  llvm::Type* type = like(x, ir.getIntNTy(static_cast<unsigned>(info(to).bits)));
  return info(from).is_signed ? ir.CreateSExtOrTrunc(x, type) : ir.CreateZExtOrTrunc(x, type);
}

// An int of 64 bits whose conversion to f64 is exact, for a later rounding to a short format: what does not fit is
// gathered in the last bit that does.
Value* with_sticky_bit(Builder& ir, Value* x, bool is_signed) {
  constexpr uint64_t kLost = 0x7ff;
  auto* zero = int_constant(x, 0);
  Value* lost = ir.CreateICmpNE(ir.CreateAnd(x, int_constant(x, kLost)), zero);
  Value* kept =
      ir.CreateOr(ir.CreateAnd(x, int_constant(x, ~kLost)), ir.CreateSelect(lost, int_constant(x, kLost + 1), zero));
  constexpr int64_t kExact = int64_t{1} << 53;
  Value* fits = is_signed ? ir.CreateAnd(ir.CreateICmpSGE(x, int_constant(x, static_cast<uint64_t>(-kExact))),
                                         ir.CreateICmpSLE(x, int_constant(x, static_cast<uint64_t>(kExact))))
                          : ir.CreateICmpULE(x, int_constant(x, static_cast<uint64_t>(kExact)));
  return ir.CreateSelect(fits, x, kept);
}

}  // namespace

Value* to_f32(ElementContext& ctx, Builder& ir, ElementType element, Value* x) {
  if (ctx.small_floats.to_f32) {
    if (Value* value = ctx.small_floats.to_f32(ir, element, x)) return value;
  }
  if (info(element).bits == 8) return f8_to_f32(ctx, ir, element, x);
  if (element == ElementType::kBF16) return bf16_to_f32(ir, x);
  return ctx.converts_f16 ? ir.CreateFPExt(x, like(x, ir.getFloatTy())) : f16_to_f32_by_hand(ir, x);
}

Value* from_f32(ElementContext& ctx, Builder& ir, ElementType element, Value* x, bool saturate) {
  if (ctx.small_floats.from_f32) {
    if (Value* value = ctx.small_floats.from_f32(ir, element, x, saturate)) return value;
  }
  if (info(element).bits == 8) return f32_to_f8(ir, element, x, saturate);
  if (element == ElementType::kBF16) return f32_to_bf16(ir, x);
  return ctx.converts_f16 ? ir.CreateFPTrunc(x, like(x, ir.getHalfTy())) : f32_to_f16_by_hand(ir, x);
}

Value* emit_cast(ElementContext& ctx, Builder& ir, Value* x, ElementType from, ElementType to, bool saturate) {
  if (from == to) return x;
  if (!is_float(from) && !is_float(to)) return int_to_int(ir, x, from, to);
  if (!is_float(from)) {
    // Small floats by way of f64 and odd rounding: one rounding in effect.
    llvm::Type* wide = like(x, to == ElementType::kF32 ? ir.getFloatTy() : ir.getDoubleTy());
    if (is_small_float(to) && info(from).bits == 64) x = with_sticky_bit(ir, x, info(from).is_signed);
    Value* value = info(from).is_signed ? ir.CreateSIToFP(x, wide) : ir.CreateUIToFP(x, wide);
    return is_small_float(to) ? from_f32(ctx, ir, to, f64_to_f32_odd(ir, value), saturate) : value;
  }
  if (is_small_float(from)) {
    x = to_f32(ctx, ir, from, x);
    from = ElementType::kF32;
    if (from == to) return x;
  }
  if (!is_float(to)) return float_to_int(ctx, ir, x, to);
  if (is_small_float(to)) return from_f32(ctx, ir, to, from == ElementType::kF64 ? f64_to_f32_odd(ir, x) : x, saturate);
  return to == ElementType::kF64 ? ir.CreateFPExt(x, like(x, ir.getDoubleTy()))
                                 : ir.CreateFPTrunc(x, like(x, ir.getFloatTy()));
}

}  // namespace kiln::codegen
