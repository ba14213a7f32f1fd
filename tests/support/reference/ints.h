// Arithmetic on ints by docs/reference/ops.md, over 128-bit ints so that no intermediate wraps: i8…i64, u8…u64, and i1
// as an unsigned int of one bit. Operands and results are elements; an operand's bits above the type's width are
// ignored.
#pragma once

#include "reference/types.h"

namespace kiln::reference {

Wide int_value(Type type, Bits bits);  // by signedness
Bits wrap(Type type, Wide value);      // the low bits
Wide int_min(Type type);
Wide int_max(Type type);

namespace ints {

Bits add(Type type, Bits a, Bits b);
Bits sub(Type type, Bits a, Bits b);
Bits mul(Type type, Bits a, Bits b);
Bits mulhi(Type type, Bits a, Bits b);  // the high half of the product, by signedness
Bits div(Type type, Bits a, Bits b);    // toward zero; x/0 = 0, MIN/-1 = MIN
Bits rem(Type type, Bits a, Bits b);    // the dividend's sign; x rem 0 = x, MIN rem -1 = 0
Bits neg(Type type, Bits a);
Bits abs(Type type, Bits a);  // abs(MIN) = MIN
Bits min(Type type, Bits a, Bits b);
Bits max(Type type, Bits a, Bits b);
// The amount is unsigned; at the width or more: 0, or for a signed shr the sign fill.
Bits shl(Type type, Bits a, Bits amount);
Bits shr(Type type, Bits a, Bits amount);
Bits bit_and(Type type, Bits a, Bits b);
Bits bit_or(Type type, Bits a, Bits b);
Bits bit_xor(Type type, Bits a, Bits b);
// Of the library. Toward minus infinity; the remainder has the divisor's sign. A zero divisor as in div and rem, and
// a = floor_div·b + floor_mod holds but for wrapping.
Bits floor_div(Type type, Bits a, Bits b);
Bits floor_mod(Type type, Bits a, Bits b);

}  // namespace ints
}  // namespace kiln::reference
