// Elementwise ops on registers: the same code for scalars and for vectors of any width.
#include "elementwise/ops.h"

#include <llvm/IR/Intrinsics.h>

#include <cmath>

#include "elementwise/conversions.h"
#include "elementwise/small_floats.h"
#include "math/vector_math.h"

namespace kiln::codegen {
namespace {

using dsl::info;
using dsl::is_float;
using dsl::is_small_float;

// ---- ints ----

// x / y of ints up to 32 bits, y not 0, by a float quotient: exact, for it is further from the next integer than its
// rounding error. CPUs divide vectors of floats only.
Value* divide_by_floats(Builder& ir, bool is_signed, Value* x, Value* y) {
  const bool narrow = x->getType()->getScalarSizeInBits() <= 16;
  llvm::Type* real = like(x, narrow ? ir.getFloatTy() : ir.getDoubleTy());
  auto widen = [&](Value* v) { return is_signed ? ir.CreateSIToFP(v, real) : ir.CreateUIToFP(v, real); };
  Value* quotient = ir.CreateFDiv(widen(x), widen(y));
  return is_signed ? ir.CreateFPToSI(quotient, x->getType()) : ir.CreateFPToUI(quotient, x->getType());
}

// Of longer ints, lane by lane. Not as one vector: LLVM takes a divisor some of whose lanes nobody asks for as
// undefined in all.
Value* divide_lanes(Builder& ir, bool is_signed, Value* x, Value* y) {
  auto divide = [&](Value* p, Value* q) { return is_signed ? ir.CreateSDiv(p, q) : ir.CreateUDiv(p, q); };
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (!vector) return divide(x, y);
  Value* out = llvm::PoisonValue::get(vector);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    out = ir.CreateInsertElement(out, divide(ir.CreateExtractElement(x, lane), ir.CreateExtractElement(y, lane)), lane);
  }
  return out;
}

Value* int_div_rem(Builder& ir, bool is_signed, bool want_rem, Value* x, Value* y) {
  auto* zero = int_constant(y, 0);
  auto* one = int_constant(y, 1);
  Value* by_zero = ir.CreateICmpEQ(y, zero);
  Value* unsafe = by_zero;
  if (is_signed) {
    const unsigned bits = y->getType()->getScalarSizeInBits();
    Value* least = llvm::ConstantInt::get(y->getType(), llvm::APInt::getSignedMinValue(bits));
    Value* overflow =
        ir.CreateAnd(ir.CreateICmpEQ(x, least), ir.CreateICmpEQ(y, llvm::Constant::getAllOnesValue(y->getType())));
    unsafe = ir.CreateOr(unsafe, overflow);
  }
  // Dividing by 1 instead gives MIN / -1 = MIN and MIN rem -1 = 0 as they should be.
  Value* divisor = ir.CreateSelect(unsafe, one, y);
  const bool by_floats = x->getType()->isVectorTy() && x->getType()->getScalarSizeInBits() <= 32;
  Value* quotient = by_floats ? divide_by_floats(ir, is_signed, x, divisor) : divide_lanes(ir, is_signed, x, divisor);
  if (want_rem) return ir.CreateSelect(by_zero, x, ir.CreateSub(x, ir.CreateMul(quotient, divisor)));
  return ir.CreateSelect(by_zero, zero, quotient);
}

Value* shift(Builder& ir, OpCode code, bool is_signed, Value* x, Value* y) {
  const unsigned bits = y->getType()->getScalarSizeInBits();
  Value* in_range = ir.CreateICmpULT(y, int_constant(y, bits));
  if (code == OpCode::kShr && is_signed)
    return ir.CreateAShr(x, ir.CreateSelect(in_range, y, int_constant(y, bits - 1)));
  Value* amount = ir.CreateSelect(in_range, y, int_constant(y, 0));
  Value* shifted = code == OpCode::kShl ? ir.CreateShl(x, amount) : ir.CreateLShr(x, amount);
  return ir.CreateSelect(in_range, shifted, int_constant(x, 0));
}

// The high half of the product. LLVM splits 128-bit lanes into scalars, so 64-bit ints are multiplied by halves.
Value* multiply_high(Builder& ir, bool is_signed, Value* x, Value* y) {
  const unsigned bits = x->getType()->getScalarSizeInBits();
  if (bits < 64) {
    llvm::Type* wide = like(x, ir.getIntNTy(2 * bits));
    auto widen = [&](Value* v) { return is_signed ? ir.CreateSExt(v, wide) : ir.CreateZExt(v, wide); };
    Value* product = ir.CreateMul(widen(x), widen(y));
    return ir.CreateTrunc(ir.CreateLShr(product, int_constant(product, bits)), x->getType());
  }
  auto low = [&](Value* v) { return ir.CreateAnd(v, int_constant(v, 0xffffffff)); };
  auto high = [&](Value* v) { return ir.CreateLShr(v, int_constant(v, 32)); };
  Value *xl = low(x), *xh = high(x), *yl = low(y), *yh = high(y);
  Value* middle = ir.CreateAdd(ir.CreateMul(xh, yl), high(ir.CreateMul(xl, yl)));
  Value* carried = ir.CreateAdd(ir.CreateMul(xl, yh), low(middle));
  Value* product = ir.CreateAdd(ir.CreateAdd(ir.CreateMul(xh, yh), high(middle)), high(carried));
  if (!is_signed) return product;
  // A negative factor counts 2^64 too much as unsigned.
  auto where_negative = [&](Value* factor, Value* other) {
    return ir.CreateAnd(ir.CreateAShr(factor, int_constant(factor, 63)), other);
  };
  return ir.CreateSub(ir.CreateSub(product, where_negative(x, y)), where_negative(y, x));
}

Value* emit_int(Builder& ir, const Op& op, ElementType element, llvm::ArrayRef<Value*> in) {
  const bool is_signed = info(element).is_signed;
  switch (op.code) {
    case OpCode::kAdd:
      return ir.CreateAdd(in[0], in[1]);
    case OpCode::kSub:
      return ir.CreateSub(in[0], in[1]);
    case OpCode::kMul:
      return ir.CreateMul(in[0], in[1]);
    case OpCode::kDiv:
      return int_div_rem(ir, is_signed, false, in[0], in[1]);
    case OpCode::kRem:
      return int_div_rem(ir, is_signed, true, in[0], in[1]);
    case OpCode::kMulhi:
      return multiply_high(ir, is_signed, in[0], in[1]);
    case OpCode::kMin:
      return ir.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, in[0], in[1]);
    case OpCode::kMax:
      return ir.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, in[0], in[1]);
    case OpCode::kNeg:
      return ir.CreateNeg(in[0]);
    case OpCode::kAbs:
      if (!is_signed) return in[0];
      return ir.CreateBinaryIntrinsic(llvm::Intrinsic::abs, in[0], ir.getFalse());
    case OpCode::kAnd:
      return ir.CreateAnd(in[0], in[1]);
    case OpCode::kOr:
      return ir.CreateOr(in[0], in[1]);
    case OpCode::kXor:
      return ir.CreateXor(in[0], in[1]);
    case OpCode::kShl:
    case OpCode::kShr:
      return shift(ir, op.code, is_signed, in[0], in[1]);
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

}  // namespace

