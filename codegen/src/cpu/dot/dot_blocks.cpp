#include "cpu/dot/dot_blocks.h"

#include <llvm/IR/IntrinsicsAArch64.h>

namespace kiln::codegen::cpu {
namespace {

// There is no instruction for signed rows and unsigned columns: columns stand for rows, and the block is transposed.
bool is_transposed(const DotForm& form) { return form.a == ElementType::kI8 && form.b == ElementType::kU8; }

PairOfVectors shuffled(Builder& ir, const PairOfVectors& x, const std::array<int, 4>& first,
                       const std::array<int, 4>& second) {
  return {ir.CreateShuffleVector(x[0], x[1], first), ir.CreateShuffleVector(x[0], x[1], second)};
}

llvm::Intrinsic::ID instruction(const DotForm& form) {
  using namespace llvm::Intrinsic;
  if (form.packed == ElementType::kBF16) return aarch64_neon_bfmmla;
  if (form.a != form.b) return aarch64_neon_usmmla;
  return form.a == ElementType::kI8 ? aarch64_neon_smmla : aarch64_neon_ummla;
}

}  // namespace

PairOfVectors blocks_of_rows(Builder& ir, const DotForm& form, const PairOfVectors& rows) {
  if (is_transposed(form)) return shuffled(ir, rows, {0, 4, 1, 5}, {2, 6, 3, 7});
  return shuffled(ir, rows, {0, 1, 4, 5}, {2, 3, 6, 7});
}

PairOfVectors rows_of_blocks(Builder& ir, const DotForm& form, const PairOfVectors& blocks) {
  if (is_transposed(form)) return shuffled(ir, blocks, {0, 2, 4, 6}, {1, 3, 5, 7});
  return shuffled(ir, blocks, {0, 1, 4, 5}, {2, 3, 6, 7});
}

PairOfVectors columns_of_units(Builder& ir, const PairOfVectors& units) {
  return shuffled(ir, units, {0, 4, 1, 5}, {2, 6, 3, 7});
}

Value* multiply_blocks(Builder& ir, const DotForm& form, Value* a, Value* b, Value* acc) {
  const bool bf16 = form.packed == ElementType::kBF16;
  auto* numbers =
      llvm::FixedVectorType::get(bf16 ? ir.getBFloatTy() : static_cast<llvm::Type*>(ir.getInt8Ty()), bf16 ? 8 : 16);
  Value *rows = ir.CreateBitCast(a, numbers), *columns = ir.CreateBitCast(b, numbers);
  if (is_transposed(form)) std::swap(rows, columns);
  if (bf16) return ir.CreateIntrinsic(instruction(form), {acc, rows, columns});
  return ir.CreateIntrinsic(instruction(form), {acc->getType(), numbers}, {acc, rows, columns});
}

}  // namespace kiln::codegen::cpu
