// The kinds of reductions and scans on registers, scalars and vectors alike.
#include "elementwise/combine.h"

#include <llvm/IR/Intrinsics.h>

#include "elementwise/conversions.h"
#include "elementwise/ops.h"

namespace kiln::codegen {

using dsl::info;
using dsl::is_float;
using dsl::is_small_float;
using dsl::ReduceKind;

dsl::ReduceKind reduce_kind(const Op& op) { return static_cast<ReduceKind>(std::get<int64_t>(op.attrs[0])); }

ElementType accumulator_element(ElementType element) { return is_small_float(element) ? ElementType::kF32 : element; }

llvm::Type* accumulator_type(llvm::LLVMContext& context, ElementType element) {
  return register_type(context, dsl::scalar_type(accumulator_element(element)));
}

Value* to_accumulator(ElementContext& ctx, Builder& ir, ElementType element, Value* x) {
  return is_small_float(element) ? to_f32(ctx, ir, element, x) : x;
}

// min and max give an element as it is, infinities of f8 too; sums and products are rounded.
Value* from_accumulator(ElementContext& ctx, Builder& ir, ReduceKind kind, ElementType element, Value* x) {
  const bool chosen = kind == ReduceKind::kMin || kind == ReduceKind::kMax;
  return is_small_float(element) ? from_f32(ctx, ir, element, x, !chosen) : x;
}

Value* combine_numbers(Builder& ir, ReduceKind kind, ElementType element, Value* x, Value* y) {
  const bool is_signed = info(element).is_signed;
  switch (kind) {
    case ReduceKind::kSum:
      return is_float(element) ? ir.CreateFAdd(x, y) : ir.CreateAdd(x, y);
    case ReduceKind::kProd:
      return is_float(element) ? ir.CreateFMul(x, y) : ir.CreateMul(x, y);
    case ReduceKind::kMax:
      if (is_float(element)) return ir.CreateSelect(ir.CreateFCmpOGT(x, y), x, y);
      return ir.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x, y);
    case ReduceKind::kMin:
      if (is_float(element)) return ir.CreateSelect(ir.CreateFCmpOLT(x, y), x, y);
      return ir.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x, y);
    case ReduceKind::kAnd:
      return ir.CreateAnd(x, y);
    case ReduceKind::kOr:
      return ir.CreateOr(x, y);
    default:  // kXor
      return ir.CreateXor(x, y);
  }
}

Value* combine(Builder& ir, ReduceKind kind, ElementType element, Value* x, Value* y) {
  const bool extreme = kind == ReduceKind::kMin || kind == ReduceKind::kMax;
  if (!is_float(element) || !extreme) return combine_numbers(ir, kind, element, x, y);
  return float_min_max(ir, kind == ReduceKind::kMax, false, x, y);
}

Value* identity(Builder& ir, ReduceKind kind, ElementType element) {
  llvm::Type* type = accumulator_type(ir.getContext(), element);
  const bool maximum = kind == ReduceKind::kMax;
  if (is_float(element)) {
    // -0.0, not 0.0: a sum of negative zeros is a negative zero.
    if (kind == ReduceKind::kSum) return llvm::ConstantFP::get(type, -0.0);
    if (kind == ReduceKind::kProd) return llvm::ConstantFP::get(type, 1.0);
    return llvm::ConstantFP::getInfinity(type, maximum);
  }
  const unsigned bits = type->getIntegerBitWidth();
  const bool is_signed = info(element).is_signed;
  switch (kind) {
    case ReduceKind::kProd:
      return llvm::ConstantInt::get(type, 1);
    case ReduceKind::kMin:
      return llvm::ConstantInt::get(type,
                                    is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits));
    case ReduceKind::kMax:
      return llvm::ConstantInt::get(type,
                                    is_signed ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getMinValue(bits));
    case ReduceKind::kAnd:
      return llvm::Constant::getAllOnesValue(type);
    default:  // kSum, kOr, kXor
      return llvm::Constant::getNullValue(type);
  }
}

}  // namespace kiln::codegen
