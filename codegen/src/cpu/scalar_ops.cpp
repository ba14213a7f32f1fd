// Elementwise ops on registers: the same code for scalars and for vectors of any width.
#include <llvm/IR/Intrinsics.h>

#include "cpu/context.h"
#include "math/vector_math.h"

namespace kiln::codegen::cpu {
namespace {

using dsl::info;
using dsl::is_float;
using dsl::is_small_float;

// ---- ints ----

Value* int_div_rem(Builder& b, bool is_signed, bool want_rem, Value* x, Value* y) {
  auto* zero = int_constant(y, 0);
  auto* one = int_constant(y, 1);
  Value* by_zero = b.CreateICmpEQ(y, zero);
  Value* unsafe = by_zero;
  if (is_signed) {
    const unsigned bits = y->getType()->getScalarSizeInBits();
    Value* least = llvm::ConstantInt::get(y->getType(), llvm::APInt::getSignedMinValue(bits));
    Value* overflow =
        b.CreateAnd(b.CreateICmpEQ(x, least), b.CreateICmpEQ(y, llvm::Constant::getAllOnesValue(y->getType())));
    unsafe = b.CreateOr(unsafe, overflow);
  }
  // Dividing by 1 instead gives MIN / -1 = MIN and MIN rem -1 = 0 as they should be.
  Value* divisor = b.CreateSelect(unsafe, one, y);
  if (want_rem) return b.CreateSelect(by_zero, x, is_signed ? b.CreateSRem(x, divisor) : b.CreateURem(x, divisor));
  return b.CreateSelect(by_zero, zero, is_signed ? b.CreateSDiv(x, divisor) : b.CreateUDiv(x, divisor));
}

Value* shift(Builder& b, OpCode code, bool is_signed, Value* x, Value* y) {
  const unsigned bits = y->getType()->getScalarSizeInBits();
  Value* in_range = b.CreateICmpULT(y, int_constant(y, bits));
  if (code == OpCode::kShr && is_signed) return b.CreateAShr(x, b.CreateSelect(in_range, y, int_constant(y, bits - 1)));
  Value* amount = b.CreateSelect(in_range, y, int_constant(y, 0));
  Value* shifted = code == OpCode::kShl ? b.CreateShl(x, amount) : b.CreateLShr(x, amount);
  return b.CreateSelect(in_range, shifted, int_constant(x, 0));
}

Value* emit_int(Builder& b, const Op& op, ElementType element, llvm::ArrayRef<Value*> in) {
  const bool is_signed = info(element).is_signed;
  switch (op.code) {
    case OpCode::kAdd:
      return b.CreateAdd(in[0], in[1]);
    case OpCode::kSub:
      return b.CreateSub(in[0], in[1]);
    case OpCode::kMul:
      return b.CreateMul(in[0], in[1]);
    case OpCode::kDiv:
      return int_div_rem(b, is_signed, false, in[0], in[1]);
    case OpCode::kRem:
      return int_div_rem(b, is_signed, true, in[0], in[1]);
    case OpCode::kMin:
      return b.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, in[0], in[1]);
    case OpCode::kMax:
      return b.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, in[0], in[1]);
    case OpCode::kNeg:
      return b.CreateNeg(in[0]);
    case OpCode::kAbs:
      if (!is_signed) return in[0];
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, in[0], b.getFalse());
    case OpCode::kAnd:
      return b.CreateAnd(in[0], in[1]);
    case OpCode::kOr:
      return b.CreateOr(in[0], in[1]);
    case OpCode::kXor:
      return b.CreateXor(in[0], in[1]);
    case OpCode::kShl:
    case OpCode::kShr:
      return shift(b, op.code, is_signed, in[0], in[1]);
    default:
      return nullptr;
  }
}

// ---- floats ----

bool known_not_nan(Value* x) {
  if (auto* constant = llvm::dyn_cast<llvm::Constant>(x)) {
    if (auto* value = llvm::dyn_cast_or_null<llvm::ConstantFP>(x->getType()->isVectorTy() ? constant->getSplatValue()
                                                                                          : constant)) {
      return !value->isNaN();
    }
  }
  return false;
}

// `select(x > y, x, y)` is what x86's max does: y when either is NaN. So only a NaN in x needs care.
Value* float_min_max(Builder& b, bool maximum, bool numeric, Value* x, Value* y) {
  if (known_not_nan(x) && !known_not_nan(y)) std::swap(x, y);
  auto pick = [&](Value* p, Value* q) {
    return b.CreateSelect(maximum ? b.CreateFCmpOGT(p, q) : b.CreateFCmpOLT(p, q), p, q);
  };
  if (numeric) {
    // With a NaN in y the number must come out: x unless it is smaller.
    Value* r = pick(x, y);
    return known_not_nan(y) ? r : b.CreateSelect(b.CreateFCmpUNO(y, y), x, r);
  }
  Value* r = pick(x, y);
  return known_not_nan(x) ? r : b.CreateSelect(b.CreateFCmpUNO(x, x), x, r);
}

