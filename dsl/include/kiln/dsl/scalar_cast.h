// Conversions between element types by value, as `cast` of tiles and of graphs makes them. Pure functions.
#pragma once

#include <bit>
#include <cmath>
#include <limits>

#include "kiln/dsl/scalar_lanes.h"

namespace kiln::dsl::scalar {

// The double nearest to an int, but with its last bit set where that is inexact ("round to odd"): rounding this once
// more to a float of at most 51 bits gives what rounding the int itself would.
inline double double_to_odd(Wide value) {
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

// apply(convert): convert(bits) gives the bits of the type `to` for those of the float type of From.
template <class From, class Function>
void with_cast_of_float(ElementType from, ElementType to, Function apply) {
  using Number = typename From::Number;
  if (to == ElementType::kI1) return apply([](uint64_t bits) { return uint64_t{From::decode(bits) != 0}; });
  if (is_int(to)) {
    return with_int(to, [&](auto lane) {
      using To = decltype(lane);
      apply([](uint64_t bits) { return To::encode(saturate_to_int<typename To::Number>(From::decode(bits))); });
    });
  }
  // f64 to a small float by way of f32 would round twice.
  if (from == ElementType::kF64 && is_small_float(to)) {
    return apply([=](uint64_t bits) { return bits_from_double(to, std::bit_cast<double>(bits)); });
  }
  with_float(to, [&](auto lane) {
    using To = decltype(lane);
    apply([](uint64_t bits) {
      const Number number = From::decode(bits);
      return To::encode(static_cast<typename To::Number>(number));
    });
  });
}

// The same of the int type of From.
template <class From, class Function>
void with_cast_of_int(ElementType to, Function apply) {
  if (to == ElementType::kI1) return apply([](uint64_t bits) { return uint64_t{bits != 0}; });
  if (is_small_float(to)) {
    return apply([=](uint64_t bits) { return bits_from_double(to, double_to_odd(From::decode(bits))); });
  }
  with_element(to, [&](auto lane) {
    using To = decltype(lane);
    apply([](uint64_t bits) { return To::encode(static_cast<typename To::Number>(From::decode(bits))); });
  });
}

// The same of any two types; of one to itself all bits stay. Chosen once, for loops.
template <class Function>
void with_cast(ElementType from, ElementType to, Function apply) {
  if (from == to) return apply([](uint64_t bits) { return bits; });
  if (is_float(from)) {
    return with_float(from, [&](auto lane) { with_cast_of_float<decltype(lane)>(from, to, apply); });
  }
  with_int(from, [&](auto lane) { with_cast_of_int<decltype(lane)>(to, apply); });
}

}  // namespace kiln::dsl::scalar
