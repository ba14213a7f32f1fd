#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::codegen {

// Packed operands of dot_scaled as f8e4m3, which has all numbers of e2m1.
//
//   dot_scaled %a, …     (%a: tile<[M, K/2], u8>)    %low = and %a, 15     %high = shr %a, 4
//                                               →    %codes = the e4m3 of each, bit by bit
//                                                    %pairs = join %low', %high'
//                                                    %a' = bitcast (reshape %pairs {shape = [M, K]}) {to = f8e4m3}
//                                                    dot_scaled %a', …
//
// Of the second operand, [K/2, N], the pairs' axis is moved in front of N first.
dsl::Kernel unpack_e2m1(dsl::Kernel kernel);

}  // namespace kiln::codegen
