#include "math/vector_math.h"

#include "math/math_builder.h"

namespace kiln::codegen {

using dsl::MathFn;
using llvm::Value;

Value* emit_math(llvm::IRBuilder<>& b, MathFn fn, llvm::ArrayRef<Value*> operands, const MathOptions& options) {
  Value* x = operands.front();
  Value* y = operands.back();
  MathBuilder m(b, x->getType(), options);
  switch (fn) {
    case MathFn::kExp:
      return emit_exp(m, x);
    case MathFn::kExp2:
      return emit_exp2(m, x);
    case MathFn::kExpm1:
      return emit_expm1(m, x);
    case MathFn::kLog:
    case MathFn::kLog2:
    case MathFn::kLog10:
    case MathFn::kLog1p:
      return emit_log(m, fn, x);
    case MathFn::kSin:
    case MathFn::kCos:
    case MathFn::kTan:
      return emit_trig(m, fn, x);
    case MathFn::kAsin:
      return emit_asin_acos(m, x, false);
    case MathFn::kAcos:
      return emit_asin_acos(m, x, true);
    case MathFn::kAtan:
      return emit_atan(m, x);
    case MathFn::kAtan2:
      return emit_atan2(m, x, y);
    case MathFn::kSinh:
      return emit_sinh_cosh(m, x, false);
    case MathFn::kCosh:
      return emit_sinh_cosh(m, x, true);
    case MathFn::kTanh:
      return emit_tanh(m, x);
    case MathFn::kErf:
      return emit_erf(m, x);
    case MathFn::kErfc:
      return emit_erfc(m, x);
    case MathFn::kSqrt:
      return emit_sqrt(m, x);
    case MathFn::kRsqrt:
      return emit_rsqrt(m, x);
    case MathFn::kPow:
      return emit_pow(m, x, y);
    case MathFn::kHypot:
      return emit_hypot(m, x, y);
    case MathFn::kCopysign:
      return m.copysign(x, y);
    case MathFn::kSignbit:
      return b.CreateICmpSLT(m.bits(x), m.int_constant(0));
    case MathFn::kFloor:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x);
    case MathFn::kCeil:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, x);
    case MathFn::kRound:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x);
    case MathFn::kTrunc:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, x);
    case MathFn::kIsnan:
      return b.CreateFCmpUNO(x, x);
    case MathFn::kIsinf:
      return m.equal(m.abs(x), m.infinity());
  }
  llvm_unreachable("a math function without code");
}

}  // namespace kiln::codegen
