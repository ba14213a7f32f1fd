// Elementwise ops of graphs as ops of tiles: what the language has by the same name, and a few that it lacks.
#include "kiln/dsl/library.h"
#include "step_emitter.h"

namespace kiln::planner {
namespace {

using lang::Value;

Value compare(graph::Predicate predicate, const Value& a, const Value& b) {
  switch (predicate) {
    case graph::Predicate::kEq:
      return a == b;
    case graph::Predicate::kNe:
      return a != b;
    case graph::Predicate::kLt:
      return a < b;
    case graph::Predicate::kLe:
      return a <= b;
    case graph::Predicate::kGt:
      return a > b;
    default:
      return a >= b;
  }
}

// -1, 0 or 1; NaN and zeros stay.
Value sign(const Value& x, ElementType element) {
  const auto number = [&](int n) { return lang::cast(lang::full({}, n, ElementType::kI32), element); };
  if (element == ElementType::kI1) return x;
  const Value one = number(1), zero = number(0);
  const Value up = lang::where(x > zero, one, x);
  if (!dsl::is_float(element) && !dsl::info(element).is_signed) return up;
  return lang::where(x < zero, number(-1), up);
}

Value unary(TensorOp op, const Value& x, ElementType result) {
  switch (op) {
    case TensorOp::kNeg:
      return -x;
    case TensorOp::kAbs:
      return lang::abs(x);
    case TensorOp::kSign:
      return sign(x, result);
    case TensorOp::kNot:
      return result == ElementType::kI1 ? !x : ~x;
    case TensorOp::kExp:
      return lang::exp(x);
    case TensorOp::kExp2:
      return lang::exp2(x);
    case TensorOp::kExpm1:
      return lang::expm1(x);
    case TensorOp::kLog:
      return lang::log(x);
    case TensorOp::kLog2:
      return lang::log2(x);
    case TensorOp::kLog10:
      return lang::log10(x);
    case TensorOp::kLog1p:
      return lang::log1p(x);
    case TensorOp::kSin:
      return lang::sin(x);
    case TensorOp::kCos:
      return lang::cos(x);
    case TensorOp::kTan:
      return lang::tan(x);
    case TensorOp::kAsin:
      return lang::asin(x);
    case TensorOp::kAcos:
      return lang::acos(x);
    case TensorOp::kAtan:
      return lang::atan(x);
    case TensorOp::kSinh:
      return lang::sinh(x);
    case TensorOp::kCosh:
      return lang::cosh(x);
    case TensorOp::kTanh:
      return lang::tanh(x);
    case TensorOp::kErf:
      return lang::erf(x);
    case TensorOp::kErfc:
      return lang::erfc(x);
    case TensorOp::kSqrt:
      return lang::sqrt(x);
    case TensorOp::kRsqrt:
      return lang::rsqrt(x);
    case TensorOp::kFloor:
      return lang::floor(x);
    case TensorOp::kCeil:
      return lang::ceil(x);
    case TensorOp::kRound:
      return lang::round(x);
    case TensorOp::kTrunc:
      return lang::trunc(x);
    case TensorOp::kSignbit:
      return lang::signbit(x);
    case TensorOp::kIsnan:
      return lang::isnan(x);
    case TensorOp::kIsinf:
      return lang::isinf(x);
    case TensorOp::kCast:
      return lang::cast(x, result);
    case TensorOp::kBitcast:
      return lang::bitcast(x, result);
    default:
      return {};
  }
}

Value binary(TensorOp op, const graph::AttrList& attrs, const Value& a, const Value& b) {
  switch (op) {
    case TensorOp::kAdd:
      return a + b;
    case TensorOp::kSub:
      return a - b;
    case TensorOp::kMul:
      return a * b;
    case TensorOp::kDiv:
      return a / b;
    case TensorOp::kRem:
      return a % b;
    case TensorOp::kMulhi:
      return lang::mulhi(a, b);
    case TensorOp::kMin:
      return lang::min(a, b);
    case TensorOp::kMax:
      return lang::max(a, b);
    case TensorOp::kAnd:
      return a & b;
    case TensorOp::kOr:
      return a | b;
    case TensorOp::kXor:
      return a ^ b;
    case TensorOp::kShl:
      return a << b;
    case TensorOp::kShr:
      return a >> b;
    case TensorOp::kCmp:
      return compare(graph::enum_attr<graph::Predicate>(attrs, 0), a, b);
    case TensorOp::kAtan2:
      return lang::atan2(a, b);
    case TensorOp::kPow:
      return lang::pow(a, b);
    case TensorOp::kHypot:
      return lang::hypot(a, b);
    case TensorOp::kCopysign:
      return lang::copysign(a, b);
    default:
      return {};
  }
}

}  // namespace

Value emit_op(TensorOp op, const graph::AttrList& attrs, ElementType result, std::span<const Value> operands) {
  if (operands.size() == 1) return unary(op, operands[0], result);
  if (operands.size() == 2) return binary(op, attrs, operands[0], operands[1]);
  if (op == TensorOp::kFma) return lang::fma(operands[0], operands[1], operands[2]);
  if (op == TensorOp::kSelect) return lang::where(operands[0], operands[1], operands[2]);
  return {};
}

}  // namespace kiln::planner
