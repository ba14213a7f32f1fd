// The elementary functions as inline LLVM IR, for scalars and vectors of f32 of any width and for any target.
//
// Error bounds (ulp, against the exact value, over the whole range): exp, exp2, log, log2, sin, cos 2; erf 2; tanh 4;
// rsqrt 1; sqrt, floor, ceil, round, trunc exact. Special values as IEEE 754 recommends; subnormals are kept.
// f64 goes lane by lane through the C library of the process that runs the kernel.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "kiln/dsl/ops.h"

namespace kiln::codegen {

struct MathOptions {
  bool has_fma = true;      // without it polynomials use mul and add, a fraction of an ulp worse
  bool has_avx512 = false;  // scaling by a power of two is one instruction
};

llvm::Value* emit_math_f32(llvm::IRBuilder<>& b, dsl::MathFn fn, llvm::Value* x, const MathOptions& options);
llvm::Value* emit_math_f64(llvm::IRBuilder<>& b, dsl::MathFn fn, llvm::Value* x);

}  // namespace kiln::codegen
