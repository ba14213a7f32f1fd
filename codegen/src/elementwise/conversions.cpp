// Conversions between element types on registers, scalars and vectors alike.
#include "elementwise/conversions.h"

#include <llvm/IR/Intrinsics.h>

#include "elementwise/small_floats.h"

namespace kiln::codegen {
namespace {

using dsl::info;
using dsl::is_float;
using dsl::is_small_float;

// bf16 is the upper half of an f32.
Value* bf16_to_f32(Builder& b, Value* x) {
  Value* wide = b.CreateZExt(x, like(x, b.getInt32Ty()));
  return b.CreateBitCast(b.CreateShl(wide, int_constant(wide, 16)), like(x, b.getFloatTy()));
}

// Round to nearest even by hand: the hardware instruction flushes subnormals.
Value* f32_to_bf16(Builder& b, Value* x) {
  Value* bits = b.CreateBitCast(x, like(x, b.getInt32Ty()));
  Value* odd = b.CreateAnd(b.CreateLShr(bits, int_constant(bits, 16)), int_constant(bits, 1));
  Value* rounded =
      b.CreateLShr(b.CreateAdd(bits, b.CreateAdd(odd, int_constant(bits, 0x7fff))), int_constant(bits, 16));
  Value* quiet = b.CreateOr(b.CreateLShr(bits, int_constant(bits, 16)), int_constant(bits, 0x40));
  return b.CreateTrunc(b.CreateSelect(b.CreateFCmpUNO(x, x), quiet, rounded), like(x, b.getInt16Ty()));
}

// Without conversion instructions LLVM would call functions of a runtime library that the kernel is not linked with.
Value* f16_to_f32_by_hand(Builder& b, Value* x) {
  Value* bits = b.CreateZExt(b.CreateBitCast(x, like(x, b.getInt16Ty())), like(x, b.getInt32Ty()));
  Value* magnitude = b.CreateShl(b.CreateAnd(bits, int_constant(bits, 0x7fff)), int_constant(bits, 13));
  // The exponent's bias differs by 112; multiplying by a power of two corrects it, subnormals included.
  Value* finite = b.CreateFMul(b.CreateBitCast(magnitude, like(x, b.getFloatTy())),
                               llvm::ConstantFP::get(like(x, b.getFloatTy()), 0x1p112));
  Value* special = b.CreateOr(magnitude, int_constant(bits, 0x7f800000));
  Value* is_special = b.CreateICmpUGE(magnitude, int_constant(bits, 0x0f800000));
  Value* result = b.CreateSelect(is_special, special, b.CreateBitCast(finite, bits->getType()));
  Value* sign = b.CreateShl(b.CreateAnd(bits, int_constant(bits, 0x8000)), int_constant(bits, 16));
  return b.CreateBitCast(b.CreateOr(result, sign), like(x, b.getFloatTy()));
}

Value* f32_to_f16_by_hand(Builder& b, Value* x) {
  Value* bits = b.CreateBitCast(x, like(x, b.getInt32Ty()));
  Value* magnitude = b.CreateAnd(bits, int_constant(bits, 0x7fffffff));
  // Normal results: rebias, then round the 13 bits away; a carry into the exponent is right, up to infinity.
  Value* odd = b.CreateAnd(b.CreateLShr(magnitude, int_constant(bits, 13)), int_constant(bits, 1));
  Value* biased = b.CreateAdd(magnitude, int_constant(bits, 0xc8000fffu));
  Value* normal = b.CreateLShr(b.CreateAdd(biased, odd), int_constant(bits, 13));
  // Subnormal results: adding ½ puts the last bit of an f16 at the last bit of the f32 and rounds there.
  Value* half = llvm::ConstantFP::get(x->getType(), 0.5);
  Value* sum = b.CreateFAdd(b.CreateBitCast(magnitude, x->getType()), half);
  Value* subnormal = b.CreateSub(b.CreateBitCast(sum, bits->getType()), int_constant(bits, 0x3f000000));
  Value* result = b.CreateSelect(b.CreateICmpULT(magnitude, int_constant(bits, 0x38800000)), subnormal, normal);
  result =
      b.CreateSelect(b.CreateICmpUGE(magnitude, int_constant(bits, 0x47800000)), int_constant(bits, 0x7c00), result);
  result =
      b.CreateSelect(b.CreateICmpUGT(magnitude, int_constant(bits, 0x7f800000)), int_constant(bits, 0x7e00), result);
  result = b.CreateOr(result, b.CreateAnd(b.CreateLShr(bits, int_constant(bits, 16)), int_constant(bits, 0x8000)));
  return b.CreateBitCast(b.CreateTrunc(result, like(x, b.getInt16Ty())), like(x, b.getHalfTy()));
}

// f64 to f32 rounding to odd: a second rounding to a shorter format then gives the result of a single one.
Value* f64_to_f32_odd(Builder& b, Value* x) {
  Value* nearest = b.CreateFPTrunc(x, like(x, b.getFloatTy()));
  Value* back = b.CreateFPExt(nearest, x->getType());
  Value* bits = b.CreateBitCast(nearest, like(x, b.getInt32Ty()));
  auto magnitude = [&](Value* v) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v); };
  Value* away = b.CreateFCmpOGT(magnitude(back), magnitude(x));
  Value* toward_zero = b.CreateSelect(away, b.CreateSub(bits, int_constant(bits, 1)), bits);
  Value* odd = b.CreateOr(toward_zero, int_constant(bits, 1));
  Value* exact = b.CreateFCmpUEQ(back, x);
  return b.CreateBitCast(b.CreateSelect(exact, bits, odd), nearest->getType());
}

