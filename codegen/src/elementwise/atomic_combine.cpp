#include "elementwise/atomic_combine.h"

#include "elementwise/conversions.h"

namespace kiln::codegen {
namespace {

using dsl::AtomicKind;

// A number to reckon with: small floats as f32.
Value* number(ElementContext& ctx, Builder& ir, ElementType element, Value* bits) {
  Value* value = ir.CreateBitCast(bits, memory_type(ir.getContext(), element, false));
  return dsl::is_small_float(element) ? to_f32(ctx, ir, element, value) : value;
}

// Bits of the smaller or larger of two floats: a NaN before all, -0.0 below +0.0.
Value* extreme(ElementContext& ctx, Builder& ir, bool maximum, ElementType element, Value* old, Value* value) {
  Value *x = number(ctx, ir, element, old), *y = number(ctx, ir, element, value);
  Value* first = maximum ? ir.CreateFCmpOGT(x, y) : ir.CreateFCmpOLT(x, y);
  // Equal numbers differ by the sign of a zero at most.
  Value* equal = maximum ? ir.CreateAnd(old, value) : ir.CreateOr(old, value);
  Value* out = ir.CreateSelect(ir.CreateFCmpOEQ(x, y), equal, ir.CreateSelect(first, old, value));
  return ir.CreateSelect(ir.CreateFCmpUNO(x, x), old, ir.CreateSelect(ir.CreateFCmpUNO(y, y), value, out));
}

Value* sum(ElementContext& ctx, Builder& ir, ElementType element, Value* old, Value* value) {
  Value* out = ir.CreateFAdd(number(ctx, ir, element, old), number(ctx, ir, element, value));
  if (dsl::is_small_float(element)) out = from_f32(ctx, ir, element, out);
  return ir.CreateBitCast(out, old->getType());
}

Value* combine_ints(Builder& ir, AtomicKind kind, bool is_signed, Value* old, Value* value) {
  switch (kind) {
    case AtomicKind::kAdd:
      return ir.CreateAdd(old, value);
    case AtomicKind::kMin:
      return ir.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, old, value);
    case AtomicKind::kMax:
      return ir.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, old, value);
    case AtomicKind::kAnd:
      return ir.CreateAnd(old, value);
    case AtomicKind::kOr:
      return ir.CreateOr(old, value);
    case AtomicKind::kXor:
      return ir.CreateXor(old, value);
    case AtomicKind::kXchg:
      break;
  }
  return value;
}

}  // namespace

Value* combine_bits(ElementContext& ctx, Builder& ir, AtomicKind kind, ElementType element, Value* old, Value* value) {
  if (!dsl::is_float(element)) return combine_ints(ir, kind, dsl::info(element).is_signed, old, value);
  if (kind == AtomicKind::kXchg) return value;
  if (kind == AtomicKind::kAdd) return sum(ctx, ir, element, old, value);
  return extreme(ctx, ir, kind == AtomicKind::kMax, element, old, value);
}

}  // namespace kiln::codegen
