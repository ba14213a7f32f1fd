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
Value* divide_by_floats(Builder& b, bool is_signed, Value* x, Value* y) {
  const bool narrow = x->getType()->getScalarSizeInBits() <= 16;
  llvm::Type* real = like(x, narrow ? b.getFloatTy() : b.getDoubleTy());
  auto widen = [&](Value* v) { return is_signed ? b.CreateSIToFP(v, real) : b.CreateUIToFP(v, real); };
  Value* quotient = b.CreateFDiv(widen(x), widen(y));
  return is_signed ? b.CreateFPToSI(quotient, x->getType()) : b.CreateFPToUI(quotient, x->getType());
}

// Of longer ints, lane by lane. Not as one vector: LLVM 19 takes a divisor some of whose lanes nobody asks for as
// undefined in all.
Value* divide_lanes(Builder& b, bool is_signed, Value* x, Value* y) {
  auto divide = [&](Value* p, Value* q) { return is_signed ? b.CreateSDiv(p, q) : b.CreateUDiv(p, q); };
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (!vector) return divide(x, y);
  Value* out = llvm::PoisonValue::get(vector);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    out = b.CreateInsertElement(out, divide(b.CreateExtractElement(x, lane), b.CreateExtractElement(y, lane)), lane);
  }
  return out;
}

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
  const bool by_floats = x->getType()->isVectorTy() && x->getType()->getScalarSizeInBits() <= 32;
  Value* quotient = by_floats ? divide_by_floats(b, is_signed, x, divisor) : divide_lanes(b, is_signed, x, divisor);
  if (want_rem) return b.CreateSelect(by_zero, x, b.CreateSub(x, b.CreateMul(quotient, divisor)));
  return b.CreateSelect(by_zero, zero, quotient);
}

Value* shift(Builder& b, OpCode code, bool is_signed, Value* x, Value* y) {
  const unsigned bits = y->getType()->getScalarSizeInBits();
  Value* in_range = b.CreateICmpULT(y, int_constant(y, bits));
  if (code == OpCode::kShr && is_signed) return b.CreateAShr(x, b.CreateSelect(in_range, y, int_constant(y, bits - 1)));
  Value* amount = b.CreateSelect(in_range, y, int_constant(y, 0));
  Value* shifted = code == OpCode::kShl ? b.CreateShl(x, amount) : b.CreateLShr(x, amount);
  return b.CreateSelect(in_range, shifted, int_constant(x, 0));
}

// The high half of the product. LLVM splits 128-bit lanes into scalars, so 64-bit ints are multiplied by halves.
Value* multiply_high(Builder& b, bool is_signed, Value* x, Value* y) {
  const unsigned bits = x->getType()->getScalarSizeInBits();
  if (bits < 64) {
    llvm::Type* wide = like(x, b.getIntNTy(2 * bits));
    auto widen = [&](Value* v) { return is_signed ? b.CreateSExt(v, wide) : b.CreateZExt(v, wide); };
    Value* product = b.CreateMul(widen(x), widen(y));
    return b.CreateTrunc(b.CreateLShr(product, int_constant(product, bits)), x->getType());
  }
  auto low = [&](Value* v) { return b.CreateAnd(v, int_constant(v, 0xffffffff)); };
  auto high = [&](Value* v) { return b.CreateLShr(v, int_constant(v, 32)); };
  Value *xl = low(x), *xh = high(x), *yl = low(y), *yh = high(y);
  Value* middle = b.CreateAdd(b.CreateMul(xh, yl), high(b.CreateMul(xl, yl)));
  Value* carried = b.CreateAdd(b.CreateMul(xl, yh), low(middle));
  Value* product = b.CreateAdd(b.CreateAdd(b.CreateMul(xh, yh), high(middle)), high(carried));
  if (!is_signed) return product;
  // A negative factor counts 2^64 too much as unsigned.
  auto where_negative = [&](Value* factor, Value* other) {
    return b.CreateAnd(b.CreateAShr(factor, int_constant(factor, 63)), other);
  };
  return b.CreateSub(b.CreateSub(product, where_negative(x, y)), where_negative(y, x));
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
    case OpCode::kMulhi:
      return multiply_high(b, is_signed, in[0], in[1]);
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

}  // namespace

