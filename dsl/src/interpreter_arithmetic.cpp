// Interpreter: arithmetic and bit operations.
#include <cmath>

#include "interpreter_impl.h"

namespace kiln::dsl::interpreter {
namespace {

template <class T>
T float_min_max(T a, T b, bool is_min, bool numeric) {
  if (std::isnan(a)) return numeric ? b : a;
  if (std::isnan(b)) return numeric ? a : b;
  return is_min ? (b < a ? b : a) : (a < b ? b : a);
}

Tile float_arithmetic(const Machine& machine, const Op& op) {
  const ElementType type = machine.element(op);
  const Tile& a = machine.operand(op, 0);
  auto binary = [&](auto function) { return map_floats(type, function, a, machine.operand(op, 1)); };
  auto min_max = [&](bool is_min) {
    const bool numeric = std::get<int64_t>(op.attrs[0]) != 0;
    return binary([=](auto x, auto y) { return float_min_max(x, y, is_min, numeric); });
  };
  // neg and abs touch the sign bit alone, NaN included.
  auto sign_bit = [&](auto function) {
    Tile out;
    const uint64_t sign = uint64_t{1} << (info(type).bits - 1);
    for (uint64_t bits : a.bits) out.bits.push_back(function(bits, sign));
    return out;
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
          type, [](auto x, auto y, auto z) { return std::fma(x, y, z); }, a, machine.operand(op, 1),
          machine.operand(op, 2));
    case OpCode::kMin:
      return min_max(true);
    case OpCode::kMax:
      return min_max(false);
    case OpCode::kNeg:
      return sign_bit([](uint64_t bits, uint64_t sign) { return bits ^ sign; });
    default:
      return sign_bit([](uint64_t bits, uint64_t sign) { return bits & ~sign; });
  }
}

// Exact result of one lane; the caller wraps it to the element's width.
Wide int_result(OpCode code, Wide a, Wide b) {
  switch (code) {
    case OpCode::kAdd:
      return a + b;
    case OpCode::kSub:
      return a - b;
    case OpCode::kMul:
      return static_cast<Wide>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
    case OpCode::kDiv:
      return b == 0 ? 0 : a / b;  // MIN / -1 is MIN once wrapped
    case OpCode::kRem:
      return b == 0 ? a : a % b;
    case OpCode::kMin:
      return a < b ? a : b;
    case OpCode::kMax:
      return a < b ? b : a;
    case OpCode::kNeg:
      return -a;
    default:
      return a < 0 ? -a : a;
  }
}

// Whether a wrapped operand makes the result an index that wrapped. div, rem and their like begin a new value: hashing
// by wrapping arithmetic and then `rem` is a sound way to make an index.
bool keeps_wrapped(OpCode code) { return code != OpCode::kDiv && code != OpCode::kRem; }

Tile int_arithmetic(const Machine& machine, const Op& op) {
  const ElementTypeInfo& type = info(machine.element(op));
  const Tile& a = machine.operand(op, 0);
  const Tile& b = machine.operand(op, op.operands.size() > 1 ? 1 : 0);
  Tile out;
  out.bits.resize(a.size());
  for (size_t lane = 0; lane < a.size(); ++lane) {
    const Wide exact = int_result(op.code, wide_from_bits(type, a.bits[lane]), wide_from_bits(type, b.bits[lane]));
    out.bits[lane] = low_bits(static_cast<uint64_t>(exact), type.bits);
    const bool from_operand = keeps_wrapped(op.code) && (a.is_wrapped(lane) || b.is_wrapped(lane));
    if (from_operand || wide_from_bits(type, out.bits[lane]) != exact) out.mark_wrapped(lane);
  }
  return out;
}

uint64_t shift(OpCode code, const ElementTypeInfo& type, uint64_t x, uint64_t amount) {
  const uint64_t width = static_cast<uint64_t>(type.bits);
  if (code == OpCode::kShl) return amount >= width ? 0 : low_bits(x << amount, type.bits);
  if (!type.is_signed) return amount >= width ? 0 : x >> amount;
  const int64_t value = sign_extend(x, type.bits);
  return low_bits(static_cast<uint64_t>(value >> (amount >= width ? width - 1 : amount)), type.bits);
}

}  // namespace

Result<void> run_arithmetic(Machine& machine, const Op& op) {
  machine.set(op, is_float(machine.element(op)) ? float_arithmetic(machine, op) : int_arithmetic(machine, op));
  return {};
}

Result<void> run_bits(Machine& machine, const Op& op) {
  const ElementTypeInfo& type = info(machine.element(op));
  const Tile &a = machine.operand(op, 0), &b = machine.operand(op, 1);
  Tile out;
  out.bits.resize(a.size());
  for (size_t lane = 0; lane < a.size(); ++lane) {
    const uint64_t x = a.bits[lane], y = b.bits[lane];
    switch (op.code) {
      case OpCode::kAnd:
        out.bits[lane] = x & y;
        break;
      case OpCode::kOr:
        out.bits[lane] = x | y;
        break;
      case OpCode::kXor:
        out.bits[lane] = x ^ y;
        break;
      default:
        out.bits[lane] = shift(op.code, type, x, y);
    }
  }
  // A left shift is a product; whoever shifts bits out of an index has wrapped it.
  if (op.code == OpCode::kShl) {
    for (size_t lane = 0; lane < a.size(); ++lane) {
      const bool lost = shift(OpCode::kShr, type, out.bits[lane], b.bits[lane]) != a.bits[lane];
      if (lost || a.is_wrapped(lane)) out.mark_wrapped(lane);
    }
  }
  machine.set(op, std::move(out));
  return {};
}

}  // namespace kiln::dsl::interpreter
