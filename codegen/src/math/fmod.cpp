// fmod: the exact remainder with the dividend's sign, by long division of the significands, one bit a step. The steps
// are as many as the exponents differ at most in any lane, so ordinary arguments take few.
//
//   |x| = r·2^p, |y| = d·2^q with r, d in [2^(bits), 2^(bits+1));  while p > q: r = (r mod d)·2, p = p - 1
#include <llvm/IR/Module.h>

#include "math/math_builder.h"

namespace kiln::codegen {
namespace {

using llvm::BasicBlock;
using llvm::Value;

// A significand with its first bit set, and the exponent of its last bit plus a constant; subnormals are moved up.
struct Significand {
  Value* bits;
  Value* exponent;
};

Significand significand(MathBuilder& m, Value* magnitude) {
  auto& b = m.b;
  const int64_t width = m.mantissa_bits();
  Value* field = b.CreateLShr(magnitude, m.int_constant(width));
  Value* is_normal = b.CreateICmpNE(field, m.int_constant(0));
  Value* fraction = b.CreateAnd(magnitude, m.int_constant((int64_t{1} << width) - 1));
  Value* normal = b.CreateOr(fraction, m.int_constant(int64_t{1} << width));
  const int64_t leading = (m.is_f64() ? 63 : 31) - width;
  Value* zeros = b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, fraction, b.getFalse());
  Value* shift = b.CreateSub(zeros, m.int_constant(leading));
  // Of zero, which the caller treats apart, the shift is as wide as the type at most.
  shift = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, shift, m.int_constant(width));
  return {b.CreateSelect(is_normal, normal, b.CreateShl(fraction, shift)),
          b.CreateSelect(is_normal, field, b.CreateSub(m.int_constant(1), shift))};
}

// One step of the division: r mod d for r < 2·d.
Value* subtract_once(MathBuilder& m, Value* r, Value* d) {
  return m.b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, r, m.b.CreateSub(r, d));
}

// r·2^(exponent - bias - mantissa bits), which is a number of the type: no rounding.
Value* assemble(MathBuilder& m, Value* r, Value* exponent) {
  auto& b = m.b;
  Value* power = b.CreateSub(exponent, m.int_constant(m.exponent_bias() + m.mantissa_bits()));
  Value* half = b.CreateAShr(power, m.int_constant(1));
  auto power_of_two = [&](Value* e) {
    return m.from_bits(
        b.CreateShl(b.CreateAdd(e, m.int_constant(m.exponent_bias())), m.int_constant(m.mantissa_bits())));
  };
  Value* scaled = m.mul(b.CreateSIToFP(r, m.type()), power_of_two(half));
  return m.mul(scaled, power_of_two(b.CreateSub(power, half)));
}

// One function a type: it has a loop, which the caller's block must not care about.
llvm::Function* fmod_function(MathBuilder& outer) {
  llvm::Module& module = *outer.b.GetInsertBlock()->getModule();
  llvm::Type* type = outer.type();
  const std::string name = "kiln.fmod." + outer.type_name();
  if (auto* existing = module.getFunction(name)) return existing;
  auto& context = module.getContext();
  llvm::IRBuilder<> b(context);
  auto* function = llvm::Function::Create(llvm::FunctionType::get(type, {type, type}, false),
                                          llvm::Function::InternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  auto* entry = BasicBlock::Create(context, "entry", function);
  auto* step = BasicBlock::Create(context, "step", function);
  auto* done = BasicBlock::Create(context, "done", function);
  b.SetInsertPoint(entry);
  MathBuilder m(b, type, outer.options());
  Value *x = function->getArg(0), *y = function->getArg(1);
  Value *x_magnitude = m.bits(m.abs(x)), *y_magnitude = m.bits(m.abs(y));
  const Significand dividend = significand(m, x_magnitude), divisor = significand(m, y_magnitude);
  // Nothing to divide where |x| < |y|, nor where the result is NaN.
  Value* infinity = m.bits(m.infinity());
  Value* is_nan = b.CreateOr(b.CreateICmpUGE(x_magnitude, infinity), b.CreateICmpUGT(y_magnitude, infinity));
  is_nan = b.CreateOr(is_nan, b.CreateICmpEQ(y_magnitude, m.int_constant(0)));
  Value* is_x = b.CreateICmpULT(x_magnitude, y_magnitude);
  Value* steps =
      b.CreateSelect(b.CreateOr(is_nan, is_x), m.int_constant(0), b.CreateSub(dividend.exponent, divisor.exponent));
  Value* most = type->isVectorTy() ? b.CreateIntMaxReduce(steps, true) : steps;
  auto* zero = llvm::ConstantInt::get(most->getType(), 0);
  b.CreateCondBr(b.CreateICmpSGT(most, zero), step, done);

  b.SetInsertPoint(step);
  auto* r = b.CreatePHI(m.int_type(), 2);
  auto* left = b.CreatePHI(m.int_type(), 2);
  auto* all_left = b.CreatePHI(most->getType(), 2);
  Value* active = b.CreateICmpSGT(left, m.int_constant(0));
  Value* next = b.CreateSelect(active, b.CreateShl(subtract_once(m, r, divisor.bits), m.int_constant(1)), r);
  Value* next_left = b.CreateSub(left, m.int_constant(1));
  Value* next_all = b.CreateSub(all_left, llvm::ConstantInt::get(most->getType(), 1));
  r->addIncoming(dividend.bits, entry);
  r->addIncoming(next, step);
  left->addIncoming(steps, entry);
  left->addIncoming(next_left, step);
  all_left->addIncoming(most, entry);
  all_left->addIncoming(next_all, step);
  b.CreateCondBr(b.CreateICmpSGT(next_all, zero), step, done);

  b.SetInsertPoint(done);
  auto* last = b.CreatePHI(m.int_type(), 2);
  last->addIncoming(dividend.bits, entry);
  last->addIncoming(next, step);
  Value* result = assemble(m, subtract_once(m, last, divisor.bits), divisor.exponent);
  result = m.copysign(result, x);
  result = m.select(is_x, x, result);
  b.CreateRet(m.select(is_nan, m.nan(), result));
  return function;
}

}  // namespace

Value* emit_fmod(llvm::IRBuilder<>& b, Value* x, Value* y, const MathOptions& options) {
  MathBuilder m(b, x->getType(), options);
  return b.CreateCall(fmod_function(m), {x, y});
}

}  // namespace kiln::codegen
