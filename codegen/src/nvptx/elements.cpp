// Errors of the estimates: PTX ISA, "Floating Point Instructions"; that of ex2.approx on |x| ≤ 1/2 follows from the
// 1 ulp of CUDA's expf, which is made with it (CUDA C++ Programming Guide, "Mathematical Functions"). Conversions: PTX
// ISA, "cvt".
#include "nvptx/elements.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "elementwise/conversions.h"
#include "elementwise/small_floats.h"

namespace kiln::codegen::nvptx {
namespace {

using llvm::Value;

constexpr const char* kToE4M3 = "cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;";
constexpr const char* kToE5M2 = "cvt.rn.satfinite.e5m2x2.f32 $0, $1, $2;";

// cvt takes f8 in pairs, of which one is wanted.
Value* f32_to_f8(Builder& ir, ElementType to, Value* x, bool saturate) {
  // What overflows becomes the largest number: the instruction has no other mode.
  if (!saturate) return nullptr;
  const char* text = to == ElementType::kF8E4M3 ? kToE4M3 : kToE5M2;
  llvm::Type* real = ir.getFloatTy();
  auto* type = llvm::FunctionType::get(ir.getInt16Ty(), {real, real}, false);
  auto* pair = ir.CreateCall(llvm::InlineAsm::get(type, text, "=h,f,f", false), {llvm::ConstantFP::get(real, 0.0), x});
  pair->setDoesNotAccessMemory();
  return ir.CreateTrunc(pair, ir.getInt8Ty());
}

Value* f8_to_f32(Builder& ir, ElementType from, Value* x) {
  const char* text = from == ElementType::kF8E4M3 ? "cvt.rn.f16x2.e4m3x2 $0, $1;" : "cvt.rn.f16x2.e5m2x2 $0, $1;";
  auto* type = llvm::FunctionType::get(ir.getInt32Ty(), {ir.getInt16Ty()}, false);
  Value* pair = ir.CreateCall(llvm::InlineAsm::get(type, text, "=r,h", false), {ir.CreateZExt(x, ir.getInt16Ty())});
  Value* half = ir.CreateBitCast(ir.CreateTrunc(pair, ir.getInt16Ty()), ir.getHalfTy());
  return ir.CreateFPExt(half, ir.getFloatTy());
}

Value* from_f32(Builder& ir, ElementType to, Value* x, bool) {
  if (to != ElementType::kBF16) return nullptr;
  return ir.CreateBitCast(ir.CreateIntrinsic(llvm::Intrinsic::nvvm_f2bf16_rn, {x}), ir.getInt16Ty());
}

Value* from_f32_with_f8(Builder& ir, ElementType to, Value* x, bool saturate) {
  return dsl::info(to).bits == 8 ? f32_to_f8(ir, to, x, saturate) : from_f32(ir, to, x, saturate);
}

// One instruction brings either half of a word to where an f32 has it; left alone, the backend takes the half out
// first.
Value* bf16_to_f32(Builder& ir, Value* x) {
  auto* half = llvm::dyn_cast<llvm::ExtractElementInst>(x);
  auto* index = half ? llvm::dyn_cast<llvm::ConstantInt>(half->getIndexOperand()) : nullptr;
  const unsigned count = half ? llvm::cast<llvm::FixedVectorType>(half->getVectorOperandType())->getNumElements() : 0;
  if (!index || count % 2 != 0) return nullptr;
  const uint64_t at = index->getZExtValue();
  Value* words = ir.CreateBitCast(half->getVectorOperand(), llvm::FixedVectorType::get(ir.getInt32Ty(), count / 2));
  Value* word = ir.CreateExtractElement(words, at / 2);
  Value* bits = at % 2 == 0 ? ir.CreateShl(word, 16) : ir.CreateAnd(word, ir.getInt32(0xffff0000));
  return ir.CreateBitCast(bits, ir.getFloatTy());
}

Value* to_f32(Builder& ir, ElementType from, Value* x) {
  return from == ElementType::kBF16 ? bf16_to_f32(ir, x) : nullptr;
}

Value* to_f32_with_f8(Builder& ir, ElementType from, Value* x) {
  return dsl::info(from).bits == 8 ? f8_to_f32(ir, from, x) : to_f32(ir, from, x);
}

}  // namespace

Value* emit_estimate(Builder& ir, Estimate function, Value* x) {
  const auto id = [&] {
    switch (function) {
      case Estimate::kReciprocal:
        return llvm::Intrinsic::nvvm_rcp_approx_ftz_f;
      case Estimate::kRsqrt:
        return llvm::Intrinsic::nvvm_rsqrt_approx_f;
      case Estimate::kSqrt:
        return llvm::Intrinsic::nvvm_sqrt_approx_f;
      case Estimate::kExp2:
        return llvm::Intrinsic::nvvm_ex2_approx_ftz;
      case Estimate::kLog2:
        return llvm::Intrinsic::nvvm_lg2_approx_f;
      case Estimate::kSin:
        return llvm::Intrinsic::nvvm_sin_approx_ftz_f;
      case Estimate::kCos:
        return llvm::Intrinsic::nvvm_cos_approx_ftz_f;
    }
    llvm_unreachable("an estimate without an instruction");
  }();
  // Of all of these exp2 alone is for several types.
  if (function == Estimate::kExp2) return ir.CreateIntrinsic(id, {x->getType()}, {x});
  return ir.CreateIntrinsic(id, {x});
}

// ptxas 13.0 makes one instruction of mul.hi.u32, widened to 64 bits, minus a widened number: where that number is 0
// the upper word of the result is wrong. It leaves alone what is taken from the whole product.
Value* emit_multiply_high(Builder& ir, bool is_signed, Value* x, Value* y) {
  const unsigned bits = x->getType()->getIntegerBitWidth();
  if (bits < 32) return nullptr;
  const std::string sign = is_signed ? "s" : "u";
  const std::string text = bits == 64 ? "mul.hi." + sign + "64 $0, $1, $2;"
                                      : "{ .reg .b64 product; .reg .b32 low; mul.wide." + sign +
                                            "32 product, $1, $2; mov.b64 {low, $0}, product; }";
  auto* type = llvm::FunctionType::get(x->getType(), {x->getType(), x->getType()}, false);
  auto* call = ir.CreateCall(llvm::InlineAsm::get(type, text, bits == 64 ? "=l,l,l" : "=r,r,r", false), {x, y});
  call->setDoesNotAccessMemory();  // equal ones become one
  return call;
}

// PTX takes the distance as 32 bits, and shifts out everything where it is too far. LLVM 22 knows the latter and
// forgets the former: it drops the comparison that guards a shift of 64 bits, and with it the upper half of the
// distance.
Value* emit_shift(Builder& ir, bool to_left, Value* x, Value* y) {
  if (!x->getType()->isIntegerTy(64) || llvm::isa<llvm::Constant>(y)) return nullptr;
  Value* distance = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, y, ir.getInt64(64));
  auto* type = llvm::FunctionType::get(x->getType(), {x->getType(), ir.getInt32Ty()}, false);
  const char* text = to_left ? "shl.b64 $0, $1, $2;" : "shr.u64 $0, $1, $2;";
  auto* call =
      ir.CreateCall(llvm::InlineAsm::get(type, text, "=l,l,r", false), {x, ir.CreateTrunc(distance, ir.getInt32Ty())});
  call->setDoesNotAccessMemory();  // equal ones become one
  return call;
}

bool is_f8_conversion(llvm::StringRef text) { return text == kToE4M3 || text == kToE5M2; }

SmallFloatInstructions small_float_instructions(bool has_f8) {
  if (!has_f8) return {from_f32, to_f32};
  return {from_f32_with_f8, to_f32_with_f8};
}

}  // namespace kiln::codegen::nvptx
