// Interpreter: conversions. Those between ints, and those that a C++ conversion rounds once, are loops over C++ types;
// the rest goes element by element through types.h or round_to_small.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "interpreter/interpreter_impl.h"
#include "interpreter/interpreter_lanes.h"

namespace kiln::dsl::interpreter {
namespace {

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

// Truncates and saturates; NaN gives 0. The limits are powers of two, which floats hold exactly.
template <class T, class Number>
T saturate_to_int(Number value) {
  const Number above = std::ldexp(Number{1}, std::numeric_limits<T>::digits);
  if (std::isnan(value)) return 0;
  if (value >= above) return std::numeric_limits<T>::max();
  if (value < static_cast<Number>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return static_cast<T>(value);
}

struct Format {
  int exponent_bits, mantissa_bits;
};
Format format_of(ElementType type) {
  switch (type) {
    case ElementType::kF16:
      return {5, 10};
    case ElementType::kBF16:
      return {8, 7};
    case ElementType::kF8E4M3:
      return {4, 3};
    default:  // f8e5m2
      return {5, 2};
  }
}

// Rounds to a float type below 32 bits. `random`: the word of stochastic rounding, which adds random·2^-32 of a step
// and takes the whole steps; null: to nearest even. Without `saturate` an f8 that overflows becomes inf, or NaN where
// the type has no inf; f16 and bf16 become inf either way.
uint64_t round_to_small(ElementType type, double value, const uint64_t* random, bool saturate) {
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return bits_from_double(type, value);
  const auto [exponent_bits, mantissa_bits] = format_of(type);
  const bool has_infinity = type != ElementType::kF8E4M3;
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (exponent_bits + mantissa_bits) : 0;
  const uint64_t infinity = ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  const uint64_t beyond = has_infinity ? infinity : infinity | ((uint64_t{1} << mantissa_bits) - 1);  // inf, or NaN
  uint64_t bits = beyond;
  if (!std::isinf(magnitude)) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = magnitude == 0 ? 1 - bias : std::max(std::ilogb(magnitude), 1 - bias);
    // In steps of the type in the value's binade: exact, and so is the fraction times 2^32.
    const double steps = std::ldexp(magnitude, mantissa_bits - exponent), whole = std::floor(steps);
    const bool up = random && std::ldexp(steps - whole, 32) >= 4294967296.0 - static_cast<double>(*random);
    const double rounded = random ? whole + up : std::nearbyint(steps);
    // A step count below 2^mantissa_bits is subnormal; a carry runs into the exponent field by itself.
    bits = static_cast<uint64_t>(rounded) + (static_cast<uint64_t>(exponent + bias - 1) << mantissa_bits);
  }
  const bool is_f8 = info(type).bits == 8;
  if (bits >= beyond) bits = is_f8 && saturate ? beyond - 1 : beyond;
  return sign | bits;
}

// A function from bits to bits for each lane.
template <class Function>
void map_bits(Tile& out, const Tile& x, Function function) {
  for (size_t lane = 0; lane < out.size(); ++lane) out.bits[lane] = function(x.bits[lane]);
}

template <class From>
void cast_from_float(ElementType from, ElementType to, Tile& out, const Tile& x) {
  using Number = typename From::Number;
  if (to == ElementType::kI1) return map_bits(out, x, [](uint64_t bits) { return From::decode(bits) != 0; });
  if (is_int(to)) {
    return with_int(to, [&](auto lane) {
      using To = decltype(lane);
      map_bits(out, x,
               [](uint64_t bits) { return To::encode(saturate_to_int<typename To::Number>(From::decode(bits))); });
    });
  }
  // f64 to a small float by way of f32 would round twice.
  if (from == ElementType::kF64 && is_small_float(to)) {
    return map_bits(out, x, [=](uint64_t bits) { return bits_from_double(to, std::bit_cast<double>(bits)); });
  }
  with_float(to, [&](auto lane) {
    using To = decltype(lane);
    map_bits(out, x, [](uint64_t bits) {
      const Number number = From::decode(bits);
      return To::encode(static_cast<typename To::Number>(number));
    });
  });
}

template <class From>
void cast_from_int(ElementType to, Tile& out, const Tile& x) {
  if (to == ElementType::kI1) return map_bits(out, x, [](uint64_t bits) { return bits != 0; });
  if (to == ElementType::kF32 || to == ElementType::kF64) {
    return with_float(to, [&](auto lane) {
      using To = decltype(lane);
      map_bits(out, x, [](uint64_t b) { return To::encode(static_cast<typename To::Number>(From::decode(b))); });
    });
  }
  if (is_float(to)) {
    return map_bits(out, x, [=](uint64_t bits) { return bits_from_double(to, double_to_odd(From::decode(bits))); });
  }
  with_int(to, [&](auto lane) {
    using To = decltype(lane);
    bool changed = !x.wrapped.empty();
    for (size_t i = 0; i < out.size(); ++i) {
      const auto number = From::decode(x.bits[i]);
      out.bits[i] = To::encode(static_cast<typename To::Number>(number));
      changed |= !std::in_range<typename To::Number>(number);
    }
    // An index stays one through casts between ints; a narrowing that changes its value wraps it.
    for (size_t i = 0; changed && i < out.size(); ++i) {
      if (!std::in_range<typename To::Number>(From::decode(x.bits[i])) || x.is_wrapped(i)) out.mark_wrapped(i);
    }
  });
}

}  // namespace

void run_cast(Machine& machine, const Op& op) {
  const ElementType from = machine.element(op), to = std::get<ElementType>(op.attrs[0]);
  const bool stochastic = static_cast<Rounding>(int_attr(op, 1)) == Rounding::kStochastic,
             saturate = int_attr(op, 2) != 0;
  Tile& out = machine.result(op);
  const Tile& x = machine.operand(op, 0);
  if (from == to && !stochastic) {
    out.bits = x.bits;
    out.wrapped = x.wrapped;
  } else if (stochastic || (!saturate && is_small_float(to))) {
    for (size_t lane = 0; lane < out.size(); ++lane) {
      // Every int below 2^53 is its double; above, all of them overflow an f8 anyway.
      const double value = double_from_bits(from, x.bits[lane]);
      out.bits[lane] = round_to_small(to, value, stochastic ? &machine.operand(op, 1).bits[lane] : nullptr, saturate);
    }
  } else if (is_float(from)) {
    with_float(from, [&](auto lane) { cast_from_float<decltype(lane)>(from, to, out, x); });
  } else {
    with_int(from, [&](auto lane) { cast_from_int<decltype(lane)>(to, out, x); });
  }
}

void run_bitcast(Machine& machine, const Op& op) { machine.result(op).bits = machine.operand(op, 0).bits; }

}  // namespace kiln::dsl::interpreter
