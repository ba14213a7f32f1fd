// sin and cos of f32 with correct range reduction for every argument.
//
// |x| < 2^28: r = x - n·π/2 in f64, π/2 in two parts; the products are exact inside the fmas, so r keeps all its bits.
// Larger arguments take a rare path: Payne-Hanek reduction with 96 bits of 2/π around the argument's exponent.
#include <llvm/IR/Function.h>
#include <llvm/IR/Module.h>

#include "math/math_builder.h"

namespace kiln::codegen {
namespace {

using llvm::BasicBlock;
using llvm::Value;

constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr double kHalfPiHigh = 0x1.921fb54442d18p+0;
constexpr double kHalfPiLow = 0x1.1a62633145c07p-54;
// Without FMA: the high part in two of at most 25 bits, so that their products with n are exact.
constexpr double kHalfPiTop = 0x1.921fb5p+0;
constexpr double kHalfPiMiddle = 0x1.110b46p-26;
constexpr double kLargeArgument = 0x1p28;

// 2/π after the binary point, in words of 32 bits, behind one word of zeros for small exponents.
constexpr uint32_t kTwoOverPiWords[] = {0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
                                        0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};

// double kiln.reduce_large(float x, ptr quadrant): r in [-π/4, π/4] with x = r + n·π/2 (mod 2π), n to *quadrant.
// NaN for infinities and NaN.
llvm::Function* reduce_large(llvm::Module& module) {
  constexpr char kName[] = "kiln.reduce_large";
  if (auto* existing = module.getFunction(kName)) return existing;
  auto& context = module.getContext();
  llvm::IRBuilder<> b(context);
  auto* fn = llvm::Function::Create(llvm::FunctionType::get(b.getDoubleTy(), {b.getFloatTy(), b.getPtrTy()}, false),
                                    llvm::Function::InternalLinkage, kName, module);
  fn->addFnAttr(llvm::Attribute::NoInline);
  fn->addFnAttr(llvm::Attribute::NoUnwind);
  b.SetInsertPoint(BasicBlock::Create(context, "entry", fn));
  auto* table = new llvm::GlobalVariable(
      module, llvm::ArrayType::get(b.getInt32Ty(), std::size(kTwoOverPiWords)), true, llvm::GlobalValue::PrivateLinkage,
      llvm::ConstantDataArray::get(context, llvm::ArrayRef<uint32_t>(kTwoOverPiWords)));
  llvm::Type* i128 = b.getInt128Ty();
  Value* x = fn->getArg(0);
  Value* bits = b.CreateBitCast(x, b.getInt32Ty());
  Value* exponent = b.CreateAnd(b.CreateLShr(bits, 23), 255);  // biased
  Value* mantissa = b.CreateOr(b.CreateAnd(bits, 0x7fffff), 0x800000);
  // x = mantissa · 2^(exponent - 150). Bits of 2/π worth 4 or more after that scaling change only whole turns.
  Value* power = b.CreateSub(exponent, b.getInt32(150));  // ≥ 5 here
  Value* skipped =
      b.CreateSub(b.CreateAdd(power, b.getInt32(32)), b.getInt32(2));  // bits of the table before the window
  Value* word = b.CreateLShr(skipped, 5);
  Value* shift = b.CreateAnd(skipped, 31);
  Value* window = llvm::ConstantInt::get(i128, 0);
  for (int i = 0; i < 4; ++i) {
    Value* index = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b.CreateAdd(word, b.getInt32(i)),
                                           b.getInt32(std::size(kTwoOverPiWords) - 1));
    Value* loaded = b.CreateLoad(b.getInt32Ty(), b.CreateInBoundsGEP(b.getInt32Ty(), table, {index}));
    window = b.CreateOr(b.CreateShl(window, 32), b.CreateZExt(loaded, i128));
  }
  // 104 bits: two before the binary point (value 2^1 and 2^0 of x·2/π) and the rest of the fraction.
  window = b.CreateLShr(b.CreateShl(window, b.CreateZExt(shift, i128)), 24);
  // The product modulo 2^104 is x·2/π modulo 4 in units of 2^-102.
  Value* product = b.CreateMul(window, b.CreateZExt(mantissa, i128));
  product = b.CreateShl(product, 24);  // now modulo 2^128, quadrant in the top two bits
  Value* rounded = b.CreateAdd(product, b.CreateShl(llvm::ConstantInt::get(i128, 1), 125));
  Value* quadrant = b.CreateTrunc(b.CreateLShr(rounded, 126), b.getInt32Ty());
  Value* fraction = b.CreateSub(product, b.CreateShl(b.CreateLShr(rounded, 126), 126));  // signed, in units of 2^-126
  Value* r = b.CreateFMul(b.CreateSIToFP(b.CreateTrunc(b.CreateAShr(fraction, 64), b.getInt64Ty()), b.getDoubleTy()),
                          llvm::ConstantFP::get(b.getDoubleTy(), kHalfPiHigh * 0x1p-62));
  Value* negative = b.CreateICmpSLT(bits, b.getInt32(0));
  r = b.CreateSelect(negative, b.CreateFNeg(r), r);
  quadrant = b.CreateSelect(negative, b.CreateNeg(quadrant), quadrant);
  b.CreateStore(quadrant, fn->getArg(1));
  b.CreateRet(b.CreateSelect(b.CreateICmpEQ(exponent, b.getInt32(255)), llvm::ConstantFP::getNaN(b.getDoubleTy()), r));
  return fn;
}

struct Reduced {
  Value* r;         // f32, |r| ≤ π/4 and a little
  Value* quadrant;  // i32
};

Reduced reduce_small(MathBuilder& m, Value* x) {
  auto& b = m.b;
  llvm::Type* wide = m.type()->getWithNewType(b.getDoubleTy());
  auto constant = [&](double value) { return llvm::ConstantFP::get(wide, value); };
  Value* xd = b.CreateFPExt(x, wide);
  Value* n = b.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, b.CreateFMul(xd, constant(kTwoOverPi)));
  auto step = [&](Value* from, double part) -> Value* {
    if (!m.options().has_fma) return b.CreateFSub(from, b.CreateFMul(n, constant(part)));
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {wide}, {n, constant(-part), from});
  };
  Value* r = m.options().has_fma ? step(xd, kHalfPiHigh) : step(step(xd, kHalfPiTop), kHalfPiMiddle);
  r = step(r, kHalfPiLow);
  // Large arguments convert to poison; the rare path replaces them.
  return {b.CreateFPTrunc(r, m.type()), b.CreateFreeze(b.CreateFPToSI(n, m.int_type()))};
}