// `select(x > y, x, y)` is what x86's max does: y when either is NaN. So only a NaN in x needs care. Scalars of f32 are
// mostly GPUs', which have instructions for both kinds.
Value* float_min_max(Builder& ir, bool maximum, bool numeric, Value* x, Value* y) {
  if (x->getType()->isFloatTy()) {
    const auto id = numeric ? (maximum ? llvm::Intrinsic::maxnum : llvm::Intrinsic::minnum)
                            : (maximum ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum);
    return ir.CreateBinaryIntrinsic(id, x, y);
  }
  if (known_not_nan(x) && !known_not_nan(y)) std::swap(x, y);
  auto pick = [&](Value* p, Value* q) {
    return ir.CreateSelect(maximum ? ir.CreateFCmpOGT(p, q) : ir.CreateFCmpOLT(p, q), p, q);
  };
  if (numeric) {
    // With a NaN in y the number must come out: x unless it is smaller.
    Value* r = pick(x, y);
    return known_not_nan(y) ? r : ir.CreateSelect(ir.CreateFCmpUNO(y, y), x, r);
  }
  Value* r = pick(x, y);
  return known_not_nan(x) ? r : ir.CreateSelect(ir.CreateFCmpUNO(x, x), x, r);
}

namespace {

dsl::MathFn math_fn(const Op& op) { return static_cast<dsl::MathFn>(std::get<int64_t>(op.attrs[0])); }

// Chooses or moves an element: what is infinite stays so, where arithmetic of f8 saturates.
bool keeps_infinity(const Op& op) {
  if (op.code != OpCode::kMath) return op.code == OpCode::kMin || op.code == OpCode::kMax;
  switch (math_fn(op)) {
    case dsl::MathFn::kFloor:
    case dsl::MathFn::kCeil:
    case dsl::MathFn::kRound:
    case dsl::MathFn::kTrunc:
      return true;
    default:
      return false;
  }
}

MathOptions math_options(const ElementContext& ctx, bool fast) {
  MathOptions options = ctx.math;
  options.fast = fast;
  return options;
}

bool is_at_most_one(Value* x) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantFP>(x);
  return constant && !constant->isNaN() && std::abs(constant->getValueAPF().convertToDouble()) <= 1;
}

