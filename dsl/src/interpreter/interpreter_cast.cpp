// Interpreter: conversions. Those between ints, and those that a C++ conversion rounds once, are loops over C++ types;
// the rest goes element by element through types.h or round_to_small.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "interpreter/interpreter_impl.h"
#include "kiln/dsl/scalar_cast.h"

namespace kiln::dsl::interpreter {
namespace {

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

// An index stays one through casts between ints; a narrowing that changes its value wraps it.
void mark_wrapped(ElementType from, ElementType to, Tile& out, const Tile& x) {
  with_int(from, [&](auto from_lane) {
    with_int(to, [&](auto to_lane) {
      using From = decltype(from_lane);
      auto changes = [&](size_t i) {
        return !std::in_range<typename decltype(to_lane)::Number>(From::decode(x.bits[i])) || x.is_wrapped(i);
      };
      bool any = !x.wrapped.empty();
      for (size_t i = 0; i < out.size(); ++i) any |= changes(i);
      for (size_t i = 0; any && i < out.size(); ++i) {
        if (changes(i)) out.mark_wrapped(i);
      }
    });
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
  } else {
    with_cast(from, to, [&](auto convert) {
      for (size_t lane = 0; lane < out.size(); ++lane) out.bits[lane] = convert(x.bits[lane]);
    });
    if (is_int(from) && is_int(to) && to != ElementType::kI1) mark_wrapped(from, to, out, x);
  }
}

void run_bitcast(Machine& machine, const Op& op) { machine.result(op).bits = machine.operand(op, 0).bits; }

}  // namespace kiln::dsl::interpreter
