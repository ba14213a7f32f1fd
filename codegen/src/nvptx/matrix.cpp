// mma.sync: one warp's product of small matrices (PTX ISA, "Matrix multiply-accumulate operation using mma
// instruction").
#include <llvm/IR/InlineAsm.h>

#include <array>

#include "gpu/layout/fragments.h"
#include "nvptx/asm.h"
#include "nvptx/target_info.h"

namespace kiln::codegen::nvptx {
namespace {

using dsl::ElementType;
using llvm::Value;
using Builder = llvm::IRBuilder<>;
using Operand = gpu::MatrixInstruction::Operand;

// One form of the instruction.
struct Form {
  std::string text;  // "m16n8k16.row.col.f32.bf16.bf16.f32"
  int element_bits = 16;
  bool float_sum = true;
  bool is_f64 = false;
  bool rounds_tf32 = false;  // operands of f32 lose the low bits of their significands
  // f8 without matrix units of its own: "e4m3" or "e5m2" of each operand, which `text` multiplies as f16.
  std::array<const char*, 2> unpacked = {};
};

constexpr const char* kF16Product = "m16n8k16.row.col.f32.f16.f16.f32";

std::optional<Form> form_of(ElementType a, ElementType b, ElementType sum, dsl::Precision precision,
                            const target::NvidiaUnits& units) {
  const bool is_f8 = dsl::is_float(a) && dsl::info(a).bits == 8;
  if (a == ElementType::kF64) return Form{"m8n8k4.row.col.f64.f64.f64.f64", 64, true, true, false, {}};
  if (a == ElementType::kF32) {
    if (precision != dsl::Precision::kTf32) return std::nullopt;
    return Form{"m16n8k8.row.col.f32.tf32.tf32.f32", 32, true, false, true, {}};
  }
  if (!matrix_type(a) || !matrix_type(b) || (is_f8 && !units.f8_conversions)) return std::nullopt;
  if (dsl::is_float(a) && sum != ElementType::kF32) return std::nullopt;
  const std::string types = std::string(matrix_type(a)) + "." + matrix_type(b);
  if (dsl::info(a).bits == 16) return Form{"m16n8k16.row.col.f32." + types + ".f32", 16, true, false, false, {}};
  // Without units for it mma.sync of f8 is made of f16 products, by ptxas: 13.0 unpacks the upper halves of constant
  // words wrongly.
  if (is_f8 && !units.f8_products) return Form{kF16Product, 8, true, false, false, {matrix_type(a), matrix_type(b)}};
  const std::string accumulator = is_f8 ? "f32" : "s32";
  return Form{"m16n8k32.row.col." + accumulator + "." + types + "." + accumulator, 8, is_f8, false, false, {}};
}

// f32 to the nearest number with ten bits after the point, ties away from zero.
Value* round_tf32(Builder& ir, Value* x) {
  auto* type = llvm::FunctionType::get(ir.getInt32Ty(), {ir.getFloatTy()}, false);
  auto* call = ir.CreateCall(llvm::InlineAsm::get(type, "cvt.rna.tf32.f32 $0, $1;", "=r,f", false), {x});
  call->setDoesNotAccessMemory();  // equal ones become one
  return call;
}

// Two f8 of each word, as words of two f16: the lower or the upper ones. Both operands take the same places of k.
std::vector<Value*> unpack(Builder& ir, llvm::ArrayRef<Value*> words, const char* type, bool upper) {
  auto* function = llvm::FunctionType::get(ir.getInt32Ty(), {ir.getInt16Ty()}, false);
  const std::string text = std::string("cvt.rn.f16x2.") + type + "x2 $0, $1;";
  std::vector<Value*> out;
  for (Value* word : words) {
    Value* pair = ir.CreateTrunc(upper ? ir.CreateLShr(word, 16) : word, ir.getInt16Ty());
    auto* call = ir.CreateCall(llvm::InlineAsm::get(function, text, "=r,h", false), {pair});
    call->setDoesNotAccessMemory();  // equal ones become one
    out.push_back(call);
  }
  return out;
}

std::vector<Value*> operand_words(Builder& ir, const Form& form, Operand elements) {
  if (form.is_f64) return {elements.begin(), elements.end()};
  if (!form.rounds_tf32) return pack_words(ir, elements, form.element_bits);
  std::vector<Value*> out;
  for (Value* x : elements) out.push_back(round_tf32(ir, x));
  return out;
}

// One instruction: its results, and its operands' words.
std::vector<Value*> multiply(Builder& ir, const Form& form, llvm::ArrayRef<Value*> x, llvm::ArrayRef<Value*> y,
                             llvm::ArrayRef<Value*> accumulators) {
  const size_t count = accumulators.size();
  const std::string operand_letter = form.is_f64 ? "d" : "r", sum_letter = form.is_f64      ? "d"
                                                                           : form.float_sum ? "f"
                                                                                            : "r";
  const std::string text = "mma.sync.aligned." + form.text + " " + braces(0, count) + ", " + braces(count, x.size()) +
                           ", " + braces(count + x.size(), y.size()) + ", " + braces(0, count) + ";";
  std::vector<Value*> in(x.begin(), x.end());
  in.insert(in.end(), y.begin(), y.end());
  const std::string constraints =
      joined({repeated("=" + sum_letter, count), repeated(operand_letter, in.size()), tied(count)});
  in.insert(in.end(), accumulators.begin(), accumulators.end());
  llvm::SmallVector<llvm::Type*, 16> types;
  for (Value* value : in) types.push_back(value->getType());
  auto* type = llvm::FunctionType::get(results_type(accumulators[0]->getType(), count), types, false);
  auto* call = ir.CreateCall(llvm::InlineAsm::get(type, text, constraints, false), in);
  call->setConvergent();
  return results_of(ir, call, count);
}

std::vector<Value*> emit(Builder& ir, const Form& form, Operand a, Operand rhs, Operand accumulators) {
  const std::vector<Value*> x = operand_words(ir, form, a), y = operand_words(ir, form, rhs);
  if (!form.unpacked[0]) return multiply(ir, form, x, y, accumulators);
  const auto half = [&](bool upper, llvm::ArrayRef<Value*> before) {
    return multiply(ir, form, unpack(ir, x, form.unpacked[0], upper), unpack(ir, y, form.unpacked[1], upper), before);
  };
  return half(true, half(false, accumulators));
}

}  // namespace

std::optional<gpu::MatrixInstruction> CudaTargetInfo::matrix_instruction(ElementType a, ElementType b, ElementType sum,
                                                                         dsl::Precision precision) const {
  const std::optional<Form> form = form_of(a, b, sum, precision, target_.units());
  if (!form) return std::nullopt;
  gpu::MatrixInstruction out;
  if (form->is_f64) {
    out.a = gpu::mma_f64_a();
    out.b = gpu::mma_f64_b();
    out.accumulator = gpu::mma_f64_accumulator();
  } else {
    out.a = gpu::mma_a(form->element_bits);
    out.b = gpu::mma_b(form->element_bits);
    out.accumulator = gpu::mma_accumulator();
  }
  out.emit = [form = *form](Builder& builder, Operand x, Operand y, Operand accumulators) {
    return nvptx::emit(builder, form, x, y, accumulators);
  };
  return out;
}

}  // namespace kiln::codegen::nvptx
