// Argument reduction of sin, cos and tan for large arguments: Payne and Hanek's method, scalar and rare.
//
// With x = m·2^e, x·2/π modulo 4 needs only the 192 bits of 2/π whose products with m are neither multiples of 4 nor
// too small to matter: doubles come as near as 2^-62 to a multiple of π/2, and 126 bits of the fraction are kept.
#include <llvm/IR/Function.h>
#include <llvm/IR/Module.h>

#include "math/math_builder.h"

namespace kiln::codegen {
namespace {

using llvm::BasicBlock;
using llvm::Value;

// 2/π after the binary point, in words of 64 bits, behind one word of zeros for small exponents.
constexpr uint64_t kTwoOverPiWords[] = {
    0x0000000000000000u, 0xa2f9836e4e441529u, 0xfc2757d1f534ddc0u, 0xdb6295993c439041u, 0xfe5163abdebbc561u,
    0xb7246e3a424dd2e0u, 0x06492eea09d1921cu, 0xfe1deb1cb129a73eu, 0xe88235f52ebb4484u, 0xe99c7026b45f7e41u,
    0x3991d639835339f4u, 0x9c845f8bbdf9283bu, 0x1ff897ffde05980fu, 0xef2f118b5a0a6d1fu, 0x6d367ecf27cb09b7u,
    0x4f463f669e5fea2du, 0x7527bac7ebe5f17bu, 0x3d0739f78a5292eau, 0x6bfb5fb11f8d5d08u, 0x56033046fc7b6babu,
    0xf0cfbc209af4361du};

constexpr double kHalfPi = 0x1.921fb54442d18p+0;

// The words of 2/π that begin `skipped` bits into the table: 192 bits from the top down.
std::array<Value*, 3> window(llvm::IRBuilder<>& b, llvm::Module& module, Value* skipped) {
  auto* type = llvm::ArrayType::get(b.getInt64Ty(), std::size(kTwoOverPiWords));
  auto* table =
      new llvm::GlobalVariable(module, type, true, llvm::GlobalValue::PrivateLinkage,
                               llvm::ConstantDataArray::get(b.getContext(), llvm::ArrayRef<uint64_t>(kTwoOverPiWords)));
  Value *word = b.CreateLShr(skipped, 6), *shift = b.CreateAnd(skipped, 63);
  Value* loaded[4];
  for (unsigned i = 0; i < 4; ++i) {
    // Infinities and NaN reach past the table; their result is not used.
    Value* index = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b.CreateAdd(word, b.getInt64(i)),
                                           b.getInt64(std::size(kTwoOverPiWords) - 1));
    loaded[i] = b.CreateLoad(b.getInt64Ty(), b.CreateInBoundsGEP(b.getInt64Ty(), table, {index}));
  }
  std::array<Value*, 3> out;
  for (unsigned i = 0; i < 3; ++i) {
    out[i] = b.CreateIntrinsic(llvm::Intrinsic::fshl, {b.getInt64Ty()}, {loaded[i], loaded[i + 1], shift});
  }
  return out;
}

}  // namespace

