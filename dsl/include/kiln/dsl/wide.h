// Ints of any element type as numbers, for passes that compute with them. Pure functions.
#pragma once

#include "kiln/dsl/types.h"

namespace kiln::dsl {

using Wide = __int128;  // holds every int element, every sum, and every product of two but the largest of u64

// An int element as a number, and back by keeping the low bits.
Wide number_from_bits(ElementType element, uint64_t bits);
uint64_t bits_from_number(ElementType element, Wide number);
// The range of an int type.
Wide lowest(ElementType element);
Wide highest(ElementType element);

}  // namespace kiln::dsl
