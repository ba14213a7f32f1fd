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

Value* bits_of(Builder& b, ElementType element, Value* x) {
  return b.CreateBitCast(x, like(x, b.getIntNTy(static_cast<unsigned>(dsl::info(element).bits))));
}

llvm::Constant* sign_of(ElementType element, Value* like_this) {
  return int_constant(like_this, uint64_t{1} << (dsl::info(element).bits - 1));
}

Value* is_nan(Builder& b, ElementType element, Value* bits) {
  Value* magnitude = b.CreateAnd(bits, b.CreateNot(sign_of(element, bits)));
  return b.CreateICmpUGT(magnitude, int_constant(bits, greatest_bits(element)));
}

// Sign and magnitude: negative numbers reversed, positive ones above them.
Value* float_keys(Builder& b, ElementType element, Value* x) {
  Value* bits = bits_of(b, element, x);
  Value* nan = is_nan(b, element, bits);
  auto *zero = int_constant(bits, 0), *sign = sign_of(element, bits);
  bits = b.CreateSelect(b.CreateICmpEQ(bits, sign), zero, bits);
  Value* negative = b.CreateICmpSLT(bits, zero);
  Value* keys = b.CreateSelect(negative, b.CreateNot(bits), b.CreateOr(bits, sign));
  return b.CreateSelect(nan, llvm::Constant::getAllOnesValue(bits->getType()), keys);
}

}  // namespace

Value* order_keys(Builder& b, ElementType element, bool descending, Value* x) {
  Value* keys = to_memory(b, x);
  if (dsl::is_float(element)) {
    keys = float_keys(b, element, x);
  } else if (dsl::info(element).is_signed) {
    keys = b.CreateXor(x, sign_of(element, x));
  }
  return descending ? b.CreateNot(keys) : keys;
}

Value* elements_of(Builder& b, ElementType element, bool descending, Value* keys) {
  if (descending) keys = b.CreateNot(keys);
  if (!dsl::is_float(element)) return dsl::info(element).is_signed ? b.CreateXor(keys, sign_of(element, keys)) : keys;
  Value* positive = b.CreateICmpSLT(keys, int_constant(keys, 0));
  Value* bits = b.CreateSelect(positive, b.CreateXor(keys, sign_of(element, keys)), b.CreateNot(keys));
  Value* nan = b.CreateICmpEQ(keys, llvm::Constant::getAllOnesValue(keys->getType()));
  return b.CreateSelect(nan, int_constant(keys, nan_bits(element)), bits);
}

Value* are_ambiguous(Builder& b, ElementType element, Value* x) {
  if (!dsl::is_float(element)) return nullptr;
  Value* bits = bits_of(b, element, x);
  Value* other_nan = b.CreateAnd(is_nan(b, element, bits), b.CreateICmpNE(bits, int_constant(bits, nan_bits(element))));
  return b.CreateOr(other_nan, b.CreateICmpEQ(bits, sign_of(element, bits)));
}

}  // namespace kiln::codegen
