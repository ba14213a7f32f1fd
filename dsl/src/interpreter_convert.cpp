// Interpreter: comparison, selection, conversion.
#include <cmath>

#include "interpreter_impl.h"

namespace kiln::dsl::interpreter {
namespace {

template <class T>
bool compare(Predicate predicate, T a, T b) {
  switch (predicate) {
    case Predicate::kEq:
      return a == b;
    case Predicate::kNe:
      return a != b;  // true for NaN: unordered
    case Predicate::kLt:
      return a < b;
    case Predicate::kLe:
      return a <= b;
    case Predicate::kGt:
      return a > b;
    case Predicate::kGe:
      return a >= b;
  }
  return false;
}

Tile cmp(const Machine& machine, const Op& op) {
  const Predicate predicate = static_cast<Predicate>(std::get<int64_t>(op.attrs[0]));
  const ElementType type = machine.element(op);
  const Tile &a = machine.operand(op, 0), &b = machine.operand(op, 1);
  Tile out;
  out.bits.resize(a.size());
  for (size_t lane = 0; lane < a.size(); ++lane) {
    out.bits[lane] = is_float(type) ? compare(predicate, float_from_bits<double>(type, a.bits[lane]),
                                              float_from_bits<double>(type, b.bits[lane]))
                                    : compare(predicate, wide_from_bits(info(type), a.bits[lane]),
                                              wide_from_bits(info(type), b.bits[lane]));
  }
  return out;
}

Tile select(const Machine& machine, const Op& op) {
  const Tile &condition = machine.operand(op, 0), &a = machine.operand(op, 1), &b = machine.operand(op, 2);
  Tile out;
  out.bits.resize(a.size());
  out.base.resize(a.base.size());
  for (size_t lane = 0; lane < a.size(); ++lane) {
    const Tile& from = condition.bits[lane] != 0 ? a : b;
    out.bits[lane] = from.bits[lane];
    if (!out.base.empty()) out.base[lane] = from.base[lane];
    if (from.is_wrapped(lane)) out.mark_wrapped(lane);
  }
  return out;
}

// The double nearest to an int, but with its last bit set where that is inexact ("round to odd"): rounding this once
// more to a float of at most 51 bits gives what rounding the int itself would.
double double_to_odd(Wide value) {
  const double nearest = static_cast<double>(value);
  if (static_cast<Wide>(nearest) == value) return nearest;
  const uint64_t bits = std::bit_cast<uint64_t>(nearest);
  if (bits & 1) return nearest;
  // The neighbour on the other side of the value has an odd last bit.
  const bool went_up = (static_cast<Wide>(nearest) > value) == (value > 0);
  return std::bit_cast<double>(went_up ? bits - 1 : bits + 1);
}

uint64_t cast(ElementType from, ElementType to, uint64_t bits) {
  if (from == to) return bits;
  if (is_float(from)) return bits_from_double(to, double_from_bits(from, bits));
  const Wide value = wide_from_bits(info(from), bits);
  if (to == ElementType::kI1) return value != 0;
  if (!is_float(to)) return low_bits(static_cast<uint64_t>(value), info(to).bits);
  return bits_from_double(to, to == ElementType::kF64 ? static_cast<double>(value) : double_to_odd(value));
}

}  // namespace

Result<void> run_compare(Machine& machine, const Op& op) {
  machine.set(op, op.code == OpCode::kCmp ? cmp(machine, op) : select(machine, op));
  return {};
}

Result<void> run_convert(Machine& machine, const Op& op) {
  const ElementType from = machine.element(op), to = std::get<ElementType>(op.attrs[0]);
  const Tile& x = machine.operand(op, 0);
  Tile out;
  if (op.code == OpCode::kBitcast) {
    out.bits = x.bits;
  } else {
    out.bits.resize(x.size());
    for (size_t lane = 0; lane < x.size(); ++lane) out.bits[lane] = cast(from, to, x.bits[lane]);
    // An index stays one through casts between ints; a narrowing that changes its value wraps it.
    const bool index = is_int(from) && is_int(to) && to != ElementType::kI1;
    for (size_t lane = 0; index && lane < x.size(); ++lane) {
      const bool changed = wide_from_bits(info(to), out.bits[lane]) != wide_from_bits(info(from), x.bits[lane]);
      if (changed || x.is_wrapped(lane)) out.mark_wrapped(lane);
    }
  }
  machine.set(op, std::move(out));
  return {};
}

}  // namespace kiln::dsl::interpreter
