// The two steps of instantiate() (instantiate.h) by themselves, for who times them or looks at the kernel in between:
// constants in, then the passes behind the kernel options that say where results are rounded. These belong to the
// language: all that runs a kernel runs them, the interpreter too. Pure functions.
#pragma once

#include "kiln/dsl/config.h"
#include "kiln/dsl/ir.h"

namespace kiln::dsl {

// What instantiate() does before the passes below; its errors are this step's.
Result<Kernel> with_constants(const Kernel& kernel, const ConstexprValues& values, const Facts& facts);

// Take what with_constants() or the one before gave; a kernel without the option comes back as it is. What they give
// is canonical. In this order:
//
// `fuse_precision`: chains of f16, bf16 and f8 arithmetic run in f32, rounded where they end.
Kernel fuse_precision(Kernel kernel);
// `contract`: additions of a product that nothing else uses become `fma`.
Kernel contract(Kernel kernel);

}  // namespace kiln::dsl
