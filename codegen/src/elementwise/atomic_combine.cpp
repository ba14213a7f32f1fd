#include "elementwise/atomic_combine.h"

#include "elementwise/conversions.h"

namespace kiln::codegen {
namespace {

using dsl::AtomicKind;

// A number to reckon with: small floats as f32.
Value* number(ElementContext& c, Builder& b, ElementType element, Value* bits) {
  Value* value = b.CreateBitCast(bits, memory_type(b.getContext(), element, false));
  return dsl::is_small_float(element) ? to_f32(c, b, element, value) : value;
}

// Bits of the smaller or larger of two floats: a NaN before all, -0.0 below +0.0.
Value* extreme(ElementContext& c, Builder& b, bool maximum, ElementType element, Value* old, Value* value) {
  Value *x = number(c, b, element, old), *y = number(c, b, element, value);
  Value* first = maximum ? b.CreateFCmpOGT(x, y) : b.CreateFCmpOLT(x, y);
  // Equal numbers differ by the sign of a zero at most.
  Value* equal = maximum ? b.CreateAnd(old, value) : b.CreateOr(old, value);
  Value* out = b.CreateSelect(b.CreateFCmpOEQ(x, y), equal, b.CreateSelect(first, old, value));
  return b.CreateSelect(b.CreateFCmpUNO(x, x), old, b.CreateSelect(b.CreateFCmpUNO(y, y), value, out));
}

Value* sum(ElementContext& c, Builder& b, ElementType element, Value* old, Value* value) {
  Value* out = b.CreateFAdd(number(c, b, element, old), number(c, b, element, value));
  if (dsl::is_small_float(element)) out = from_f32(c, b, element, out);
  return b.CreateBitCast(out, old->getType());
}

Value* combine_ints(Builder& b, AtomicKind kind, bool is_signed, Value* old, Value* value) {
  switch (kind) {
    case AtomicKind::kAdd:
      return b.CreateAdd(old, value);
    case AtomicKind::kMin:
      return b.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, old, value);
    case AtomicKind::kMax:
      return b.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, old, value);
    case AtomicKind::kAnd:
      return b.CreateAnd(old, value);
    case AtomicKind::kOr:
      return b.CreateOr(old, value);
    case AtomicKind::kXor:
      return b.CreateXor(old, value);
    case AtomicKind::kXchg:
      break;
  }
  return value;
}

}  // namespace

Value* combine_bits(ElementContext& c, Builder& b, AtomicKind kind, ElementType element, Value* old, Value* value) {
  if (!dsl::is_float(element)) return combine_ints(b, kind, dsl::info(element).is_signed, old, value);
  if (kind == AtomicKind::kXchg) return value;
  if (kind == AtomicKind::kAdd) return sum(c, b, element, old, value);
  return extreme(c, b, kind == AtomicKind::kMax, element, old, value);
}

}  // namespace kiln::codegen
