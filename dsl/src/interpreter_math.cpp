// Interpreter: elementary functions. One precision more than the element has, then one rounding: f32 and below through
// double, f64 through long double.
#include <cmath>

#include "interpreter_impl.h"

namespace kiln::dsl::interpreter {
namespace {

template <class T>
T evaluate(MathFn function, T x) {
  switch (function) {
    case MathFn::kExp:
      return std::exp(x);
    case MathFn::kExp2:
      return std::exp2(x);
    case MathFn::kLog:
      return std::log(x);
    case MathFn::kLog2:
      return std::log2(x);
    case MathFn::kSin:
      return std::sin(x);
    case MathFn::kCos:
      return std::cos(x);
    case MathFn::kTanh:
      return std::tanh(x);
    case MathFn::kErf:
      return std::erf(x);
    case MathFn::kSqrt:
      return std::sqrt(x);
    case MathFn::kRsqrt:
      return T{1} / std::sqrt(x);
    case MathFn::kFloor:
      return std::floor(x);
    case MathFn::kCeil:
      return std::ceil(x);
    case MathFn::kRound:
      return std::nearbyint(x);  // to even in the default rounding mode
    case MathFn::kTrunc:
      return std::trunc(x);
    default:
      return x;
  }
}

uint64_t evaluate_bits(MathFn function, ElementType type, uint64_t bits) {
  if (type == ElementType::kF64) {
    const double x = std::bit_cast<double>(bits);
    // sqrt of the type itself is correctly rounded; through long double it would round twice.
    if (function == MathFn::kSqrt) return std::bit_cast<uint64_t>(std::sqrt(x));
    return std::bit_cast<uint64_t>(static_cast<double>(evaluate(function, static_cast<long double>(x))));
  }
  // Through f32 also for the smaller types: their arithmetic is f32's, rounded once.
  const float result = static_cast<float>(evaluate(function, double_from_bits(type, bits)));
  return bits_from_float<float>(type, result);
}

}  // namespace

Result<void> run_math(Machine& machine, const Op& op) {
  const MathFn function = static_cast<MathFn>(std::get<int64_t>(op.attrs[0]));
  const ElementType type = machine.element(op);
  Tile out;
  for (uint64_t bits : machine.operand(op, 0).bits) out.bits.push_back(evaluate_bits(function, type, bits));
  machine.set(op, std::move(out));
  return {};
}

}  // namespace kiln::dsl::interpreter
