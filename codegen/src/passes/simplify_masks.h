#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::codegen {

// What the ranges of ints decide (axis_info.h) becomes a constant, and masks of which no lane is left out vanish.
//
//   assume %n {multiple_of = 16}                       for %k = %zero to %n step %sixteen {
//   for %k = %zero to %n step %sixteen {                 %p = … %k + arange(0, 16)
//     %i = … %k + arange(0, 16)                     →    %x = load %p
//     %m = cmp %i, splat(%n) {pred = lt}                 …
//     %x = load %p, %m, %other
//
// Accesses whose mask is nowhere true are dropped; such a load gives `other`, an atomic 0. A minimum or maximum of
// which one operand is known to be the less or the greater is that operand.
dsl::Kernel simplify_masks(dsl::Kernel kernel);

}  // namespace kiln::codegen
