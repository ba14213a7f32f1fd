// mma.sync: one warp's product of small matrices (PTX ISA, "Matrix multiply-accumulate operation using mma
// instruction").
#include <llvm/IR/InlineAsm.h>

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
};

std::optional<Form> form_of(ElementType a, ElementType b, ElementType sum, dsl::Precision precision, int capability) {
  const bool is_f8 = dsl::is_float(a) && dsl::info(a).bits == 8;
  if (a == ElementType::kF64) return Form{"m8n8k4.row.col.f64.f64.f64.f64", 64, true, true, false};
  if (a == ElementType::kF32) {
    if (precision != dsl::Precision::kTf32) return std::nullopt;
    return Form{"m16n8k8.row.col.f32.tf32.tf32.f32", 32, true, false, true};
  }
  if (!matrix_type(a) || !matrix_type(b) || (is_f8 && capability < 89)) return std::nullopt;
  if (dsl::is_float(a) && sum != ElementType::kF32) return std::nullopt;
  const std::string types = std::string(matrix_type(a)) + "." + matrix_type(b);
  if (dsl::info(a).bits == 16) return Form{"m16n8k16.row.col.f32." + types + ".f32", 16, true, false, false};
  const std::string accumulator = is_f8 ? "f32" : "s32";
  return Form{"m16n8k32.row.col." + accumulator + "." + types + "." + accumulator, 8, is_f8, false, false};
}

// f32 to the nearest number with ten bits after the point, ties away from zero.
Value* round_tf32(Builder& b, Value* x) {
  auto* type = llvm::FunctionType::get(b.getInt32Ty(), {b.getFloatTy()}, false);
  auto* call = b.CreateCall(llvm::InlineAsm::get(type, "cvt.rna.tf32.f32 $0, $1;", "=r,f", false), {x});
  call->setDoesNotAccessMemory();  // equal ones become one
  return call;
}

std::vector<Value*> emit(Builder& b, const Form& form, Operand a, Operand rhs, Operand sums) {
  std::vector<Value*> in;
  std::string constraints, results, operands[2], tied;
  const size_t count = sums.size();
  llvm::Type* sum_type = form.is_f64 ? b.getDoubleTy() : form.float_sum ? b.getFloatTy() : b.getInt32Ty();
  const std::string sum_letter = form.is_f64 ? "d" : form.float_sum ? "f" : "r";
  size_t number = count;
  for (size_t i = 0; i < count; ++i) {
    constraints += (i ? ",=" : "=") + sum_letter;
    results += (i ? ", $" : "$") + std::to_string(i);
    tied += "," + std::to_string(i);
  }
  for (size_t side = 0; side < 2; ++side) {
    const Operand elements = side == 0 ? a : rhs;
    std::vector<Value*> words;
    if (form.is_f64) {
      words = {elements.begin(), elements.end()};
    } else if (form.rounds_tf32) {
      for (Value* x : elements) words.push_back(round_tf32(b, x));
    } else {
      words = pack_words(b, elements, form.element_bits);
    }
    for (Value* word : words) {
      operands[side] += (operands[side].empty() ? "$" : ", $") + std::to_string(number++);
      constraints += form.is_f64 ? ",d" : ",r";
      in.push_back(word);
    }
  }
  in.insert(in.end(), sums.begin(), sums.end());
  llvm::SmallVector<llvm::Type*, 16> types;
  for (Value* x : in) types.push_back(x->getType());
  auto* result = llvm::StructType::get(b.getContext(), llvm::SmallVector<llvm::Type*, 4>(count, sum_type));
  const std::string text = "mma.sync.aligned." + form.text + " {" + results + "}, {" + operands[0] + "}, {" +
                           operands[1] + "}, {" + results + "};";
  auto* assembly = llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), text, constraints + tied, false);
  auto* call = b.CreateCall(assembly, in);
  call->setConvergent();
  std::vector<Value*> out;
  for (unsigned i = 0; i < count; ++i) out.push_back(b.CreateExtractValue(call, i));
  return out;
}

}  // namespace

std::optional<gpu::MatrixInstruction> CudaTargetInfo::matrix_instruction(ElementType a, ElementType b, ElementType sum,
                                                                         dsl::Precision precision) const {
  const std::optional<Form> form = form_of(a, b, sum, precision, target_.capability);
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
  out.emit = [form = *form](Builder& builder, Operand x, Operand y, Operand sums) {
    return nvptx::emit(builder, form, x, y, sums);
  };
  return out;
}

}  // namespace kiln::codegen::nvptx
