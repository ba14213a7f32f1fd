// Interpreter: elementary functions. One precision more than the element has, then one rounding: f32 and below through
// double, f64 through long double.
#include <cmath>

#include "interpreter/interpreter_impl.h"
#include "interpreter/interpreter_lanes.h"

namespace kiln::dsl::interpreter {
namespace {

// y is x for functions of one operand.
template <class T>
T evaluate(MathFn function, T x, T y) {
  switch (function) {
    case MathFn::kExp:
      return std::exp(x);
    case MathFn::kExp2:
      return std::exp2(x);
    case MathFn::kExpm1:
      return std::expm1(x);
    case MathFn::kLog:
      return std::log(x);
    case MathFn::kLog2:
      return std::log2(x);
    case MathFn::kLog10:
      return std::log10(x);
    case MathFn::kLog1p:
      return std::log1p(x);
    case MathFn::kSin:
      return std::sin(x);
    case MathFn::kCos:
      return std::cos(x);
    case MathFn::kTan:
      return std::tan(x);
    case MathFn::kAsin:
      return std::asin(x);
    case MathFn::kAcos:
      return std::acos(x);
    case MathFn::kAtan:
      return std::atan(x);
    case MathFn::kAtan2:
      return std::atan2(x, y);
    case MathFn::kSinh:
      return std::sinh(x);
    case MathFn::kCosh:
      return std::cosh(x);
    case MathFn::kTanh:
      return std::tanh(x);
    case MathFn::kErf:
      return std::erf(x);
    case MathFn::kErfc:
      return std::erfc(x);
    case MathFn::kSqrt:
      return std::sqrt(x);
    case MathFn::kRsqrt:
      return T{1} / std::sqrt(x);
    case MathFn::kPow:
      return std::pow(x, y);
    case MathFn::kHypot:
      return std::hypot(x, y);
    case MathFn::kCopysign:
      break;  // copy_signs
    case MathFn::kSignbit:
      return std::signbit(x);
    case MathFn::kFloor:
      return std::floor(x);
    case MathFn::kCeil:
      return std::ceil(x);
    case MathFn::kRound:
      return std::nearbyint(x);  // to even in the default rounding mode
    case MathFn::kTrunc:
      return std::trunc(x);
    case MathFn::kIsnan:
      return std::isnan(x);
    case MathFn::kIsinf:
      return std::isinf(x);
  }
  return x;
}

// Functions that give a number of the operand's type without rounding; sqrt is rounded, if correctly.
bool is_exact(MathFn function) {
  return function == MathFn::kFloor || function == MathFn::kCeil || function == MathFn::kRound ||
         function == MathFn::kTrunc;
}

template <class Lane>
uint64_t evaluate_lane(MathFn function, uint64_t x, uint64_t y) {
  using Number = typename Lane::Number;
  using Finer = std::conditional_t<std::is_same_v<Number, double>, long double, double>;
  // sqrt of f64 is correctly rounded as it is; through long double it would round twice.
  if (std::is_same_v<Number, double> && function == MathFn::kSqrt) {
    return Lane::encode(static_cast<Number>(std::sqrt(static_cast<double>(Lane::decode(x)))));
  }
  // The powers of infinity are exact as they are; glibc's long double has inf for (-inf)^(-2^63).
  if (std::is_same_v<Number, double> && function == MathFn::kPow && std::isinf(Lane::decode(x))) {
    return Lane::encode(
        static_cast<Number>(std::pow(static_cast<double>(Lane::decode(x)), static_cast<double>(Lane::decode(y)))));
  }
  const Finer result = evaluate<Finer>(function, Lane::decode(x), Lane::decode(y));
  if (is_float_test(function)) return result != 0;
  if (is_exact(function)) return encode_own<Lane>(static_cast<Number>(result));
  return Lane::encode(static_cast<Number>(result));
}

// Bits, those of a NaN too.
void copy_signs(ElementType type, const Tile& x, const Tile& y, Tile& out) {
  const uint64_t sign = uint64_t{1} << (info(type).bits - 1);
  for (size_t lane = 0; lane < out.size(); ++lane) out.bits[lane] = (x.bits[lane] & (sign - 1)) | (y.bits[lane] & sign);
}

}  // namespace

void run_math(Machine& machine, const Op& op) {
  const MathFn function = static_cast<MathFn>(int_attr(op, 0));
  Tile& out = machine.result(op);
  const Tile& x = machine.operand(op, 0);
  const Tile& y = machine.operand(op, op.operands.size() - 1);
  if (function == MathFn::kCopysign) return copy_signs(machine.element(op), x, y, out);
  with_float(machine.element(op), [&](auto of) {
    for (size_t lane = 0; lane < out.size(); ++lane) {
      out.bits[lane] = evaluate_lane<decltype(of)>(function, x.bits[lane], y.bits[lane]);
    }
  });
}

}  // namespace kiln::dsl::interpreter