llvm::Function* reduce_large(llvm::Module& module) {
  constexpr char kName[] = "kiln.reduce_large";
  if (auto* existing = module.getFunction(kName)) return existing;
  auto& context = module.getContext();
  llvm::IRBuilder<> b(context);
  auto* pair = llvm::StructType::get(b.getDoubleTy(), b.getInt64Ty());
  auto* fn = llvm::Function::Create(llvm::FunctionType::get(pair, {b.getDoubleTy()}, false),
                                    llvm::Function::InternalLinkage, kName, module);
  fn->addFnAttr(llvm::Attribute::NoInline);
  fn->addFnAttr(llvm::Attribute::NoUnwind);
  b.SetInsertPoint(BasicBlock::Create(context, "entry", fn));
  llvm::Type *i64 = b.getInt64Ty(), *i128 = b.getInt128Ty();
  auto wide = [&](Value* x) { return b.CreateZExt(x, i128); };
  Value* x = fn->getArg(0);
  Value* bits = b.CreateBitCast(x, i64);
  Value* exponent = b.CreateAnd(b.CreateLShr(bits, 52), 0x7ff);  // biased; x = mantissa · 2^(exponent - 1075)
  Value* mantissa = b.CreateOr(b.CreateAnd(bits, 0xfffffffffffffu), 0x10000000000000u);
  const auto w = window(b, module, b.CreateSub(exponent, b.getInt64(1077 - 64)));
  // The product modulo 2^192 is x·2/π modulo 4 in units of 2^-190; its last 64 bits are dropped.
  Value* low = b.CreateMul(wide(w[2]), wide(mantissa));
  Value* middle = b.CreateAdd(b.CreateMul(wide(w[1]), wide(mantissa)), b.CreateLShr(low, 64));
  Value* high = b.CreateAdd(b.CreateMul(w[0], mantissa), b.CreateTrunc(b.CreateLShr(middle, 64), i64));
  Value* product = b.CreateOr(b.CreateShl(wide(high), 64), wide(b.CreateTrunc(middle, i64)));
  Value* turns = b.CreateLShr(b.CreateAdd(product, b.CreateShl(llvm::ConstantInt::get(i128, 1), 125)), 126);
  Value* fraction = b.CreateSub(product, b.CreateShl(turns, 126));  // signed, in units of 2^-126
  // To a double by way of its leading 63 bits.
  Value* negative = b.CreateICmpSLT(fraction, llvm::ConstantInt::get(i128, 0));
  Value* magnitude = b.CreateSelect(negative, b.CreateNeg(fraction), fraction);
  Value* zeros = b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, magnitude, b.getTrue());
  Value* leading = b.CreateTrunc(b.CreateLShr(b.CreateShl(magnitude, zeros), 65), i64);
  Value* scale = b.CreateBitCast(
      b.CreateShl(b.CreateSub(b.getInt64(1023 + 128 - 126 - 63), b.CreateTrunc(zeros, i64)), 52), b.getDoubleTy());
  Value* r = b.CreateFMul(b.CreateFMul(b.CreateSIToFP(leading, b.getDoubleTy()), scale),
                          llvm::ConstantFP::get(b.getDoubleTy(), kHalfPi));
  Value* sign = b.CreateICmpSLT(bits, b.getInt64(0));
  r = b.CreateSelect(b.CreateXor(negative, sign), b.CreateFNeg(r), r);
  Value* quadrant = b.CreateTrunc(turns, i64);
  Value* finite = b.CreateICmpNE(exponent, b.getInt64(0x7ff));
  Value* parts[] = {b.CreateSelect(finite, r, llvm::ConstantFP::getNaN(b.getDoubleTy())),
                    b.CreateSelect(sign, b.CreateNeg(quadrant), quadrant)};
  b.CreateAggregateRet(parts, 2);
  return fn;
}

llvm::Function* reduce_lanes(llvm::Module& module, const MathBuilder& m, double large_argument) {
  const std::string name = "kiln.reduce_lanes." + m.type_name();
  if (auto* existing = module.getFunction(name)) return existing;
  auto& context = module.getContext();
  llvm::IRBuilder<> b(context);
  llvm::Type *element = m.type()->getScalarType(), *int_element = m.int_type()->getScalarType();
  llvm::Type* pointer = b.getPtrTy();
  auto* fn = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, pointer}, false),
                                    llvm::Function::InternalLinkage, name, module);
  fn->addFnAttr(llvm::Attribute::NoInline);
  fn->addFnAttr(llvm::Attribute::NoUnwind);
  auto* entry = BasicBlock::Create(context, "entry", fn);
  auto* loop = BasicBlock::Create(context, "lane", fn);
  auto* large = BasicBlock::Create(context, "large", fn);
  auto* next = BasicBlock::Create(context, "next", fn);
  auto* done = BasicBlock::Create(context, "done", fn);
  b.SetInsertPoint(entry);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  auto* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(b.getInt64(0), entry);
  auto at = [&](unsigned argument, llvm::Type* type) { return b.CreateInBoundsGEP(type, fn->getArg(argument), {i}); };
  Value* x = b.CreateLoad(element, at(0, element));
  Value* magnitude = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  b.CreateCondBr(b.CreateFCmpUGE(magnitude, llvm::ConstantFP::get(element, large_argument)), large, next);
  b.SetInsertPoint(large);
  Value* reduced = b.CreateCall(reduce_large(module), {b.CreateFPExt(x, b.getDoubleTy())});
  b.CreateStore(b.CreateFPTrunc(b.CreateExtractValue(reduced, 0), element), at(1, element));
  b.CreateStore(b.CreateTrunc(b.CreateExtractValue(reduced, 1), int_element), at(2, int_element));
  b.CreateBr(next);
  b.SetInsertPoint(next);
  Value* following = b.CreateAdd(i, b.getInt64(1));
  i->addIncoming(following, next);
  b.CreateCondBr(b.CreateICmpULT(following, b.getInt64(m.lanes())), loop, done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();
  return fn;
}

}  // namespace kiln::codegen
