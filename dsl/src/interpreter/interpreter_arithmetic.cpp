// Interpreter: arithmetic and bit operations.
#include <cmath>

#include "interpreter/interpreter_impl.h"
#include "kiln/dsl/scalar_math.h"

namespace kiln::dsl::interpreter {
namespace {

// out[lane] = function(number of a[lane], …) in the arithmetic type, rounded once to the element type.
template <class Lane, class Function, class... Tiles>
void map_lanes(Tile& out, Function function, const Tiles&... tiles) {
  for (size_t lane = 0; lane < out.size(); ++lane) {
    out.bits[lane] = Lane::encode(function(Lane::decode(tiles.bits[lane])...));
  }
}

template <class Function, class... Tiles>
void map_floats(ElementType type, Tile& out, Function function, const Tiles&... tiles) {
  with_float(type, [&](auto lane) { map_lanes<decltype(lane)>(out, function, tiles...); });
}

void float_arithmetic(Machine& machine, const Op& op) {
  const ElementType type = machine.element(op);
  Tile& out = machine.result(op);
  const Tile& a = machine.operand(op, 0);
  auto binary = [&](auto function) { map_floats(type, out, function, a, machine.operand(op, 1)); };
  auto min_max = [&](bool is_min) {
    const bool numeric = int_attr(op, 0) != 0;
    const Tile& b = machine.operand(op, 1);
    with_float(type, [&](auto of) {
      using Lane = decltype(of);
      for (size_t lane = 0; lane < out.size(); ++lane) {
        const auto x = Lane::decode(a.bits[lane]), y = Lane::decode(b.bits[lane]);
        out.bits[lane] = encode_own<Lane>(float_min_max(x, y, is_min, numeric));
      }
    });
  };
  // neg and abs touch the sign bit alone, NaN included.
  const uint64_t sign = uint64_t{1} << (info(type).bits - 1);
  auto sign_bit = [&](auto function) {
    for (size_t lane = 0; lane < out.size(); ++lane) out.bits[lane] = function(a.bits[lane]);
  };
  switch (op.code) {
    case OpCode::kAdd:
      return binary([](auto x, auto y) { return x + y; });
    case OpCode::kSub:
      return binary([](auto x, auto y) { return x - y; });
    case OpCode::kMul:
      return binary([](auto x, auto y) { return x * y; });
    case OpCode::kDiv:
      return binary([](auto x, auto y) { return x / y; });
    case OpCode::kRem:
      return binary([](auto x, auto y) { return std::fmod(x, y); });
    case OpCode::kFma:
      return map_floats(
          type, out, [](auto x, auto y, auto z) { return std::fma(x, y, z); }, a, machine.operand(op, 1),
          machine.operand(op, 2));
    case OpCode::kMin:
      return min_max(true);
    case OpCode::kMax:
      return min_max(false);
    case OpCode::kNeg:
      return sign_bit([=](uint64_t bits) { return bits ^ sign; });
    default:  // kAbs
      return sign_bit([=](uint64_t bits) { return bits & ~sign; });
  }
}

// out[lane] = what `function(a, b, result)` leaves in its result; the function says whether the exact one wrapped.
// keeps_wrapped: a wrapped operand makes the result an index that wrapped. div, rem and their like begin a new value:
// hashing by wrapping arithmetic and then `rem` is a sound way to make an index.
template <class Lane, class Function>
void map_ints(Tile& out, const Tile& a, const Tile& b, bool keeps_wrapped, Function function) {
  using T = typename Lane::Number;
  auto compute = [&](size_t lane, T& result) {
    return function(Lane::decode(a.bits[lane]), Lane::decode(b.bits[lane]), result);
  };
  bool any = false;
  T result;
  for (size_t lane = 0; lane < out.size(); ++lane) {
    any |= compute(lane, result);
    out.bits[lane] = Lane::encode(result);
  }
  keeps_wrapped = keeps_wrapped && !(a.wrapped.empty() && b.wrapped.empty());
  if (!any && !keeps_wrapped) return;
  for (size_t lane = 0; lane < out.size(); ++lane) {
    const bool from_operand = keeps_wrapped && (a.is_wrapped(lane) || b.is_wrapped(lane));
    if (compute(lane, result) || from_operand) out.mark_wrapped(lane);
  }
}

template <class Lane>
void int_arithmetic(Tile& out, const Op& op, const Tile& a, const Tile& b) {
  using T = typename Lane::Number;
  auto map = [&](bool keeps_wrapped, auto function) { map_ints<Lane>(out, a, b, keeps_wrapped, function); };
  switch (op.code) {
    case OpCode::kAdd:
      return map(true, [](T x, T y, T& z) { return __builtin_add_overflow(x, y, &z); });
    case OpCode::kSub:
      return map(true, [](T x, T y, T& z) { return __builtin_sub_overflow(x, y, &z); });
    case OpCode::kMul:
      return map(true, [](T x, T y, T& z) { return __builtin_mul_overflow(x, y, &z); });
    case OpCode::kDiv:
      return map(false, divide<T>);
    case OpCode::kRem:
      return map(false, remainder<T>);
    case OpCode::kMulhi:
      return map(false, multiply_high<T>);
    case OpCode::kMin:
      return map(true, [](T x, T y, T& z) { return z = x < y ? x : y, false; });
    case OpCode::kMax:
      return map(true, [](T x, T y, T& z) { return z = x < y ? y : x, false; });
    case OpCode::kNeg:
      return map(true, [](T x, T, T& z) { return __builtin_sub_overflow(T{0}, x, &z); });
    default:  // kAbs
      return map(true, [](T x, T, T& z) { return x < 0 ? __builtin_sub_overflow(T{0}, x, &z) : (z = x, false); });
  }
}

}  // namespace

void run_arithmetic(Machine& machine, const Op& op) {
  const ElementType type = machine.element(op);
  if (is_float(type)) return float_arithmetic(machine, op);
  Tile& out = machine.result(op);
  const Tile &a = machine.operand(op, 0), &b = machine.operand(op, op.operands.size() > 1 ? 1 : 0);
  with_int(type, [&](auto lane) { int_arithmetic<decltype(lane)>(out, op, a, b); });
}

void run_bits(Machine& machine, const Op& op) {
  Tile& out = machine.result(op);
  const Tile &a = machine.operand(op, 0), &b = machine.operand(op, 1);
  auto bitwise = [&](auto function) {
    for (size_t lane = 0; lane < out.size(); ++lane) out.bits[lane] = function(a.bits[lane], b.bits[lane]);
  };
  auto shift = [&](auto choose) {
    with_int(machine.element(op),
             [&](auto lane) { map_ints<decltype(lane)>(out, a, b, op.code == OpCode::kShl, choose(lane)); });
  };
  switch (op.code) {
    case OpCode::kAnd:
      return bitwise([](uint64_t x, uint64_t y) { return x & y; });
    case OpCode::kOr:
      return bitwise([](uint64_t x, uint64_t y) { return x | y; });
    case OpCode::kXor:
      return bitwise([](uint64_t x, uint64_t y) { return x ^ y; });
    case OpCode::kShl:
      return shift([](auto lane) { return shift_left<typename decltype(lane)::Number>; });
    default:  // kShr
      return shift([](auto lane) { return shift_right<typename decltype(lane)::Number>; });
  }
}

}  // namespace kiln::dsl::interpreter