// Correctly rounded, but for `fast`. A divisor above 2^126, whose reciprocal is below the normal numbers, is made
// smaller together with the dividend; of one that is at most 1 the quotient is below them as well.
Value* float_div(ElementContext& ctx, Builder& ir, bool fast, Value* x, Value* y) {
  if (!fast || !ctx.math.estimate || !x->getType()->isFloatTy()) return ir.CreateFDiv(x, y);
  const auto constant = [&](double value) { return llvm::ConstantFP::get(x->getType(), value); };
  if (is_at_most_one(x)) return ir.CreateFMul(x, ctx.math.estimate(ir, Estimate::kReciprocal, y));
  Value* large = ir.CreateFCmpOGT(ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, y), constant(0x1p126));
  Value* scale = ir.CreateSelect(large, constant(0.25), constant(1.0));
  return ir.CreateFMul(ir.CreateFMul(x, scale), ctx.math.estimate(ir, Estimate::kReciprocal, ir.CreateFMul(y, scale)));
}

Value* emit_float(ElementContext& ctx, Builder& ir, const Op& op, llvm::ArrayRef<Value*> in) {
  switch (op.code) {
    case OpCode::kAdd:
      return ir.CreateFAdd(in[0], in[1]);
    case OpCode::kSub:
      return ir.CreateFSub(in[0], in[1]);
    case OpCode::kMul:
      return ir.CreateFMul(in[0], in[1]);
    case OpCode::kDiv:
      return float_div(ctx, ir, std::get<int64_t>(op.attrs[0]) != 0, in[0], in[1]);
    case OpCode::kRem:
      return emit_fmod(ir, in[0], in[1], math_options(ctx, false));
    case OpCode::kFma:
      return ir.CreateIntrinsic(llvm::Intrinsic::fma, {in[0]->getType()}, {in[0], in[1], in[2]});
    case OpCode::kMin:
    case OpCode::kMax: {
      const bool maximum = op.code == OpCode::kMax, numeric = std::get<int64_t>(op.attrs[0]) != 0;
      if (!ctx.orders_nan || numeric) return float_min_max(ir, maximum, numeric, in[0], in[1]);
      return ir.CreateBinaryIntrinsic(maximum ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, in[0], in[1]);
    }
    case OpCode::kMath: {
      const MathOptions options = math_options(ctx, std::get<int64_t>(op.attrs[1]) != 0);
      return emit_math(ir, math_fn(op), in, options);
    }
    default:
      return nullptr;
  }
}

Value* compare(Builder& ir, dsl::Predicate predicate, ElementType element, Value* x, Value* y) {
  using P = llvm::CmpInst::Predicate;
  if (is_float(element)) {
    static constexpr P kFloat[] = {P::FCMP_OEQ, P::FCMP_UNE, P::FCMP_OLT, P::FCMP_OLE, P::FCMP_OGT, P::FCMP_OGE};
    return ir.CreateFCmp(kFloat[static_cast<int>(predicate)], x, y);
  }
  static constexpr P kSigned[] = {P::ICMP_EQ, P::ICMP_NE, P::ICMP_SLT, P::ICMP_SLE, P::ICMP_SGT, P::ICMP_SGE};
  static constexpr P kUnsigned[] = {P::ICMP_EQ, P::ICMP_NE, P::ICMP_ULT, P::ICMP_ULE, P::ICMP_UGT, P::ICMP_UGE};
  return ir.CreateICmp((info(element).is_signed ? kSigned : kUnsigned)[static_cast<int>(predicate)], x, y);
}

// neg, abs, copysign of small floats, on the bits: a NaN keeps its own.
Value* small_sign_op(Builder& ir, const Op& op, ElementType element, llvm::ArrayRef<Value*> in) {
  const auto width = static_cast<unsigned>(info(element).bits);
  const uint64_t sign = uint64_t{1} << (width - 1);
  const auto bits_of = [&](Value* x) { return ir.CreateBitCast(x, like(x, ir.getIntNTy(width))); };
  Value* bits = bits_of(in[0]);
  if (op.code == OpCode::kNeg) {
    bits = ir.CreateXor(bits, int_constant(bits, sign));
  } else {
    bits = ir.CreateAnd(bits, int_constant(bits, sign - 1));
    if (op.code == OpCode::kMath) bits = ir.CreateOr(bits, ir.CreateAnd(bits_of(in[1]), int_constant(bits, sign)));
  }
  return ir.CreateBitCast(bits, in[0]->getType());
}

