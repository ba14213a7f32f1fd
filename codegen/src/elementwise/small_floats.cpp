// f8 to f32 and back, and stochastic rounding to the floats below 32 bits. Formats: OCP 8-bit floating point, 2023
// (e4m3 has no infinity; its NaN is all ones).
#include "elementwise/small_floats.h"

#include <llvm/IR/Intrinsics.h>

#include "elementwise/conversions.h"

namespace kiln::codegen {
namespace {

struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  uint64_t infinity() const { return ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits; }
  uint64_t sign() const { return uint64_t{1} << (bits() - 1); }
  // The first code beyond the finite numbers: infinity, or NaN.
  uint64_t beyond() const { return has_infinity ? infinity() : sign() - 1; }
  uint64_t nan() const { return has_infinity ? infinity() | (uint64_t{1} << (mantissa_bits - 1)) : sign() - 1; }
};

Format format_of(ElementType element) {
  switch (element) {
    case ElementType::kF16:
      return {5, 10, true};
    case ElementType::kBF16:
      return {8, 7, true};
    case ElementType::kF8E4M3:
      return {4, 3, false};
    default:
      return {5, 2, true};
  }
}

uint64_t f32_exponent(int exponent) { return static_cast<uint64_t>(exponent + 127) << 23; }

// The code of a magnitude that was rounded, with what lies beyond the finite numbers, NaN and the sign put right.
Value* finish(Builder& ir, const Format& format, Value* x, Value* code, bool saturate) {
  Value* bits = ir.CreateBitCast(x, like(x, ir.getInt32Ty()));
  const uint64_t largest = saturate && format.bits() == 8 ? format.beyond() - 1 : format.beyond();
  code = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, code, int_constant(code, largest));
  code = ir.CreateSelect(ir.CreateFCmpUNO(x, x), int_constant(code, format.nan()), code);
  Value* sign = ir.CreateAnd(ir.CreateLShr(bits, int_constant(bits, static_cast<uint64_t>(32 - format.bits()))),
                             int_constant(bits, format.sign()));
  return ir.CreateTrunc(ir.CreateOr(code, sign), like(x, ir.getIntNTy(static_cast<unsigned>(format.bits()))));
}

}  // namespace

// Either format is the upper part of an f16 but for the exponent's bias.
Value* f8_to_f32(ElementContext& ctx, Builder& ir, ElementType element, Value* x) {
  Value* bits = ir.CreateZExt(x, like(x, ir.getInt16Ty()));
  auto as_f32 = [&](Value* half) {
    return to_f32(ctx, ir, ElementType::kF16, ir.CreateBitCast(half, like(x, ir.getHalfTy())));
  };
  if (element == ElementType::kF8E5M2) return as_f32(ir.CreateShl(bits, int_constant(bits, 8)));
  Value* magnitude = ir.CreateAnd(bits, int_constant(bits, 0x7f));
  Value* sign = ir.CreateShl(ir.CreateAnd(bits, int_constant(bits, 0x80)), int_constant(bits, 8));
  Value* small = as_f32(ir.CreateOr(ir.CreateShl(magnitude, int_constant(bits, 7)), sign));
  Value* value = ir.CreateFMul(small, llvm::ConstantFP::get(small->getType(), 256.0));
  Value* is_nan = ir.CreateICmpEQ(magnitude, int_constant(bits, 0x7f));
  Value* nan = ir.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, llvm::ConstantFP::getNaN(value->getType()), value);
  return ir.CreateSelect(is_nan, nan, value);
}