Value* float_to_int(Builder& b, Value* x, ElementType to) {
  if (to == ElementType::kI1) return b.CreateFCmpUNE(x, llvm::Constant::getNullValue(x->getType()));
  llvm::Type* type = like(x, b.getIntNTy(static_cast<unsigned>(info(to).bits)));
  return b.CreateIntrinsic(info(to).is_signed ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat,
                           {type, x->getType()}, {x});
}

Value* int_to_int(Builder& b, Value* x, ElementType from, ElementType to) {
  if (to == ElementType::kI1) return b.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
  llvm::Type* type = like(x, b.getIntNTy(static_cast<unsigned>(info(to).bits)));
  return info(from).is_signed ? b.CreateSExtOrTrunc(x, type) : b.CreateZExtOrTrunc(x, type);
}

// An int of 64 bits whose conversion to f64 is exact, for a later rounding to a short format: what does not fit is
// gathered in the last bit that does.
Value* with_sticky_bit(Builder& b, Value* x, bool is_signed) {
  constexpr uint64_t kLost = 0x7ff;
  auto* zero = int_constant(x, 0);
  Value* lost = b.CreateICmpNE(b.CreateAnd(x, int_constant(x, kLost)), zero);
  Value* kept =
      b.CreateOr(b.CreateAnd(x, int_constant(x, ~kLost)), b.CreateSelect(lost, int_constant(x, kLost + 1), zero));
  constexpr int64_t kExact = int64_t{1} << 53;
  Value* fits = is_signed ? b.CreateAnd(b.CreateICmpSGE(x, int_constant(x, static_cast<uint64_t>(-kExact))),
                                        b.CreateICmpSLE(x, int_constant(x, static_cast<uint64_t>(kExact))))
                          : b.CreateICmpULE(x, int_constant(x, static_cast<uint64_t>(kExact)));
  return b.CreateSelect(fits, x, kept);
}

}  // namespace

Value* to_f32(ElementContext& c, Builder& b, ElementType element, Value* x) {
  if (c.small_floats.to_f32) {
    if (Value* value = c.small_floats.to_f32(b, element, x)) return value;
  }
  if (info(element).bits == 8) return f8_to_f32(c, b, element, x);
  if (element == ElementType::kBF16) return bf16_to_f32(b, x);
  return c.converts_f16 ? b.CreateFPExt(x, like(x, b.getFloatTy())) : f16_to_f32_by_hand(b, x);
}

Value* from_f32(ElementContext& c, Builder& b, ElementType element, Value* x, bool saturate) {
  if (c.small_floats.from_f32) {
    if (Value* value = c.small_floats.from_f32(b, element, x, saturate)) return value;
  }
  if (info(element).bits == 8) return f32_to_f8(b, element, x, saturate);
  if (element == ElementType::kBF16) return f32_to_bf16(b, x);
  return c.converts_f16 ? b.CreateFPTrunc(x, like(x, b.getHalfTy())) : f32_to_f16_by_hand(b, x);
}

Value* emit_cast(ElementContext& c, Builder& b, Value* x, ElementType from, ElementType to, bool saturate) {
  if (from == to) return x;
  if (!is_float(from) && !is_float(to)) return int_to_int(b, x, from, to);
  if (!is_float(from)) {
    // Small floats by way of f64 and odd rounding: one rounding in effect.
    llvm::Type* wide = like(x, to == ElementType::kF32 ? b.getFloatTy() : b.getDoubleTy());
    if (is_small_float(to) && info(from).bits == 64) x = with_sticky_bit(b, x, info(from).is_signed);
    Value* value = info(from).is_signed ? b.CreateSIToFP(x, wide) : b.CreateUIToFP(x, wide);
    return is_small_float(to) ? from_f32(c, b, to, f64_to_f32_odd(b, value), saturate) : value;
  }
  if (is_small_float(from)) {
    x = to_f32(c, b, from, x);
    from = ElementType::kF32;
    if (from == to) return x;
  }
  if (!is_float(to)) return float_to_int(b, x, to);
  if (is_small_float(to)) return from_f32(c, b, to, from == ElementType::kF64 ? f64_to_f32_odd(b, x) : x, saturate);
  return to == ElementType::kF64 ? b.CreateFPExt(x, like(x, b.getDoubleTy()))
                                 : b.CreateFPTrunc(x, like(x, b.getFloatTy()));
}

}  // namespace kiln::codegen
