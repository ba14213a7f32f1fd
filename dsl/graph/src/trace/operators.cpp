// Operators and functions of one element at a time.
#include "trace/promote.h"

namespace kiln::graph {
namespace {

Tensor compare(Predicate predicate, const Operand& a, const Operand& b) {
  return elementwise(TensorOp::kCmp, {static_cast<int64_t>(predicate)}, a, b);
}

}  // namespace

#define KILN_BINARY(name, op) \
  Tensor name(Operand a, Operand b) { return elementwise(TensorOp::op, {}, a, b); }
#define KILN_UNARY(name, op) \
  Tensor name(Operand x) { return elementwise(TensorOp::op, {}, x); }
#define KILN_MATH(name, op) \
  Tensor name(Operand x) { return math(TensorOp::op, {}, x); }
#define KILN_MATH_2(name, op) \
  Tensor name(Operand a, Operand b) { return math(TensorOp::op, {}, a, b); }

KILN_BINARY(operator+, kAdd)
KILN_BINARY(operator-, kSub)
KILN_BINARY(operator*, kMul)
KILN_BINARY(operator/, kDiv)
KILN_BINARY(operator%, kRem)
KILN_BINARY(operator&, kAnd)
KILN_BINARY(operator|, kOr)
KILN_BINARY(operator^, kXor)
KILN_BINARY(operator<<, kShl)
KILN_BINARY(operator>>, kShr)
KILN_BINARY(mulhi, kMulhi)
KILN_BINARY(min, kMin)
KILN_BINARY(max, kMax)
KILN_UNARY(operator-, kNeg)
KILN_UNARY(operator~, kNot)
KILN_UNARY(abs, kAbs)
KILN_UNARY(sign, kSign)
KILN_UNARY(stop_gradient, kStopGradient)

KILN_MATH(exp, kExp)
KILN_MATH(exp2, kExp2)
KILN_MATH(expm1, kExpm1)
KILN_MATH(log, kLog)
KILN_MATH(log2, kLog2)
KILN_MATH(log10, kLog10)
KILN_MATH(log1p, kLog1p)
KILN_MATH(sin, kSin)
KILN_MATH(cos, kCos)
KILN_MATH(tan, kTan)
KILN_MATH(asin, kAsin)
KILN_MATH(acos, kAcos)
KILN_MATH(atan, kAtan)
KILN_MATH(sinh, kSinh)
KILN_MATH(cosh, kCosh)
KILN_MATH(tanh, kTanh)
KILN_MATH(erf, kErf)
KILN_MATH(erfc, kErfc)
KILN_MATH(sqrt, kSqrt)
KILN_MATH(rsqrt, kRsqrt)
KILN_MATH(floor, kFloor)
KILN_MATH(ceil, kCeil)
KILN_MATH(round, kRound)
KILN_MATH(trunc, kTrunc)
KILN_MATH(signbit, kSignbit)
KILN_MATH(isnan, kIsnan)
KILN_MATH(isinf, kIsinf)
KILN_MATH_2(atan2, kAtan2)
KILN_MATH_2(pow, kPow)
KILN_MATH_2(hypot, kHypot)
KILN_MATH_2(copysign, kCopysign)

Tensor fma(Operand a, Operand b, Operand c) { return math(TensorOp::kFma, {}, a, b, c); }

Tensor operator==(Operand a, Operand b) { return compare(Predicate::kEq, a, b); }
Tensor operator!=(Operand a, Operand b) { return compare(Predicate::kNe, a, b); }
Tensor operator<(Operand a, Operand b) { return compare(Predicate::kLt, a, b); }
Tensor operator<=(Operand a, Operand b) { return compare(Predicate::kLe, a, b); }
Tensor operator>(Operand a, Operand b) { return compare(Predicate::kGt, a, b); }
Tensor operator>=(Operand a, Operand b) { return compare(Predicate::kGe, a, b); }

Tensor square(Operand x) { return elementwise(TensorOp::kMul, {}, x, x); }

Tensor reciprocal(Operand x) {
  const Operand one(1, x.loc());
  return math(TensorOp::kDiv, {}, one, x);
}

Tensor cast(Operand x, ElementType to) {
  Trace* trace = Trace::current();
  if (!trace) return {};
  const Tensor tensor = as_tensor(*trace, x, "cast");
  return tensor.valid() ? cast_tensor(*trace, tensor, to, x.loc()) : Tensor();
}

Tensor bitcast(Operand x, ElementType to) {
  Trace* trace = Trace::current();
  if (!trace) return {};
  const Tensor tensor = as_tensor(*trace, x, "bitcast");
  if (!tensor.valid() || trace->type(tensor).element == to) return tensor;
  return trace->emit(TensorOp::kBitcast, {&tensor, 1}, {to}, x.loc());
}

Tensor where(Operand condition, Operand a, Operand b) {
  Trace* trace = Trace::current();
  if (!trace) return {};
  const Operand* const values[] = {&a, &b};
  const Tensor mask = as_tensor(*trace, condition, i1, "where");
  if (!mask.valid()) return {};
  if (trace->type(mask).element != i1) {
    trace->report(condition.loc(),
                  "where: the condition is " + trace->text(mask) + ", not i1; compare it, as in x != 0");
    return {};
  }
  for (const Operand* value : values) {
    if (value->is_tensor() && !trace->usable(value->tensor(), "where", condition.loc())) return {};
  }
  auto type = common_type(*trace, values, "where", condition.loc());
  if (!type) return {};
  std::vector<Tensor> known = {mask};
  for (const Operand* value : values) {
    if (value->is_tensor()) known.push_back(cast_tensor(*trace, value->tensor(), *type, condition.loc()));
    if (!known.back().valid()) return {};
  }
  auto shape = common_shape(*trace, known, "where", condition.loc());
  if (!shape) return {};
  std::vector<Tensor> operands = {broadcast_tensor(*trace, mask, *shape, "where", condition.loc())};
  size_t next = 1;
  for (const Operand* value : values) {
    operands.push_back(value->is_tensor() ? broadcast_tensor(*trace, known[next++], *shape, "where", condition.loc())
                                          : number_tensor(*trace, *value, *type, *shape, "where", condition.loc()));
    if (!operands.back().valid()) return {};
  }
  return trace->emit(TensorOp::kSelect, operands, {}, condition.loc());
}

}  // namespace kiln::graph