Value* f32_to_f8(Builder& ir, ElementType element, Value* x, bool saturate) {
  const Format format = format_of(element);
  Value* bits = ir.CreateBitCast(x, like(x, ir.getInt32Ty()));
  Value* magnitude = ir.CreateAnd(bits, int_constant(bits, 0x7fffffff));
  const auto dropped = static_cast<uint64_t>(23 - format.mantissa_bits);
  // Normal results: rebias, and round the dropped bits away; a carry into the exponent is right.
  Value* odd = ir.CreateAnd(ir.CreateLShr(magnitude, int_constant(bits, dropped)), int_constant(bits, 1));
  const uint64_t rebias = (uint64_t{1} << (dropped - 1)) - 1 - (static_cast<uint64_t>(127 - format.bias()) << 23);
  Value* biased = ir.CreateAdd(magnitude, int_constant(bits, static_cast<uint32_t>(rebias)));
  Value* normal = ir.CreateLShr(ir.CreateAdd(biased, odd), int_constant(bits, dropped));
  // Subnormal results: adding this power of two puts the last bit of the f8 at the last bit of the f32.
  const uint64_t power = f32_exponent(24 - format.bias() - format.mantissa_bits);
  Value* sum = ir.CreateFAdd(ir.CreateBitCast(magnitude, x->getType()),
                             ir.CreateBitCast(int_constant(bits, power), x->getType()));
  Value* subnormal = ir.CreateSub(ir.CreateBitCast(sum, bits->getType()), int_constant(bits, power));
  Value* is_subnormal = ir.CreateICmpULT(magnitude, int_constant(bits, f32_exponent(1 - format.bias())));
  return finish(ir, format, x, ir.CreateSelect(is_subnormal, subnormal, normal), saturate);
}

// |result| = floor(|x|/u + random·2^-32)·u with u the spacing of the result's type at |x|, in integers.
Value* emit_stochastic_cast(ElementContext& ctx, Builder& ir, Value* x, ElementType from, ElementType to, Value* random,
                            bool saturate) {
  const Format format = format_of(to);
  if (dsl::is_small_float(from)) x = to_f32(ctx, ir, from, x);
  Value* bits = ir.CreateBitCast(x, like(x, ir.getInt32Ty()));
  auto constant = [&](uint64_t value) { return int_constant(bits, value); };
  Value* magnitude = ir.CreateAnd(bits, constant(0x7fffffff));
  // |x| = significand · 2^(exponent - 150), exponent 1 for subnormals.
  Value* field = ir.CreateLShr(magnitude, constant(23));
  Value* exponent = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umax, field, constant(1));
  Value* hidden = ir.CreateSelect(ir.CreateICmpNE(field, constant(0)), constant(1u << 23), constant(0));
  Value* significand = ir.CreateOr(ir.CreateAnd(magnitude, constant(0x7fffff)), hidden);
  // The result's exponent field (1 for its subnormals), and how many bits of the significand lie below its last one.
  const int rebias = 127 - format.bias();
  Value* result_field = ir.CreateSub(exponent, constant(static_cast<uint64_t>(rebias)));
  result_field = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, result_field, constant(1));
  const int kept = format.mantissa_bits;
  Value* dropped =
      ir.CreateSub(ir.CreateAdd(result_field, constant(static_cast<uint64_t>(rebias + 23 - kept))), exponent);
  dropped = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, dropped, constant(63));
  // In steps of 2^-32 of the spacing; what is finer cannot carry.
  llvm::Type* wide = like(x, ir.getInt64Ty());
  Value* steps = ir.CreateShl(ir.CreateZExt(significand, wide), llvm::ConstantInt::get(wide, 32));
  steps = ir.CreateAdd(ir.CreateLShr(steps, ir.CreateZExt(dropped, wide)), ir.CreateZExt(random, wide));
  Value* whole = ir.CreateTrunc(ir.CreateLShr(steps, llvm::ConstantInt::get(wide, 32)), bits->getType());
  Value* base = ir.CreateShl(ir.CreateSub(result_field, constant(1)), constant(static_cast<uint64_t>(kept)));
  Value* code = ir.CreateAdd(whole, base);
  Value* is_infinite = ir.CreateICmpEQ(magnitude, constant(0x7f800000));
  code = finish(ir, format, x, ir.CreateSelect(is_infinite, constant(format.beyond()), code), saturate);
  return ir.CreateBitCast(code, like(x, memory_type(ir.getContext(), to, false)));
}

}  // namespace kiln::codegen
