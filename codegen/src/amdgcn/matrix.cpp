// MFMA and WMMA: one wave's product of small matrices. Which lane holds what is in gpu/layout/fragments.h (AMD's matrix
// instruction calculator, and its ISA guides for CDNA 2, CDNA 3, RDNA 3 and RDNA 4).
//
// MFMA and the WMMA of gfx12 and gfx1250 get the operands the other way round, B·A of the transposes, for a lane to
// hold neighbours of a row of the accumulators, which it stores at once.
//
// A product is one instruction or several along k, so that a lane has 16 neighbours' bytes of A to read at once: which
// elements meet is the same in A and B, in what order does not matter.
#include <llvm/IR/IntrinsicsAMDGPU.h>

#include "amdgcn/cross_lane.h"
#include "amdgcn/target_info.h"
#include "gpu/layout/algebra.h"
#include "gpu/layout/fragments.h"

namespace kiln::codegen::amdgcn {
namespace {

using dsl::ElementType;
using llvm::Value;
using Builder = llvm::IRBuilder<>;
using Operand = gpu::MatrixInstruction::Operand;

// How elements become an instruction's operand.
enum class Packing : uint8_t {
  kVector,   // side by side
  kWords,    // side by side, as words of 32 bits
  kInteger,  // side by side, as one integer
  kWidened,  // f16 as f32
  kBrain,    // bf16, which are ints everywhere else
  kFnuz,     // f8e4m3 as half its value, of the kind that gfx942 knows
};

// Arguments beside the matrices.
enum class Extra : uint8_t {
  kNone,
  kBroadcasts,
  kSigns,
  // Of gfx1250: what negates matrices, signs, and whether an operand is that of the last instruction.
  kNegations,
  kNegatedSum,
  kSignsReused,
};

struct Form {
  llvm::Intrinsic::ID id;
  gpu::Layout a, b, accumulators;
  size_t instructions = 1;  // of a product
  Packing packing = Packing::kVector;
  Extra extra = Extra::kBroadcasts;
  bool is_overloaded = false;  // by the types of sums and operands
  bool a_signed = true, b_signed = true;
  bool is_transposed = false;
};

// MFMA of 16 rows and columns, with k of the whole product.
Form mfma(llvm::Intrinsic::ID id, int k, size_t instructions, Packing packing) {
  Form out{id, gpu::mfma_a(16, k), gpu::mfma_b(16, k), gpu::transpose(gpu::mfma_accumulator(16), {1, 0})};
  out.is_transposed = true;
  out.instructions = instructions;
  out.packing = packing;
  return out;
}

bool is_i8(ElementType element) { return element == ElementType::kI8 || element == ElementType::kU8; }
bool is_f8(ElementType element) { return dsl::is_float(element) && dsl::info(element).bits == 8; }

// What gfx950 has beside what gfx942 has: twice the k of f16, bf16 and i8, and f8 as OCP has them, of two kinds.
std::optional<Form> mfma_form_of_950(ElementType a, ElementType b) {
  using namespace llvm;
  if (is_f8(a) && is_f8(b)) {
    static constexpr Intrinsic::ID kIds[2][2] = {
        {Intrinsic::amdgcn_mfma_f32_16x16x32_fp8_fp8, Intrinsic::amdgcn_mfma_f32_16x16x32_fp8_bf8},
        {Intrinsic::amdgcn_mfma_f32_16x16x32_bf8_fp8, Intrinsic::amdgcn_mfma_f32_16x16x32_bf8_bf8}};
    // One instruction: 32 elements may share a scale.
    return mfma(kIds[b == ElementType::kF8E5M2][a == ElementType::kF8E5M2], 32, 1, Packing::kInteger);  // transposed
  }
  if (a != b) return std::nullopt;
  if (a == ElementType::kF16) return mfma(Intrinsic::amdgcn_mfma_f32_16x16x32_f16, 32, 1, Packing::kVector);
  if (a == ElementType::kBF16) return mfma(Intrinsic::amdgcn_mfma_f32_16x16x32_bf16, 32, 1, Packing::kBrain);
  if (a == ElementType::kI8) return mfma(Intrinsic::amdgcn_mfma_i32_16x16x64_i8, 64, 1, Packing::kWords);
  return std::nullopt;
}

std::optional<Form> mfma_form(ElementType a, ElementType b, dsl::Precision precision, Matrix unit) {
  using namespace llvm;
  const bool is_942 = unit != Matrix::kMfma90a, is_950 = unit == Matrix::kMfma950;
  if (is_950) {
    if (auto out = mfma_form_of_950(a, b)) return out;
  }
  if (a != b) return std::nullopt;
  switch (a) {
    case ElementType::kF64: {
      Form out = mfma(Intrinsic::amdgcn_mfma_f64_16x16x4f64, 8, 2, Packing::kVector);
      out.accumulators = gpu::transpose(gpu::mfma_f64_accumulator(), {1, 0});
      return out;
    }
    case ElementType::kF32:
      if (is_942 && !is_950 && precision == dsl::Precision::kTf32) {
        return mfma(Intrinsic::amdgcn_mfma_f32_16x16x8_xf32, 16, 2, Packing::kVector);
      }
      return mfma(Intrinsic::amdgcn_mfma_f32_16x16x4f32, 16, 4, Packing::kVector);
    case ElementType::kF16:
      // Those of gfx90a take subnormals of f16 for zero.
      if (!is_942) return mfma(Intrinsic::amdgcn_mfma_f32_16x16x4f32, 16, 4, Packing::kWidened);
      return mfma(Intrinsic::amdgcn_mfma_f32_16x16x16f16, 32, 2, Packing::kVector);
    case ElementType::kBF16:
      return mfma(Intrinsic::amdgcn_mfma_f32_16x16x16bf16_1k, 32, 2, Packing::kVector);
    case ElementType::kI8:
      if (is_942) return mfma(Intrinsic::amdgcn_mfma_i32_16x16x32_i8, 64, 2, Packing::kInteger);
      return mfma(Intrinsic::amdgcn_mfma_i32_16x16x16i8, 64, 4, Packing::kInteger);
    case ElementType::kF8E4M3:
      // That of f8e5m2 has no infinities, which f16 holds. One instruction: 32 elements may share a scale.
      if (!is_942) return std::nullopt;
      return mfma(Intrinsic::amdgcn_mfma_f32_16x16x32_fp8_fp8, 32, 1, Packing::kFnuz);
    default:
      return std::nullopt;
  }
}

std::optional<Form> wmma_form(ElementType a, ElementType b, bool is_gfx12) {
  using namespace llvm;
  const int bits = dsl::info(a).bits;
  Form out{};
  if (is_gfx12) {
    out = {Intrinsic::not_intrinsic, gpu::wmma_gfx12_a(bits), gpu::wmma_gfx12_b(bits),
           gpu::transpose(gpu::wmma_gfx12_accumulator(), {1, 0})};
    out.is_transposed = true;
  } else {
    out = {Intrinsic::not_intrinsic, gpu::wmma_gfx11_a(32), gpu::wmma_gfx11_b(32), gpu::wmma_gfx11_accumulator(32)};
  }
  out.is_overloaded = true;
  out.extra = Extra::kNone;
  if (is_i8(a) && is_i8(b)) {
    out.id = Intrinsic::amdgcn_wmma_i32_16x16x16_iu8;
    out.packing = Packing::kWords;
    out.extra = Extra::kSigns;
    out.a_signed = dsl::info(a).is_signed, out.b_signed = dsl::info(b).is_signed;
    if (is_gfx12) std::swap(out.a_signed, out.b_signed);
  } else if (a == ElementType::kF16 && b == a) {
    out.id = Intrinsic::amdgcn_wmma_f32_16x16x16_f16;
  } else if (a == ElementType::kBF16 && b == a) {
    out.id = Intrinsic::amdgcn_wmma_f32_16x16x16_bf16;
  } else if (is_gfx12 && is_f8(a) && is_f8(b)) {
    static constexpr Intrinsic::ID kIds[2][2] = {
        {Intrinsic::amdgcn_wmma_f32_16x16x16_fp8_fp8, Intrinsic::amdgcn_wmma_f32_16x16x16_fp8_bf8},
        {Intrinsic::amdgcn_wmma_f32_16x16x16_bf8_fp8, Intrinsic::amdgcn_wmma_f32_16x16x16_bf8_bf8}};
    out.id = kIds[b == ElementType::kF8E5M2][a == ElementType::kF8E5M2];  // transposed
    out.packing = Packing::kWords;
  } else {
    return std::nullopt;
  }
  return out;
}

// WMMA of 16 rows and columns of gfx1250, with k of the whole product.
Form wmma_1250(llvm::Intrinsic::ID id, int bits, int k, size_t instructions, Packing packing, Extra extra) {
  Form out{id, gpu::wmma_gfx1250_a(bits, k), gpu::wmma_gfx1250_b(bits, k),
           gpu::transpose(gpu::wmma_gfx12_accumulator(), {1, 0})};
  out.is_transposed = true;
  out.is_overloaded = true;
  out.instructions = instructions;
  out.packing = packing;
  out.extra = extra;
  return out;
}

std::optional<Form> wmma_form_of_1250(ElementType a, ElementType b) {
  using namespace llvm;
  if (is_f8(a) && is_f8(b)) {
    static constexpr Intrinsic::ID kIds[2][2] = {
        {Intrinsic::amdgcn_wmma_f32_16x16x64_fp8_fp8, Intrinsic::amdgcn_wmma_f32_16x16x64_fp8_bf8},
        {Intrinsic::amdgcn_wmma_f32_16x16x64_bf8_fp8, Intrinsic::amdgcn_wmma_f32_16x16x64_bf8_bf8}};
    const Intrinsic::ID id = kIds[b == ElementType::kF8E5M2][a == ElementType::kF8E5M2];  // transposed
    return wmma_1250(id, 8, 64, 1, Packing::kWords, Extra::kNegatedSum);
  }
  if (is_i8(a) && is_i8(b)) {
    Form out = wmma_1250(Intrinsic::amdgcn_wmma_i32_16x16x64_iu8, 8, 64, 1, Packing::kWords, Extra::kSignsReused);
    out.a_signed = dsl::info(b).is_signed, out.b_signed = dsl::info(a).is_signed;  // transposed
    return out;
  }
  if (a != b) return std::nullopt;
  switch (a) {
    case ElementType::kF32:
      return wmma_1250(Intrinsic::amdgcn_wmma_f32_16x16x4_f32, 32, 8, 2, Packing::kVector, Extra::kNegations);
    case ElementType::kF16:
      return wmma_1250(Intrinsic::amdgcn_wmma_f32_16x16x32_f16, 16, 32, 1, Packing::kVector, Extra::kNegations);
    case ElementType::kBF16:
      return wmma_1250(Intrinsic::amdgcn_wmma_f32_16x16x32_bf16, 16, 32, 1, Packing::kBrain, Extra::kNegations);
    default:
      return std::nullopt;
  }
}

std::optional<Form> form_of(Matrix unit, ElementType a, ElementType b, ElementType sum, dsl::Precision precision) {
  const ElementType wanted = !dsl::is_float(a)        ? ElementType::kI32
                             : a == ElementType::kF64 ? ElementType::kF64
                                                      : ElementType::kF32;
  if (sum != wanted) return std::nullopt;
  switch (unit) {
    case Matrix::kNone:
      return std::nullopt;
    case Matrix::kMfma90a:
    case Matrix::kMfma942:
    case Matrix::kMfma950:
      return mfma_form(a, b, precision, unit);
    case Matrix::kWmma11:
    case Matrix::kWmma12:
      return wmma_form(a, b, unit == Matrix::kWmma12);
    case Matrix::kWmma1250:
      return wmma_form_of_1250(a, b);
  }
  return std::nullopt;
}

Value* vector_of(Builder& ir, Operand elements) {
  if (elements.size() == 1) return elements[0];
  Value* out = llvm::PoisonValue::get(
      llvm::FixedVectorType::get(elements[0]->getType(), static_cast<unsigned>(elements.size())));
  for (size_t i = 0; i < elements.size(); ++i) out = ir.CreateInsertElement(out, elements[i], i);
  return out;
}

// Four numbers of f8e4m3 in each word as OCP has them, to the same bits read with a bias of 8: half of each. There 0x80
// is NaN, and 0x7f and 0xff are numbers.
Value* to_fnuz(Builder& ir, Value* words) {
  const auto all = [&](uint32_t x) { return llvm::ConstantInt::get(words->getType(), x); };
  Value *magnitude = ir.CreateAnd(words, all(0x7f7f7f7f)), *sign = ir.CreateAnd(words, all(0x80808080));
  Value* is_nan = ir.CreateAnd(ir.CreateAdd(magnitude, all(0x01010101)), all(0x80808080));
  Value* is_not_zero = ir.CreateAnd(ir.CreateAdd(magnitude, all(0x7f7f7f7f)), all(0x80808080));
  Value* of_nan = ir.CreateMul(ir.CreateLShr(is_nan, 7), all(0x7f));
  Value* low = ir.CreateAnd(magnitude, ir.CreateNot(of_nan));
  return ir.CreateOr(low, ir.CreateOr(is_nan, ir.CreateAnd(sign, is_not_zero)));
}

std::vector<Value*> elements_of(Builder& ir, Value* vector) {
  const unsigned count = llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements();
  std::vector<Value*> out;
  for (unsigned i = 0; i < count; ++i) out.push_back(ir.CreateExtractElement(vector, i));
  return out;
}

Value* packed(Builder& ir, Operand elements, Packing packing) {
  if (packing == Packing::kWidened) return ir.CreateFPExt(vector_of(ir, elements), ir.getFloatTy());
  Value* whole = vector_of(ir, elements);
  if (packing == Packing::kVector) return whole;
  if (packing == Packing::kBrain) {
    const auto count = static_cast<unsigned>(elements.size());
    return ir.CreateBitCast(whole, llvm::FixedVectorType::get(llvm::Type::getBFloatTy(ir.getContext()), count));
  }
  const auto bits = static_cast<unsigned>(whole->getType()->getPrimitiveSizeInBits().getFixedValue());
  if (packing == Packing::kInteger) return ir.CreateBitCast(whole, ir.getIntNTy(bits));
  Value* words = ir.CreateBitCast(whole, llvm::FixedVectorType::get(ir.getInt32Ty(), bits / 32));
  return packing == Packing::kFnuz ? ir.CreateBitCast(to_fnuz(ir, words), ir.getIntNTy(bits)) : words;
}

Value* call(Builder& ir, const Form& form, Value* x, Value* y, Value* accumulators) {
  llvm::SmallVector<Value*, 8> arguments = {x, y, accumulators};
  Value *no = ir.getFalse(), *plain = ir.getInt16(0);
  if (form.extra == Extra::kBroadcasts) arguments.append(3, ir.getInt32(0));
  if (form.extra == Extra::kNegations) arguments = {no, x, no, y, plain, accumulators, no, no};
  if (form.extra == Extra::kNegatedSum) arguments = {x, y, plain, accumulators, no, no};
  if (form.extra == Extra::kSigns || form.extra == Extra::kSignsReused) {
    arguments = {ir.getInt1(form.a_signed), x, ir.getInt1(form.b_signed), y, accumulators, no};
    if (form.extra == Extra::kSignsReused) arguments.append(2, no);
  }
  llvm::SmallVector<llvm::Type*, 2> types;
  if (form.is_overloaded) types = {accumulators->getType(), x->getType()};
  return ir.CreateIntrinsic(form.id, types, arguments);
}

std::vector<Value*> multiply(Builder& ir, const Form& form, Operand x, Operand y, Operand accumulators) {
  Value* sum = vector_of(ir, accumulators);
  // Halves of both operands: a quarter of the products, which are multiplied by 4 as they are added.
  const bool is_quarter = form.packing == Packing::kFnuz;
  Value* result = is_quarter ? llvm::Constant::getNullValue(sum->getType()) : sum;
  const size_t x_count = x.size() / form.instructions, y_count = y.size() / form.instructions;
  for (size_t i = 0; i < form.instructions; ++i) {
    Value* p = packed(ir, x.slice(i * x_count, x_count), form.packing);
    Value* q = packed(ir, y.slice(i * y_count, y_count), form.packing);
    if (form.is_transposed) std::swap(p, q);
    result = call(ir, form, p, q, result);
  }
  if (form.is_overloaded) result = pinned(ir, result);  // WMMA
  if (is_quarter) {
    Value* four = llvm::ConstantFP::get(sum->getType(), 4.0);
    result = ir.CreateIntrinsic(llvm::Intrinsic::fma, {sum->getType()}, {result, four, sum});
  }
  return elements_of(ir, result);
}

}  // namespace

std::optional<gpu::MatrixInstruction> AmdTargetInfo::matrix_instruction(ElementType a, ElementType b, ElementType sum,
                                                                        dsl::Precision precision) const {
  const std::optional<Form> form = form_of(processor_.matrix, a, b, sum, precision);
  if (!form) return std::nullopt;
  gpu::MatrixInstruction out{form->a, form->b, form->accumulators, {}};
  out.emit = [form = *form](Builder& builder, Operand x, Operand y, Operand accumulators) {
    return multiply(builder, form, x, y, accumulators);
  };
  return out;
}

namespace {

// A kind of numbers: e4m3, e5m2, e2m1.
Value* kind_of(Builder& ir, ElementType element) {
  return ir.getInt32(element == ElementType::kU8 ? 4 : element == ElementType::kF8E5M2 ? 1 : 0);
}

// Numbers of 8 bits in eight words of a lane, of 4 bits in four, and of the word with scales the lowest byte.
gpu::ScaledInstruction scaled_mfma(ElementType a, ElementType b) {
  const bool is_packed = a == ElementType::kU8;
  constexpr int kPackedBytes = 64;
  gpu::ScaledInstruction out{.a = is_packed ? gpu::mfma_a(16, kPackedBytes) : gpu::mfma_f8_a(),
                             .b = is_packed ? gpu::mfma_b(16, kPackedBytes) : gpu::mfma_f8_b(),
                             .accumulator = gpu::transpose(gpu::mfma_accumulator(16), {1, 0}),
                             .a_scales = gpu::mfma_scales(),
                             .b_scales = gpu::mfma_scales(),
                             .emit = {}};
  out.emit = [a, b](Builder& ir, Operand x, Operand y, Operand x_scales, Operand y_scales, Operand accumulators) {
    const auto wide = [&](Operand scale) { return ir.CreateZExt(scale[0], ir.getInt32Ty()); };
    Value *p = packed(ir, x, Packing::kWords), *q = packed(ir, y, Packing::kWords);
    return elements_of(
        ir, ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_mfma_scale_f32_16x16x128_f8f6f4, {q->getType(), p->getType()},
                               {q, p, vector_of(ir, accumulators), kind_of(ir, b), kind_of(ir, a), ir.getInt32(0),
                                wide(y_scales), ir.getInt32(0), wide(x_scales)}));
  };
  return out;
}

// Numbers of 8 bits in sixteen words of a lane, of 4 bits in eight, and of the word with scales all four bytes, of the
// lower lanes.
gpu::ScaledInstruction scaled_wmma(ElementType a, ElementType b) {
  const int bytes = a == ElementType::kU8 ? 64 : 128;
  gpu::ScaledInstruction out{.a = gpu::wmma_gfx1250_a(8, bytes),
                             .b = gpu::wmma_gfx1250_b(8, bytes),
                             .accumulator = gpu::transpose(gpu::wmma_gfx12_accumulator(), {1, 0}),
                             .a_scales = gpu::wmma_gfx1250_scales(),
                             .b_scales = gpu::wmma_gfx1250_scales(),
                             .emit = {}};
  out.emit = [a, b](Builder& ir, Operand x, Operand y, Operand x_scales, Operand y_scales, Operand accumulators) {
    const auto word = [&](Operand scales) { return ir.CreateBitCast(vector_of(ir, scales), ir.getInt32Ty()); };
    Value *p = packed(ir, x, Packing::kWords), *q = packed(ir, y, Packing::kWords), *sum = vector_of(ir, accumulators);
    Value *none = ir.getInt32(0), *no = ir.getFalse();  // scales are e8m0 of lanes 0 to 15
    Value* result = ir.CreateIntrinsic(llvm::Intrinsic::amdgcn_wmma_scale_f32_16x16x128_f8f6f4,
                                       {sum->getType(), q->getType(), p->getType()},
                                       {kind_of(ir, b), q, kind_of(ir, a), p, ir.getInt16(0), sum, none, none,
                                        word(y_scales), none, none, word(x_scales), no, no});
    return elements_of(ir, pinned(ir, result));
  };
  return out;
}

}  // namespace

// v_mfma_scale_f32_16x16x128_f8f6f4 and v_wmma_scale_f32_16x16x128_f8f6f4, with operands the other way round, as all.
std::optional<gpu::ScaledInstruction> AmdTargetInfo::scaled_instruction(ElementType a, ElementType b) const {
  if (processor_.matrix == Matrix::kMfma950) return scaled_mfma(a, b);
  if (processor_.matrix == Matrix::kWmma1250) return scaled_wmma(a, b);
  return std::nullopt;
}

}  // namespace kiln::codegen::amdgcn