// The rare path, lane by lane through memory.
llvm::Function* reduce_lanes(llvm::Module& module, llvm::Type* type) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  const unsigned lanes = vector ? vector->getNumElements() : 1;
  const std::string name = "kiln.reduce_lanes." + std::to_string(lanes);
  if (auto* existing = module.getFunction(name)) return existing;
  auto& context = module.getContext();
  llvm::IRBuilder<> b(context);
  // x, r (f32) and quadrant (i32) arrays of `lanes`; large lanes of r and quadrant are overwritten.
  auto* fn =
      llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy(), b.getPtrTy()}, false),
                             llvm::Function::InternalLinkage, name, module);
  fn->addFnAttr(llvm::Attribute::NoInline);
  fn->addFnAttr(llvm::Attribute::NoUnwind);
  auto* entry = BasicBlock::Create(context, "entry", fn);
  auto* loop = BasicBlock::Create(context, "lane", fn);
  auto* large = BasicBlock::Create(context, "large", fn);
  auto* next = BasicBlock::Create(context, "next", fn);
  auto* done = BasicBlock::Create(context, "done", fn);
  b.SetInsertPoint(entry);
  Value* quadrant = b.CreateAlloca(b.getInt32Ty());
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  auto* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(b.getInt64(0), entry);
  Value* x = b.CreateLoad(b.getFloatTy(), b.CreateInBoundsGEP(b.getFloatTy(), fn->getArg(0), {i}));
  Value* magnitude = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  b.CreateCondBr(b.CreateFCmpUGE(magnitude, llvm::ConstantFP::get(b.getFloatTy(), kLargeArgument)), large, next);
  b.SetInsertPoint(large);
  Value* r = b.CreateCall(reduce_large(module), {x, quadrant});
  b.CreateStore(b.CreateFPTrunc(r, b.getFloatTy()), b.CreateInBoundsGEP(b.getFloatTy(), fn->getArg(1), {i}));
  b.CreateStore(b.CreateLoad(b.getInt32Ty(), quadrant), b.CreateInBoundsGEP(b.getInt32Ty(), fn->getArg(2), {i}));
  b.CreateBr(next);
  b.SetInsertPoint(next);
  Value* following = b.CreateAdd(i, b.getInt64(1));
  i->addIncoming(following, next);
  b.CreateCondBr(b.CreateICmpULT(following, b.getInt64(lanes)), loop, done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();
  return fn;
}

