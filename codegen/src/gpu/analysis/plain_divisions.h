// Divisions of scalars that need no care: nothing is negative, and nobody divides by 0. Where a program's place is
// computed from its number, the first loads wait for them, with signs and care for some 20 instructions longer.
//
//   %n = …; assume %n {low = 1}
//   %p = program_id {axis = 0}
//   %q = div %p, %n                →   udiv, without a look at the operands
#pragma once

#include <set>

#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

// Of the kernel's outermost region: what is known there holds wherever such an op is lowered once more.
std::set<const dsl::Op*> plain_divisions(const dsl::Kernel& kernel);

}  // namespace kiln::codegen::gpu
