// mma.sync whose operands' 32 neighbours along k share a scale (PTX ISA, "Block Scaling for mma.sync"), of sm_120a and
// sm_121a. A word of each thread has the scales, of which the instruction takes the lowest byte; those of rows come
// from the first two threads of four, those of columns from the first one (gpu/layout/fragments.h).
#include <llvm/IR/InlineAsm.h>

#include "gpu/layout/fragments.h"
#include "nvptx/asm.h"
#include "nvptx/target_info.h"

namespace kiln::codegen::nvptx {

using llvm::Value;
using Builder = llvm::IRBuilder<>;
using Operand = gpu::ScaledInstruction::Operand;

namespace {

constexpr int kBits = 8;

// Scales of a word, the first lowest.
Value* scale_word(Builder& ir, Operand scales) {
  Value* out = ir.CreateZExt(scales[0], ir.getInt32Ty());
  for (size_t i = 1; i < scales.size(); ++i) {
    out = ir.CreateOr(out, ir.CreateShl(ir.CreateZExt(scales[i], ir.getInt32Ty()), 8 * i));
  }
  return out;
}

std::vector<Value*> multiply(Builder& ir, const std::string& form, Operand a, Operand rhs, Operand a_scales,
                             Operand b_scales, Operand accumulators) {
  const std::vector<Value*> x = pack_words(ir, a, kBits), y = pack_words(ir, rhs, kBits);
  const size_t sums = accumulators.size(), words = x.size() + y.size();
  const std::string first = std::to_string(sums + words), second = std::to_string(sums + words + 1);
  const std::string text = "mma.sync.aligned." + form + braces(0, sums) + ", " + braces(sums, x.size()) + ", " +
                           braces(sums + x.size(), y.size()) + ", " + braces(0, sums) + ", $" + first + ", {0, 0}, $" +
                           second + ", {0, 0};";
  llvm::SmallVector<Value*, 16> in(x.begin(), x.end());
  in.append(y.begin(), y.end());
  for (Operand scales : {a_scales, b_scales}) in.push_back(scale_word(ir, scales));
  const std::string constraints = joined({repeated("=f", sums), repeated("r", in.size()), tied(sums)});
  in.append(accumulators.begin(), accumulators.end());
  llvm::SmallVector<llvm::Type*, 16> types_in;
  for (Value* value : in) types_in.push_back(value->getType());
  auto* type = llvm::FunctionType::get(results_type(ir.getFloatTy(), sums), types_in, false);
  auto* call = ir.CreateCall(llvm::InlineAsm::get(type, text, constraints, false), in);
  call->setConvergent();
  return results_of(ir, call, sums);
}

}  // namespace

std::optional<gpu::ScaledInstruction> CudaTargetInfo::scaled_instruction(dsl::ElementType a, dsl::ElementType b) const {
  if (!target_.units().block_scales) return std::nullopt;
  gpu::ScaledInstruction out{.a = gpu::mma_a(kBits),
                             .b = gpu::mma_b(kBits),
                             .accumulator = gpu::mma_accumulator(),
                             .a_scales = gpu::mma_a_scales(),
                             .b_scales = gpu::mma_b_scales(),
                             .emit = {}};
  std::string form;
  if (a == dsl::ElementType::kU8) {  // twice as many of half the bits, which lie as bytes do
    out.a_scales = gpu::mma_a_scale_pairs();
    out.b_scales = gpu::mma_b_scale_pairs();
    form = "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 ";
  } else {
    form = std::string("m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.") + matrix_type(a) + "." +
           matrix_type(b) + ".f32.ue8m0 ";
  }
  out.emit = [form](Builder& builder, Operand x, Operand y, Operand x_scales, Operand y_scales, Operand sums) {
    return multiply(builder, form, x, y, x_scales, y_scales, sums);
  };
  return out;
}

}  // namespace kiln::codegen::nvptx