// `select(x > y, x, y)` is what x86's max does: y when either is NaN. So only a NaN in x needs care. Scalars of f32 are
// mostly GPUs', which have instructions for both kinds.
Value* float_min_max(Builder& b, bool maximum, bool numeric, Value* x, Value* y) {
  if (x->getType()->isFloatTy()) {
    const auto id = numeric ? (maximum ? llvm::Intrinsic::maxnum : llvm::Intrinsic::minnum)
                            : (maximum ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum);
    return b.CreateBinaryIntrinsic(id, x, y);
  }
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

MathOptions math_options(const ElementContext& c, bool fast) {
  MathOptions options = c.math;
  options.fast = fast;
  return options;
}

bool is_at_most_one(Value* x) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantFP>(x);
  return constant && !constant->isNaN() && std::abs(constant->getValueAPF().convertToDouble()) <= 1;
}

// Correctly rounded, but for `fast`. A divisor above 2^126, whose reciprocal is below the normal numbers, is made
// smaller together with the dividend; of one that is at most 1 the quotient is below them as well.
Value* float_div(ElementContext& c, Builder& b, bool fast, Value* x, Value* y) {
  if (!fast || !c.math.estimate || !x->getType()->isFloatTy()) return b.CreateFDiv(x, y);
  const auto constant = [&](double value) { return llvm::ConstantFP::get(x->getType(), value); };
  if (is_at_most_one(x)) return b.CreateFMul(x, c.math.estimate(b, Estimate::kReciprocal, y));
  Value* large = b.CreateFCmpOGT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, y), constant(0x1p126));
  Value* scale = b.CreateSelect(large, constant(0.25), constant(1.0));
  return b.CreateFMul(b.CreateFMul(x, scale), c.math.estimate(b, Estimate::kReciprocal, b.CreateFMul(y, scale)));
}