Value* emit_float(Context& c, Builder& b, const Op& op, ElementType element, llvm::ArrayRef<Value*> in) {
  switch (op.code) {
    case OpCode::kAdd:
      return b.CreateFAdd(in[0], in[1]);
    case OpCode::kSub:
      return b.CreateFSub(in[0], in[1]);
    case OpCode::kMul:
      return b.CreateFMul(in[0], in[1]);
    case OpCode::kDiv:
      return b.CreateFDiv(in[0], in[1]);
    case OpCode::kRem:
      return b.CreateFRem(in[0], in[1]);
    case OpCode::kFma:
      return b.CreateIntrinsic(llvm::Intrinsic::fma, {in[0]->getType()}, {in[0], in[1], in[2]});
    case OpCode::kMin:
    case OpCode::kMax:
      return float_min_max(b, op.code == OpCode::kMax, std::get<int64_t>(op.attrs[0]) != 0, in[0], in[1]);
    case OpCode::kMath: {
      const auto fn = static_cast<dsl::MathFn>(std::get<int64_t>(op.attrs[0]));
      if (element == ElementType::kF64) return emit_math_f64(b, fn, in[0]);
      return emit_math_f32(b, fn, in[0], {c.target.has_fma, c.target.vector_bytes == 64});
    }
    default:
      return nullptr;
  }
}

Value* compare(Builder& b, dsl::Predicate predicate, ElementType element, Value* x, Value* y) {
  using P = llvm::CmpInst::Predicate;
  if (is_float(element)) {
    static constexpr P kFloat[] = {P::FCMP_OEQ, P::FCMP_UNE, P::FCMP_OLT, P::FCMP_OLE, P::FCMP_OGT, P::FCMP_OGE};
    return b.CreateFCmp(kFloat[static_cast<int>(predicate)], x, y);
  }
  static constexpr P kSigned[] = {P::ICMP_EQ, P::ICMP_NE, P::ICMP_SLT, P::ICMP_SLE, P::ICMP_SGT, P::ICMP_SGE};
  static constexpr P kUnsigned[] = {P::ICMP_EQ, P::ICMP_NE, P::ICMP_ULT, P::ICMP_ULE, P::ICMP_UGT, P::ICMP_UGE};
  return b.CreateICmp((info(element).is_signed ? kSigned : kUnsigned)[static_cast<int>(predicate)], x, y);
}

Value* sign_op(Builder& b, const Op& op, ElementType element, Value* x) {
  if (is_small_float(element)) {
    Value* bits = b.CreateBitCast(x, like(x, b.getInt16Ty()));
    bits = op.code == OpCode::kNeg ? b.CreateXor(bits, int_constant(bits, 0x8000))
                                   : b.CreateAnd(bits, int_constant(bits, 0x7fff));
    return b.CreateBitCast(bits, x->getType());
  }
  return op.code == OpCode::kNeg ? b.CreateFNeg(x) : b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
}

bool is_f8(ElementType element) { return element == ElementType::kF8E4M3 || element == ElementType::kF8E5M2; }

}  // namespace

Result<Value*> emit_elementwise(Context& c, Builder& b, const Op& op, llvm::ArrayRef<Value*> operands) {
  const size_t typed = op.code == OpCode::kSelect ? 1 : 0;
  const ElementType element = c.type(op.operands[typed]).element;
  llvm::SmallVector<Value*, 4> in(operands.begin(), operands.end());
  switch (op.code) {
    case OpCode::kSelect:
      return b.CreateSelect(in[0], in[1], in[2]);
    case OpCode::kAddptr: {
      const ElementType index = c.type(op.operands[1]).element;
      llvm::Type* wide = like(in[1], b.getInt64Ty());
      Value* offset = info(index).is_signed ? b.CreateSExt(in[1], wide) : b.CreateZExt(in[1], wide);
      return b.CreateGEP(memory_type(b.getContext(), element, false), in[0], offset);
    }
    case OpCode::kBitcast: {
      const dsl::Type to = dsl::scalar_type(std::get<ElementType>(op.attrs[0]));
      return b.CreateBitCast(in[0], like(in[0], register_type(b.getContext(), to)));
    }
    default:
      break;
  }
  if (is_f8(element) || (op.code == OpCode::kCast && is_f8(std::get<ElementType>(op.attrs[0])))) {
    return c.unsupported(op, "f8 arithmetic and casts are not available on this target yet");
  }
  if (op.code == OpCode::kCast) return emit_cast(c, b, in[0], element, std::get<ElementType>(op.attrs[0]));
  if (!is_float(element)) {
    if (op.code == OpCode::kCmp) {
      return compare(b, static_cast<dsl::Predicate>(std::get<int64_t>(op.attrs[0])), element, in[0], in[1]);
    }
    Value* value = emit_int(b, op, element, in);
    return value ? Result<Value*>(value) : Result<Value*>(c.unsupported(op, "no code for this type"));
  }
  if (op.code == OpCode::kNeg || op.code == OpCode::kAbs) return sign_op(b, op, element, in[0]);
  const bool small = is_small_float(element);
  if (small) {
    for (Value*& x : in) x = to_f32(c, b, element, x);
  }
  if (op.code == OpCode::kCmp) {
    return compare(b, static_cast<dsl::Predicate>(std::get<int64_t>(op.attrs[0])), element, in[0], in[1]);
  }
  Value* value = emit_float(c, b, op, element, in);
  if (!value) return c.unsupported(op, "no code for this type");
  return small ? from_f32(c, b, element, value) : value;
}