bool is_sign_op(const Op& op) {
  return op.code == OpCode::kNeg || op.code == OpCode::kAbs ||
         (op.code == OpCode::kMath && math_fn(op) == dsl::MathFn::kCopysign);
}

Value* sign_op(Builder& ir, const Op& op, ElementType element, llvm::ArrayRef<Value*> in) {
  if (is_small_float(element)) return small_sign_op(ir, op, element, in);
  if (op.code == OpCode::kNeg) return ir.CreateFNeg(in[0]);
  if (op.code == OpCode::kAbs) return ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, in[0]);
  return ir.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, in[0], in[1]);
}

// Of the bits themselves: a conversion need not keep the sign of NaN.
Value* sign_bit(Builder& ir, ElementType element, Value* x) {
  Value* bits = ir.CreateBitCast(x, like(x, ir.getIntNTy(static_cast<unsigned>(info(element).bits))));
  return ir.CreateICmpSLT(bits, llvm::Constant::getNullValue(bits->getType()));
}

Value* emit_cast_op(ElementContext& ctx, Builder& ir, const Op& op, ElementType from, llvm::ArrayRef<Value*> in) {
  const auto to = std::get<ElementType>(op.attrs[0]);
  const bool saturate = std::get<int64_t>(op.attrs[2]) != 0;
  if (in.size() > 1) return emit_stochastic_cast(ctx, ir, in[0], from, to, in[1], saturate);
  return emit_cast(ctx, ir, in[0], from, to, saturate);
}

}  // namespace

Result<Value*> emit_elementwise(ElementContext& ctx, Builder& ir, const Op& op, llvm::ArrayRef<Value*> operands) {
  const size_t typed = op.code == OpCode::kSelect ? 1 : 0;
  const ElementType element = ctx.type(op.operands[typed]).element;
  llvm::SmallVector<Value*, 4> in(operands.begin(), operands.end());
  switch (op.code) {
    case OpCode::kSelect:
      return ir.CreateSelect(in[0], in[1], in[2]);
    case OpCode::kAddptr: {
      const ElementType index = ctx.type(op.operands[1]).element;
      llvm::Type* wide = like(in[1], ir.getInt64Ty());
      Value* offset = info(index).is_signed ? ir.CreateSExt(in[1], wide) : ir.CreateZExt(in[1], wide);
      return ir.CreateGEP(memory_type(ir.getContext(), element, false), in[0], offset);
    }
    case OpCode::kBitcast: {
      const dsl::Type to = dsl::scalar_type(std::get<ElementType>(op.attrs[0]));
      return ir.CreateBitCast(in[0], like(in[0], register_type(ir.getContext(), to)));
    }
    default:
      break;
  }
  if (op.code == OpCode::kCast) return emit_cast_op(ctx, ir, op, element, in);
  if (!is_float(element)) {
    if (op.code == OpCode::kCmp) {
      return compare(ir, static_cast<dsl::Predicate>(std::get<int64_t>(op.attrs[0])), element, in[0], in[1]);
    }
    Value* value = emit_int(ir, op, element, in);
    return value ? Result<Value*>(value) : Result<Value*>(ctx.unsupported(op, "no code for this type"));
  }
  if (is_sign_op(op)) return sign_op(ir, op, element, in);
  const bool small = is_small_float(element);
  if (small && op.code == OpCode::kMath && math_fn(op) == dsl::MathFn::kSignbit) return sign_bit(ir, element, in[0]);
  if (small) {
    for (Value*& x : in) x = to_f32(ctx, ir, element, x);
  }
  if (op.code == OpCode::kCmp) {
    return compare(ir, static_cast<dsl::Predicate>(std::get<int64_t>(op.attrs[0])), element, in[0], in[1]);
  }
  Value* value = emit_float(ctx, ir, op, in);
  if (!value) return ctx.unsupported(op, "no code for this type");
  const bool is_test = op.code == OpCode::kMath && dsl::is_float_test(math_fn(op));
  return small && !is_test ? from_f32(ctx, ir, element, value, !keeps_infinity(op)) : value;
}

Value* emit_constant(Builder& ir, const Op& op) {
  const dsl::Type type = dsl::scalar_type(std::get<ElementType>(op.attrs[1]));
  llvm::Type* reg = register_type(ir.getContext(), type);
  const uint64_t bits = std::get<dsl::Literal>(op.attrs[0]).bits;
  const unsigned width = reg->getScalarSizeInBits();
  llvm::Constant* as_int = llvm::ConstantInt::get(ir.getContext(), llvm::APInt(width, bits));
  return reg->isIntegerTy() ? as_int : llvm::ConstantExpr::getBitCast(as_int, reg);
}

}  // namespace kiln::codegen
