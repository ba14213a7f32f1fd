#include "named_target.h"

#include <llvm/IR/Module.h>

namespace kiln::test {
namespace {

namespace gpu = codegen::gpu;
using llvm::Value;
using Builder = llvm::IRBuilder<>;

Value* call(Builder& b, const std::string& name, llvm::Type* result, llvm::ArrayRef<Value*> arguments) {
  llvm::SmallVector<llvm::Type*, 16> types;
  for (Value* x : arguments) types.push_back(x->getType());
  auto* type = llvm::FunctionType::get(result, types, false);
  return b.CreateCall(type, b.GetInsertBlock()->getModule()->getOrInsertFunction(name, type).getCallee(), arguments);
}

void call(Builder& b, const std::string& name, llvm::ArrayRef<Value*> arguments = {}) {
  call(b, name, b.getVoidTy(), arguments);
}

// With several results of one type.
std::vector<Value*> call_for(Builder& b, const std::string& name, llvm::Type* type, size_t count,
                             llvm::ArrayRef<Value*> arguments) {
  Value* all = call(b, name, llvm::ArrayType::get(type, count), arguments);
  std::vector<Value*> out;
  for (unsigned i = 0; i < count; ++i) out.push_back(b.CreateExtractValue(all, i));
  return out;
}

std::string extents(int64_t rows, int64_t columns, int64_t inner) {
  return std::to_string(rows) + "x" + std::to_string(columns) + "x" + std::to_string(inner);
}

llvm::SmallVector<Value*, 16> joined(std::initializer_list<llvm::ArrayRef<Value*>> parts) {
  llvm::SmallVector<Value*, 16> out;
  for (llvm::ArrayRef<Value*> part : parts) out.append(part.begin(), part.end());
  return out;
}

// The pointer, and the predicate where there is one.
llvm::SmallVector<Value*, 16> place_of(const gpu::GlobalAccess& access) {
  llvm::SmallVector<Value*, 16> out = {access.pointer};
  if (access.predicate) out.push_back(access.predicate);
  return out;
}

}  // namespace

void NamedTarget::barrier(Builder& b) const { call(b, "barrier"); }
void NamedTarget::warp_barrier(Builder& b) const { call(b, "warp_barrier"); }

Value* NamedTarget::shuffle(Builder& b, Value* word, Value* lane) const {
  return call(b, "shuffle", word->getType(), {word, lane});
}

Value* NamedTarget::shuffle_xor(Builder& b, Value* word, unsigned mask) const {
  return call(b, "shuffle_xor", word->getType(), {word, b.getInt32(mask)});
}

std::vector<Value*> NamedTarget::load_matrices(Builder& b, Value* address, int count, bool transposed) const {
  return call_for(b, transposed ? "load_matrices.transposed" : "load_matrices", b.getInt32Ty(),
                  static_cast<size_t>(count), {address});
}

void NamedTarget::store_matrices(Builder& b, Value* address, llvm::ArrayRef<Value*> words, bool transposed) const {
  call(b, transposed ? "store_matrices.transposed" : "store_matrices", joined({address, words}));
}

void NamedTarget::async_copy(Builder& b, Value* shared, const gpu::GlobalAccess& from, int bytes) const {
  call(b, "async_copy." + std::to_string(bytes), joined({shared, place_of(from)}));
}

void NamedTarget::async_commit(Builder& b) const { call(b, "async_commit"); }
void NamedTarget::async_wait(Builder& b, int groups) const {
  call(b, "async_wait", b.getInt32(static_cast<uint32_t>(groups)));
}

std::optional<gpu::MatrixInstruction> NamedTarget::matrix_instruction(dsl::ElementType a, dsl::ElementType b,
                                                                      dsl::ElementType sum,
                                                                      dsl::Precision precision) const {
  auto out = EmulatedTarget::matrix_instruction(a, b, sum, precision);
  if (!out) return out;
  const auto &rows = out->a.shape(), &columns = out->b.shape();
  const std::string name = "multiply." + extents(rows[0], columns[1], rows[1]);
  using Operand = gpu::MatrixInstruction::Operand;
  out->emit = [name](Builder& builder, Operand x, Operand y, Operand sums) {
    return call_for(builder, name, sums[0]->getType(), sums.size(), joined({x, y, sums}));
  };
  return out;
}

std::optional<gpu::GroupInstruction> NamedTarget::group_instruction(dsl::ElementType a, dsl::ElementType b,
                                                                    dsl::ElementType sum,
                                                                    dsl::Precision precision) const {
  auto out = EmulatedTarget::group_instruction(a, b, sum, precision);
  if (!out) return out;
  out->emit = [rows = out->rows, k = out->k](Builder& builder, const gpu::GroupOperand& x, const gpu::GroupOperand& y,
                                             int columns, llvm::ArrayRef<Value*> sums, bool) {
    const auto place = [](const gpu::GroupOperand& operand) -> llvm::ArrayRef<Value*> {
      if (operand.registers.empty()) return operand.address;
      return operand.registers;
    };
    return call_for(builder, "multiply_group." + extents(rows, columns, k), sums[0]->getType(), sums.size(),
                    joined({place(x), place(y), sums}));
  };
  return out;
}

void NamedTarget::group_commit(Builder& b) const { call(b, "group_commit"); }

std::vector<Value*> NamedTarget::group_wait(Builder& b, int groups, llvm::ArrayRef<Value*> sums) const {
  call(b, "group_wait", b.getInt32(static_cast<uint32_t>(groups)));
  return sums.vec();
}

Value* NamedTarget::load_global(Builder& b, llvm::Type* type, const gpu::GlobalAccess& access, Value* other) const {
  auto arguments = place_of(access);
  if (access.predicate && other) arguments.push_back(other);
  return call(b, "load_global", type, arguments);
}

void NamedTarget::store_global(Builder& b, Value* value, const gpu::GlobalAccess& access) const {
  call(b, "store_global", joined({value, place_of(access)}));
}

}  // namespace kiln::test
