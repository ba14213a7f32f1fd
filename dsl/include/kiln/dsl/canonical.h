// The canonical order of a kernel: the same program gives the same bytes, whatever the order in which a host compiler
// evaluated the operands of the traced C++ expressions.
#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::dsl {

// Drops dead ops, orders ops by demand from the effects (which stay in program order; a load stays between the stores
// that surround it), renumbers values. Names and locations stay; they do not influence the order. Known constants
// become literals. Carried values, and results of `if`, come in the order in which that walk meets them; those that
// nothing wants are dropped. Idempotent; expects a verified kernel.
Kernel canonicalise(const Kernel& kernel);

}  // namespace kiln::dsl
