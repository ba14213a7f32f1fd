// The elementary functions as inline LLVM IR, for scalars and vectors of f32 and f64 of any width and for any target.
// No call is emitted; sin, cos and tan bring functions of their own into the module.
//
// Error bounds are those of docs/ops.md, over the whole range of arguments, with and without FMA. Special values are
// those of IEEE 754 and C; subnormals are kept, in and out. Odd functions are exactly odd.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "kiln/dsl/ops.h"

namespace kiln::codegen {

struct MathOptions {
  bool has_fma = true;      // without it polynomials use mul and add, and exact products Dekker's method
  bool has_avx512 = false;  // F and DQ: scaling, mantissas and estimates of reciprocals in one instruction
  bool fast = false;        // cheaper where it gains: a few ulp more, subnormals may flush
};

// Operands: float or double, scalars or fixed vectors of any length; one or two (dsl::math_arity). signbit, isnan and
// isinf give i1 (vectors of i1).
llvm::Value* emit_math(llvm::IRBuilder<>& b, dsl::MathFn fn, llvm::ArrayRef<llvm::Value*> operands,
                       const MathOptions& options);

// x - y·trunc(x / y), exact, with x's sign; C's fmod.
llvm::Value* emit_fmod(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y, const MathOptions& options);

}  // namespace kiln::codegen