Value* emit_float(ElementContext& c, Builder& b, const Op& op, llvm::ArrayRef<Value*> in) {
  switch (op.code) {
    case OpCode::kAdd:
      return b.CreateFAdd(in[0], in[1]);
    case OpCode::kSub:
      return b.CreateFSub(in[0], in[1]);
    case OpCode::kMul:
      return b.CreateFMul(in[0], in[1]);
    case OpCode::kDiv:
      return float_div(c, b, std::get<int64_t>(op.attrs[0]) != 0, in[0], in[1]);
    case OpCode::kRem:
      return emit_fmod(b, in[0], in[1], math_options(c, false));
    case OpCode::kFma:
      return b.CreateIntrinsic(llvm::Intrinsic::fma, {in[0]->getType()}, {in[0], in[1], in[2]});
    case OpCode::kMin:
    case OpCode::kMax:
      return float_min_max(b, op.code == OpCode::kMax, std::get<int64_t>(op.attrs[0]) != 0, in[0], in[1]);
    case OpCode::kMath: {
      const MathOptions options = math_options(c, std::get<int64_t>(op.attrs[1]) != 0);
      return emit_math(b, math_fn(op), in, options);
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

// neg, abs, copysign of small floats, on the bits: a NaN keeps its own.
Value* small_sign_op(Builder& b, const Op& op, ElementType element, llvm::ArrayRef<Value*> in) {
  const auto width = static_cast<unsigned>(info(element).bits);
  const uint64_t sign = uint64_t{1} << (width - 1);
  const auto bits_of = [&](Value* x) { return b.CreateBitCast(x, like(x, b.getIntNTy(width))); };
  Value* bits = bits_of(in[0]);
  if (op.code == OpCode::kNeg) {
    bits = b.CreateXor(bits, int_constant(bits, sign));
  } else {
    bits = b.CreateAnd(bits, int_constant(bits, sign - 1));
    if (op.code == OpCode::kMath) bits = b.CreateOr(bits, b.CreateAnd(bits_of(in[1]), int_constant(bits, sign)));
  }
  return b.CreateBitCast(bits, in[0]->getType());
}

bool is_sign_op(const Op& op) {
  return op.code == OpCode::kNeg || op.code == OpCode::kAbs ||
         (op.code == OpCode::kMath && math_fn(op) == dsl::MathFn::kCopysign);
}

Value* sign_op(Builder& b, const Op& op, ElementType element, llvm::ArrayRef<Value*> in) {
  if (is_small_float(element)) return small_sign_op(b, op, element, in);
  if (op.code == OpCode::kNeg) return b.CreateFNeg(in[0]);
  if (op.code == OpCode::kAbs) return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, in[0]);
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, in[0], in[1]);
}

// Of the bits themselves: a conversion need not keep the sign of NaN.
Value* sign_bit(Builder& b, ElementType element, Value* x) {
  Value* bits = b.CreateBitCast(x, like(x, b.getIntNTy(static_cast<unsigned>(info(element).bits))));
  return b.CreateICmpSLT(bits, llvm::Constant::getNullValue(bits->getType()));
}

Value* emit_cast_op(ElementContext& c, Builder& b, const Op& op, ElementType from, llvm::ArrayRef<Value*> in) {
  const auto to = std::get<ElementType>(op.attrs[0]);
  const bool saturate = std::get<int64_t>(op.attrs[2]) != 0;
  if (in.size() > 1) return emit_stochastic_cast(c, b, in[0], from, to, in[1], saturate);
  return emit_cast(c, b, in[0], from, to, saturate);
}

}  // namespace

Result<Value*> emit_elementwise(ElementContext& c, Builder& b, const Op& op, llvm::ArrayRef<Value*> operands) {
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
  if (op.code == OpCode::kCast) return emit_cast_op(c, b, op, element, in);
  if (!is_float(element)) {
    if (op.code == OpCode::kCmp) {
      return compare(b, static_cast<dsl::Predicate>(std::get<int64_t>(op.attrs[0])), element, in[0], in[1]);
    }
    Value* value = emit_int(b, op, element, in);
    return value ? Result<Value*>(value) : Result<Value*>(c.unsupported(op, "no code for this type"));
  }
  if (is_sign_op(op)) return sign_op(b, op, element, in);
  const bool small = is_small_float(element);
  if (small && op.code == OpCode::kMath && math_fn(op) == dsl::MathFn::kSignbit) return sign_bit(b, element, in[0]);
  if (small) {
    for (Value*& x : in) x = to_f32(c, b, element, x);
  }
  if (op.code == OpCode::kCmp) {
    return compare(b, static_cast<dsl::Predicate>(std::get<int64_t>(op.attrs[0])), element, in[0], in[1]);
  }
  Value* value = emit_float(c, b, op, in);
  if (!value) return c.unsupported(op, "no code for this type");
  const bool is_test = op.code == OpCode::kMath && dsl::is_float_test(math_fn(op));
  return small && !is_test ? from_f32(c, b, element, value, !keeps_infinity(op)) : value;
}

Value* emit_constant(Builder& b, const Op& op) {
  const dsl::Type type = dsl::scalar_type(std::get<ElementType>(op.attrs[1]));
  llvm::Type* reg = register_type(b.getContext(), type);
  const uint64_t bits = std::get<dsl::Literal>(op.attrs[0]).bits;
  const unsigned width = reg->getScalarSizeInBits();
  llvm::Constant* as_int = llvm::ConstantInt::get(b.getContext(), llvm::APInt(width, bits));
  return reg->isIntegerTy() ? as_int : llvm::ConstantExpr::getBitCast(as_int, reg);
}

}  // namespace kiln::codegen