Value* polynomials(MathBuilder& m, const Reduced& reduced, bool cosine) {
  auto& b = m.b;
  Value* z = m.mul(reduced.r, reduced.r);
  Value* s = m.polynomial(z, {-0x1.555556p-3, 0x1.11110ep-7, -0x1.a013a8p-13, 0x1.6dbe08p-19});
  Value* sine = m.fma(m.mul(z, reduced.r), s, reduced.r);
  Value* c = m.polynomial(z, {0x1.555554p-5, -0x1.6c12d2p-10, 0x1.9bd89cp-16});
  Value* cosine_value = m.fma(m.mul(z, z), c, m.fma(z, m.constant(-0.5), m.constant(1.0)));
  Value* quadrant = cosine ? b.CreateAdd(reduced.quadrant, m.int_constant(1)) : reduced.quadrant;
  Value* odd = b.CreateICmpNE(b.CreateAnd(quadrant, m.int_constant(1)), m.int_constant(0));
  Value* sign = b.CreateShl(b.CreateAnd(quadrant, m.int_constant(2)), m.int_constant(30));
  return m.from_bits(b.CreateXor(m.bits(m.select(odd, cosine_value, sine)), sign));
}

// One function a vector type, inlined by the pipeline: it has a branch, which the caller's block must not care about.
llvm::Function* sin_cos_function(MathBuilder& outer, bool cosine) {
  llvm::Module& module = *outer.b.GetInsertBlock()->getModule();
  llvm::Type* type = outer.type();
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  const std::string name =
      std::string(cosine ? "kiln.cos." : "kiln.sin.") + std::to_string(vector ? vector->getNumElements() : 1);
  if (auto* existing = module.getFunction(name)) return existing;
  auto& context = module.getContext();
  llvm::IRBuilder<> b(context);
  auto* fn = llvm::Function::Create(llvm::FunctionType::get(type, {type}, false), llvm::Function::InternalLinkage, name,
                                    module);
  fn->addFnAttr(llvm::Attribute::AlwaysInline);
  auto* entry = BasicBlock::Create(context, "entry", fn);
  auto* rare = BasicBlock::Create(context, "rare", fn);
  auto* join = BasicBlock::Create(context, "join", fn);
  b.SetInsertPoint(entry);
  MathBuilder m(b, type, outer.options());
  Value* x = fn->getArg(0);
  Value *x_slot = b.CreateAlloca(type), *r_slot = b.CreateAlloca(type), *q_slot = b.CreateAlloca(m.int_type());
  Reduced reduced = reduce_small(m, x);
  Value* large = b.CreateFCmpUGE(m.abs(x), m.constant(kLargeArgument));
  Value* any = vector ? b.CreateOrReduce(large) : large;
  b.CreateCondBr(any, rare, join);
  b.SetInsertPoint(rare);
  b.CreateStore(x, x_slot);
  b.CreateStore(reduced.r, r_slot);
  b.CreateStore(reduced.quadrant, q_slot);
  b.CreateCall(reduce_lanes(module, type), {x_slot, r_slot, q_slot});
  Value *rare_r = b.CreateLoad(type, r_slot), *rare_q = b.CreateLoad(m.int_type(), q_slot);
  b.CreateBr(join);
  b.SetInsertPoint(join);
  auto *r = b.CreatePHI(type, 2), *quadrant = b.CreatePHI(m.int_type(), 2);
  r->addIncoming(reduced.r, entry);
  r->addIncoming(rare_r, rare);
  quadrant->addIncoming(reduced.quadrant, entry);
  quadrant->addIncoming(rare_q, rare);
  Value* result = polynomials(m, {r, quadrant}, cosine);
  // The reduction loses the sign of -0.
  b.CreateRet(cosine ? result : m.select(b.CreateFCmpOEQ(x, m.constant(0)), x, result));
  return fn;
}

}  // namespace

Value* emit_sin_cos(MathBuilder& m, Value* x, bool cosine) { return m.b.CreateCall(sin_cos_function(m, cosine), {x}); }

}  // namespace kiln::codegen
