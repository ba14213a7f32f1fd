// The elementary functions as inline LLVM IR, for scalars and vectors of f32 and f64 of any width and for any target.
// No call is emitted; sin, cos and tan bring functions of their own into the module.
//
// Error bounds are those of docs/reference/ops.md, over the whole range of arguments, with and without FMA. Special
// values are those of IEEE 754 and C; subnormals are kept, in and out. Odd functions are exactly odd.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "kiln/dsl/ops.h"

namespace kiln::codegen {

// What GPUs have instructions for that come near the value, of one f32. Special values are as IEEE 754 has them.
enum class Estimate : uint8_t {
  kReciprocal,  // 1/x to 1 ulp; results below the normal numbers may be 0
  kRsqrt,       // 1/√x to 2^-22
  kSqrt,        // √x to 2^-22
  kExp2,        // 2^x to 1 ulp for |x| ≤ 1/2, else 2; results below the normal numbers may be 0
  kLog2,        // to 2^-22, absolute for x in [0.5, 2]
  kSin,         // to 2^-20, absolute, for |x| ≤ π
  kCos,         // likewise
};

struct MathOptions {
  bool has_fma = true;      // without it polynomials use mul and add, and exact products Dekker's method
  bool has_avx512 = false;  // F and DQ: scaling, mantissas and estimates of reciprocals in one instruction
  bool fast = false;        // cheaper where it gains: a few ulp more, subnormals may flush
  // Emits an estimate, all of them or none: null on targets without.
  llvm::Value* (*estimate)(llvm::IRBuilder<>& b, Estimate function, llvm::Value* x) = nullptr;
};

// Operands: float or double, scalars or fixed vectors of any length; one or two (dsl::math_arity). signbit, isnan and
// isinf give i1 (vectors of i1).
llvm::Value* emit_math(llvm::IRBuilder<>& b, dsl::MathFn fn, llvm::ArrayRef<llvm::Value*> operands,
                       const MathOptions& options);

// x - y·trunc(x / y), exact, with x's sign; C's fmod.
llvm::Value* emit_fmod(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y, const MathOptions& options);

}  // namespace kiln::codegen
