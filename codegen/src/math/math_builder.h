// Shorthand for f32 arithmetic on scalars and vectors alike.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include <initializer_list>

#include "math/vector_math.h"

namespace kiln::codegen {

class MathBuilder {
 public:
  MathBuilder(llvm::IRBuilder<>& builder, llvm::Type* type, const MathOptions& options)
      : b(builder), type_(type), options_(options) {}

  llvm::IRBuilder<>& b;

  llvm::Type* type() const { return type_; }
  llvm::Type* int_type() const { return type_->getWithNewType(b.getInt32Ty()); }
  const MathOptions& options() const { return options_; }

  llvm::Value* constant(double value) { return llvm::ConstantFP::get(type_, value); }
  llvm::Value* int_constant(int64_t value) {
    return llvm::ConstantInt::get(int_type(), static_cast<uint64_t>(value), true);
  }
  llvm::Value* infinity() { return llvm::ConstantFP::getInfinity(type_); }
  llvm::Value* nan() { return llvm::ConstantFP::getNaN(type_); }

  llvm::Value* add(llvm::Value* x, llvm::Value* y) { return b.CreateFAdd(x, y); }
  llvm::Value* sub(llvm::Value* x, llvm::Value* y) { return b.CreateFSub(x, y); }
  llvm::Value* mul(llvm::Value* x, llvm::Value* y) { return b.CreateFMul(x, y); }
  llvm::Value* fma(llvm::Value* x, llvm::Value* y, llvm::Value* z) {
    if (!options_.has_fma) return add(mul(x, y), z);
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {x, y, z});
  }
  llvm::Value* abs(llvm::Value* x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  llvm::Value* round_even(llvm::Value* x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x); }
  llvm::Value* copysign(llvm::Value* magnitude, llvm::Value* sign) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
  }
  llvm::Value* bits(llvm::Value* x) { return b.CreateBitCast(x, int_type()); }
  llvm::Value* from_bits(llvm::Value* x) { return b.CreateBitCast(x, type_); }
  // NaN in gives NaN out, as `b`: the order that x86's min and max give for free.
  llvm::Value* at_least(llvm::Value* x, double low) {
    return b.CreateSelect(b.CreateFCmpOGT(constant(low), x), constant(low), x);
  }
  llvm::Value* at_most(llvm::Value* x, double high) {
    return b.CreateSelect(b.CreateFCmpOLT(constant(high), x), constant(high), x);
  }
  // c0 + c1·x + c2·x² + … by Horner's rule.
  llvm::Value* polynomial(llvm::Value* x, std::initializer_list<double> coefficients) {
    const double* c = coefficients.end() - 1;
    llvm::Value* sum = constant(*c);
    while (c != coefficients.begin()) sum = fma(sum, x, constant(*--c));
    return sum;
  }
  llvm::Value* select(llvm::Value* condition, llvm::Value* x, llvm::Value* y) {
    return b.CreateSelect(condition, x, y);
  }

 private:
  llvm::Type* type_;
  MathOptions options_;
};

llvm::Value* emit_sin_cos(MathBuilder& m, llvm::Value* x, bool cosine);

}  // namespace kiln::codegen
