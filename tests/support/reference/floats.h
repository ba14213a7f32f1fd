// Arithmetic on floats by docs/reference/ops.md. f32 and f64 use the host's IEEE 754 arithmetic; f16, bf16 and f8
// compute in f32 and round once more, to nearest even, at the result (so an fma of f16 is rounded to f32 first: that is
// the rule). The sign bit's ops work on the bits, of NaN and infinity too.
#pragma once

#include "reference/formats.h"

namespace kiln::reference::floats {

Bits add(Type type, Bits a, Bits b);
Bits sub(Type type, Bits a, Bits b);
Bits mul(Type type, Bits a, Bits b);
Bits div(Type type, Bits a, Bits b);
Bits rem(Type type, Bits a, Bits b);  // fmod
Bits fma(Type type, Bits a, Bits b, Bits c);
Bits sqrt(Type type, Bits a);
Bits neg(Type type, Bits a);
Bits abs(Type type, Bits a);
// A NaN operand gives NaN; with `numeric` the other operand. Of two zeros, the first (the rule allows either).
Bits min(Type type, Bits a, Bits b, bool numeric = false);
Bits max(Type type, Bits a, Bits b, bool numeric = false);

}  // namespace kiln::reference::floats
