// `cast` between all pairs of element types, by docs/reference/ops.md: the operand's exact value, rounded once.
//   float → int: truncates, saturates, NaN → 0.   int → int: the low bits, extended by the operand's signedness.
//   anything → float: nearest even.               anything → i1: whether x ≠ 0, true for NaN.
//   to its own type: itself, bit by bit, an infinite or NaN f8 too.
#pragma once

#include <vector>

#include "reference/formats.h"
#include "reference/types.h"

namespace kiln::reference {

Dyadic exact_value(Type type, Bits bits);  // of ints and floats
long double real_value(Type type, Bits bits);

Bits cast(Type from, Type to, Bits bits, Overflow overflow = Overflow::kDefault);
// `to` is a float.
Bits cast_stochastic(Type from, Type to, Bits bits, uint32_t random, Overflow overflow = Overflow::kDefault);

std::vector<Bits> cast(Type from, Type to, const std::vector<Bits>& elements, Overflow overflow = Overflow::kDefault);
std::vector<long double> real_values(Type type, const std::vector<Bits>& elements);
// By cast's rules from a real number: nearest even to floats, truncated and saturated to ints.
Bits element_of(Type type, long double value);
std::vector<Bits> elements_of(Type type, const std::vector<long double>& values);

}  // namespace kiln::reference