Value* emit_constant(Context& c, const Op& op) {
  const dsl::Type type = dsl::scalar_type(std::get<ElementType>(op.attrs[1]));
  llvm::Type* reg = register_type(c.b.getContext(), type);
  const uint64_t bits = std::get<dsl::Literal>(op.attrs[0]).bits;
  const unsigned width = reg->getScalarSizeInBits();
  llvm::Constant* as_int = llvm::ConstantInt::get(c.b.getContext(), llvm::APInt(width, bits));
  return reg->isIntegerTy() ? as_int : llvm::ConstantExpr::getBitCast(as_int, reg);
}

// ---- reductions ----

llvm::Type* accumulator_type(Context& c, ElementType element) {
  if (is_small_float(element)) return c.b.getFloatTy();
  return register_type(c.b.getContext(), dsl::scalar_type(element));
}

Value* to_accumulator(Context& c, Builder& b, ElementType element, Value* x) {
  return is_small_float(element) ? to_f32(c, b, element, x) : x;
}

Value* from_accumulator(Context& c, Builder& b, ElementType element, Value* x) {
  return is_small_float(element) ? from_f32(c, b, element, x) : x;
}

Value* combine_numbers(Context&, Builder& b, dsl::ReduceKind kind, ElementType element, Value* x, Value* y) {
  const bool maximum = kind == dsl::ReduceKind::kMax;
  if (is_float(element)) {
    switch (kind) {
      case dsl::ReduceKind::kSum:
        return b.CreateFAdd(x, y);
      case dsl::ReduceKind::kProd:
        return b.CreateFMul(x, y);
      default:
        return b.CreateSelect(maximum ? b.CreateFCmpOGT(x, y) : b.CreateFCmpOLT(x, y), x, y);
    }
  }
  const bool is_signed = info(element).is_signed;
  switch (kind) {
    case dsl::ReduceKind::kSum:
      return b.CreateAdd(x, y);
    case dsl::ReduceKind::kProd:
      return b.CreateMul(x, y);
    case dsl::ReduceKind::kMax:
      return b.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x, y);
    default:
      return b.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x, y);
  }
}

Value* combine(Context& c, Builder& b, dsl::ReduceKind kind, ElementType element, Value* x, Value* y) {
  const bool extreme = kind == dsl::ReduceKind::kMin || kind == dsl::ReduceKind::kMax;
  if (!is_float(element) || !extreme) return combine_numbers(c, b, kind, element, x, y);
  return float_min_max(b, kind == dsl::ReduceKind::kMax, false, x, y);
}

Value* identity(Context& c, dsl::ReduceKind kind, ElementType element) {
  llvm::Type* type = accumulator_type(c, element);
  const bool maximum = kind == dsl::ReduceKind::kMax;
  if (kind == dsl::ReduceKind::kSum) {
    // -0.0, not 0.0: a sum of negative zeros is a negative zero.
    return is_float(element) ? llvm::ConstantFP::get(type, -0.0) : llvm::Constant::getNullValue(type);
  }
  if (kind == dsl::ReduceKind::kProd) {
    return is_float(element) ? llvm::ConstantFP::get(type, 1.0) : llvm::ConstantInt::get(type, 1);
  }
  if (is_float(element)) return llvm::ConstantFP::getInfinity(type, maximum);
  const unsigned bits = type->getIntegerBitWidth();
  if (!info(element).is_signed)
    return llvm::ConstantInt::get(type, maximum ? llvm::APInt::getMinValue(bits) : llvm::APInt::getMaxValue(bits));
  return llvm::ConstantInt::get(type,
                                maximum ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getSignedMaxValue(bits));
}

}  // namespace kiln::codegen::cpu
