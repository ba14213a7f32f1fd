// Keys of elements of every type: NaN above all numbers, both zeros alike.
#include "elementwise/order_keys.h"

namespace kiln::codegen {
namespace {

// The bits of infinity, or where there is none of the greatest number.
uint64_t greatest_bits(ElementType element) {
  switch (element) {
    case ElementType::kF8E4M3:
      return 0x7e;
    case ElementType::kF8E5M2:
      return 0x7c;
    case ElementType::kF16:
      return 0x7c00;
    case ElementType::kBF16:
      return 0x7f80;
    case ElementType::kF32:
      return 0x7f800000;
    default:
      return 0x7ff0000000000000;
  }
}

// The bits of the NaN that ops make.
uint64_t nan_bits(ElementType element) {
  const uint64_t infinity = greatest_bits(element);
  switch (element) {
    case ElementType::kF8E4M3:
      return 0x7f;
    case ElementType::kF8E5M2:
      return 0x7e;
    default:
      // The highest bit of the fraction.
      return infinity | (infinity & ~(infinity << 1)) >> 1;
  }
}

Value* bits_of(Builder& ir, ElementType element, Value* x) {
  return ir.CreateBitCast(x, like(x, ir.getIntNTy(static_cast<unsigned>(dsl::info(element).bits))));
}

llvm::Constant* sign_of(ElementType element, Value* like_this) {
  return int_constant(like_this, uint64_t{1} << (dsl::info(element).bits - 1));
}

Value* is_nan(Builder& ir, ElementType element, Value* bits) {
  Value* magnitude = ir.CreateAnd(bits, ir.CreateNot(sign_of(element, bits)));
  return ir.CreateICmpUGT(magnitude, int_constant(bits, greatest_bits(element)));
}

// Sign and magnitude: negative numbers reversed, positive ones above them.
Value* float_keys(Builder& ir, ElementType element, Value* x) {
  Value* bits = bits_of(ir, element, x);
  Value* nan = is_nan(ir, element, bits);
  auto *zero = int_constant(bits, 0), *sign = sign_of(element, bits);
  bits = ir.CreateSelect(ir.CreateICmpEQ(bits, sign), zero, bits);
  Value* negative = ir.CreateICmpSLT(bits, zero);
  Value* keys = ir.CreateSelect(negative, ir.CreateNot(bits), ir.CreateOr(bits, sign));
  return ir.CreateSelect(nan, llvm::Constant::getAllOnesValue(bits->getType()), keys);
}

}  // namespace

Value* order_keys(Builder& ir, ElementType element, bool descending, Value* x) {
  Value* keys = to_memory(ir, x);
  if (dsl::is_float(element)) {
    keys = float_keys(ir, element, x);
  } else if (dsl::info(element).is_signed) {
    keys = ir.CreateXor(x, sign_of(element, x));
  }
  return descending ? ir.CreateNot(keys) : keys;
}

Value* elements_of(Builder& ir, ElementType element, bool descending, Value* keys) {
  if (descending) keys = ir.CreateNot(keys);
  if (!dsl::is_float(element)) return dsl::info(element).is_signed ? ir.CreateXor(keys, sign_of(element, keys)) : keys;
  Value* positive = ir.CreateICmpSLT(keys, int_constant(keys, 0));
  Value* bits = ir.CreateSelect(positive, ir.CreateXor(keys, sign_of(element, keys)), ir.CreateNot(keys));
  Value* nan = ir.CreateICmpEQ(keys, llvm::Constant::getAllOnesValue(keys->getType()));
  return ir.CreateSelect(nan, int_constant(keys, nan_bits(element)), bits);
}

Value* are_ambiguous(Builder& ir, ElementType element, Value* x) {
  if (!dsl::is_float(element)) return nullptr;
  Value* bits = bits_of(ir, element, x);
  Value* other_nan =
      ir.CreateAnd(is_nan(ir, element, bits), ir.CreateICmpNE(bits, int_constant(bits, nan_bits(element))));
  return ir.CreateOr(other_nan, ir.CreateICmpEQ(bits, sign_of(element, bits)));
}

}  // namespace kiln::codegen
