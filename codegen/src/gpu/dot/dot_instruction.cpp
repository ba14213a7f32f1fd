#include "gpu/dot/dot_instruction.h"

#include "elementwise/conversions.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Precision;
using Operand = MatrixInstruction::Operand;
using Elements = llvm::SmallVector<Value*, 16>;

// An f32 in two parts. What the short type has no finite number for, or is NaN, is all in `big`, and counts as 0 in the
// products with small parts.
struct Parts {
  Value *big, *finite_big, *small;
};

struct SplitOperand {
  Elements big, finite_big, small;
};

// Whether rounding to so many bits of significand stays finite; false for NaN.
Value* rounds_to_finite(Builder& ir, Value* x, double limit) {
  Value* magnitude = ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  return ir.CreateFCmpOLT(magnitude, llvm::ConstantFP::get(x->getType(), limit));
}

// tf32 is an f32 whose last 13 bits are 0: rounded half away from zero, as the instructions do.
Parts split_tf32(Builder& ir, Value* x) {
  Value* finite = rounds_to_finite(ir, x, 0x1.ffep127);
  Value* kept = ir.CreateSelect(finite, x, llvm::ConstantFP::get(x->getType(), 0));
  Value* bits = ir.CreateAdd(ir.CreateBitCast(kept, ir.getInt32Ty()), ir.getInt32(0x1000));
  Value* rounded = ir.CreateBitCast(ir.CreateAnd(bits, ir.getInt32(0xffffe000)), x->getType());
  return {ir.CreateSelect(finite, rounded, x), rounded, ir.CreateFSub(kept, rounded)};
}

Parts split_bf16(ElementContext& ctx, Builder& ir, Value* x) {
  Value* finite = rounds_to_finite(ir, x, 0x1.ffp127);
  Value* big = from_f32(ctx, ir, ElementType::kBF16, x);
  Value* rest = ir.CreateFSub(x, to_f32(ctx, ir, ElementType::kBF16, big));
  Value* kept = ir.CreateSelect(finite, rest, llvm::ConstantFP::get(x->getType(), 0));
  return {big, ir.CreateSelect(finite, big, ir.getInt16(0)), from_f32(ctx, ir, ElementType::kBF16, kept)};
}

SplitOperand split(ElementContext& ctx, Builder& ir, Operand operand, Precision precision) {
  SplitOperand out;
  for (Value* x : operand) {
    const Parts parts = precision == Precision::kTf32x3 ? split_tf32(ir, x) : split_bf16(ctx, ir, x);
    out.big.push_back(parts.big);
    out.finite_big.push_back(parts.finite_big);
    out.small.push_back(parts.small);
  }
  return out;
}

// The small products first, so that they are not lost one by one beside the large ones.
MatrixInstruction in_three_products(const ElementContext& context, const MatrixInstruction& of_parts,
                                    Precision precision) {
  MatrixInstruction out = of_parts;
  out.emit = [c = context, emit = of_parts.emit, precision](Builder& ir, Operand a, Operand rhs,
                                                            Operand accumulators) mutable {
    const SplitOperand x = split(c, ir, a, precision), y = split(c, ir, rhs, precision);
    const std::vector<Value*> first = emit(ir, x.small, y.finite_big, accumulators);
    const std::vector<Value*> second = emit(ir, x.finite_big, y.small, first);
    return emit(ir, x.big, y.big, second);
  };
  return out;
}

bool is_f8(ElementType element) { return dsl::is_float(element) && dsl::info(element).bits == 8; }

}  // namespace

MatrixInstruction on_wider(const ElementContext& context, const MatrixInstruction& of_wide, const DotTypes& types,
                           ElementType wide) {
  MatrixInstruction out = of_wide;
  out.emit = [c = context, emit = of_wide.emit, types, wide](Builder& ir, Operand a, Operand rhs,
                                                             Operand accumulators) mutable {
    const auto widened = [&](Operand operand, ElementType element) {
      Elements all;
      for (Value* x : operand) all.push_back(emit_cast(c, ir, x, element, wide));
      return all;
    };
    return emit(ir, widened(a, types.a), widened(rhs, types.b), accumulators);
  };
  return out;
}

std::optional<MatrixInstruction> dot_instruction(const ElementContext& context, const TargetInfo& target,
                                                 const DotTypes& types) {
  auto own = target.matrix_instruction(types.a, types.b, types.sum, types.precision);
  if (own) return own;
  if (is_f8(types.a) && is_f8(types.b)) {
    auto of_f16 = target.matrix_instruction(ElementType::kF16, ElementType::kF16, types.sum, Precision::kIeee);
    return of_f16 ? std::optional(on_wider(context, *of_f16, types, ElementType::kF16)) : std::nullopt;
  }
  const bool is_f32 = types.a == ElementType::kF32;
  if (!is_f32 || (types.precision != Precision::kTf32x3 && types.precision != Precision::kBf16x3)) return std::nullopt;
  const bool tf32 = types.precision == Precision::kTf32x3;
  const ElementType part = tf32 ? ElementType::kF32 : ElementType::kBF16;
  auto of_parts = target.matrix_instruction(part, part, types.sum, tf32 ? Precision::kTf32 : Precision::kIeee);
  return of_parts ? std::optional(in_three_products(context, *of_parts, types.precision)) : std::nullopt;
}

}  // namespace kiln::codegen::gpu
