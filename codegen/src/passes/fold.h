#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::codegen {

// Ops on constants become constants, and identities that are exact for the type take ops away.
//
//   %c = mul %two, %three                         %c = constant {value = 6, type = i32}
//   %a = add %x, %zero : i32                      (uses of %a are uses of %x)
//   %s = add splat(%m), splat(%n)            →    %s = splat (add %m, %n)
//   %b = broadcast splat(%m)                      %b = splat %m
//   %d = cast (cast %h {to = f32}) {to = f64}     %d = cast %h {to = f64}
//   if %true { … } else { … }                     (the ops of the first region)
//
// Constants are computed by the interpreter, which is what the language means by an op. Left alone: elementary
// functions that are not exact, results that are NaN (their bits may differ), and float arithmetic that is not the
// identity for every operand, such as x + 0 of -0.
dsl::Kernel fold(dsl::Kernel kernel);

}  // namespace kiln::codegen
