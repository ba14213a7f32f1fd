#include "emulated_target.h"

#include <llvm/IR/Module.h>

#include <cstring>

#include "group_products.h"
#include "matrix.h"

namespace kiln::test {

using codegen::gpu::GlobalAccess;
using codegen::gpu::MatrixInstruction;
using llvm::Value;

namespace {

// ---- what generated code calls ----

uint32_t host_thread_id(Thread* thread) { return static_cast<uint32_t>(thread->number); }
uint32_t host_program_id(Thread* thread, uint32_t axis) { return thread->block->program().id[axis]; }
uint32_t host_num_programs(Thread* thread, uint32_t axis) { return thread->block->program().count[axis]; }

uint32_t host_shuffle(Thread* thread, int site, uint32_t word, uint32_t lane) {
  Block& block = *thread->block;
  const auto lanes = static_cast<uint32_t>(block.code().lanes);
  thread->word = word;
  thread->from = lane % lanes;
  if (block.meet_warp(*thread, site)) {
    Thread* warp = block.warp_of(*thread);
    for (uint32_t i = 0; i < lanes; ++i) warp[i].fetched = warp[warp[i].from].word;
    block.release_warp(*thread);
  }
  return thread->fetched;
}

uint32_t host_shuffle_xor(Thread* thread, int site, uint32_t word, uint32_t mask) {
  return host_shuffle(thread, site, word, static_cast<uint32_t>(thread->lane()) ^ mask);
}

void host_barrier(Thread* thread, int site) { thread->block->barrier(*thread, site); }
void host_warp_barrier(Thread* thread, int site) { thread->block->warp_barrier(*thread, site); }

// Into the operands, which hold what the access gives where the predicate is false.
void host_load_global(Thread* thread, const void* pointer, uint32_t bytes, uint32_t predicate) {
  if (!predicate) return;
  thread->block->check_global(*thread, pointer, bytes, "load");
  thread->block->check_global_order(*thread, pointer, bytes, false);
  std::memcpy(thread->operands.data(), pointer, bytes);
}

void host_store_global(Thread* thread, void* pointer, uint32_t bytes, uint32_t predicate) {
  if (!predicate) return;
  thread->block->check_global(*thread, pointer, bytes, "store");
  std::memcpy(pointer, thread->operands.data(), bytes);
  thread->block->check_global_order(*thread, pointer, bytes, true);
}

void host_atomic(Thread* thread, const void* pointer, uint32_t bytes, uint32_t predicate) {
  if (predicate) thread->block->check_global(*thread, pointer, bytes, "atomic");
}

// The elements of a, b and the sums lie in the operands, each in 8 bytes; the new sums come to their beginning.
void host_multiply(Thread* thread, int site, const MatrixForm* form) {
  Block& block = *thread->block;
  if (!block.meet_warp(*thread, site)) return;
  const Thread* warp = block.warp_of(*thread);
  MatrixProduct product(*form);
  const auto operands = [&](int lane) { return warp[lane].operands.data(); };
  for (int lane = 0; lane < block.code().lanes; ++lane) product.read(lane, operands(lane));
  product.multiply();
  for (int lane = 0; lane < block.code().lanes; ++lane) {
    product.write(lane, block.warp_of(*thread)[lane].operands.data());
  }
  block.release_warp(*thread);
}

uint32_t bytes_of(Value* x) {
  return static_cast<uint32_t>(x->getType()->getPrimitiveSizeInBits().getFixedValue() / 8);
}

Value* pointer_of(llvm::IRBuilder<>& b, const GlobalAccess& access) {
  const GlobalAccess::Offsets& offsets = access.offsets;
  if (!offsets.base) return access.pointer;
  Value* offset = b.CreateAdd(offsets.by_thread, b.getInt32(static_cast<uint32_t>(offsets.constant)));
  return b.CreateGEP(b.getInt8Ty(), offsets.base, b.CreateZExt(offset, b.getInt64Ty()));
}

}  // namespace

codegen::gpu::LaneFacts EmulatedTarget::lane_facts() const {
  codegen::gpu::LaneFacts out;
  out.shared_bytes = like_ == nullptr ? 227 * 1024 : like_->block_shared_bytes();
  out.matrix_load = lanes_ == 32;
  out.matrix_store = like_ == nullptr ? lanes_ == 32 : like_->units.stores_matrices;
  return out;
}

llvm::Function* EmulatedTarget::create_kernel(llvm::Module& module, const std::string& name,
                                              llvm::ArrayRef<llvm::Type*> params, int /*threads*/) const {
  llvm::LLVMContext& context = module.getContext();
  llvm::SmallVector<llvm::Type*, 8> all;
  for (llvm::Type* param : params) all.push_back(param->isArrayTy() ? llvm::PointerType::get(context, 0) : param);
  all.push_back(llvm::PointerType::get(context, 0));
  all.push_back(llvm::PointerType::get(context, 3));
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), all, false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  return function;
}

llvm::Value* EmulatedTarget::thread_id(Builder& b) const { return call_host(b, host_thread_id, b.getInt32Ty(), {}); }

llvm::Value* EmulatedTarget::program_id(Builder& b, int axis) const {
  return call_host(b, host_program_id, b.getInt32Ty(), {b.getInt32(static_cast<uint32_t>(axis))});
}

llvm::Value* EmulatedTarget::num_programs(Builder& b, int axis) const {
  return call_host(b, host_num_programs, b.getInt32Ty(), {b.getInt32(static_cast<uint32_t>(axis))});
}

llvm::Value* EmulatedTarget::shuffle(Builder& b, Value* word, Value* lane) const {
  return call_host(b, host_shuffle, b.getInt32Ty(), {next_site(b), word, lane});
}

llvm::Value* EmulatedTarget::shuffle_xor(Builder& b, Value* word, unsigned mask) const {
  return call_host(b, host_shuffle_xor, b.getInt32Ty(), {next_site(b), word, b.getInt32(mask)});
}

void EmulatedTarget::barrier(Builder& b) const { call_host(b, host_barrier, b.getVoidTy(), {next_site(b)}); }

void EmulatedTarget::warp_barrier(Builder& b) const { call_host(b, host_warp_barrier, b.getVoidTy(), {next_site(b)}); }

llvm::Value* EmulatedTarget::operand(Builder& b, size_t offset) const {
  return b.CreateConstGEP1_64(b.getInt8Ty(), thread_of(*b.GetInsertBlock()->getParent()), offset);
}

llvm::Value* EmulatedTarget::load_global(Builder& b, llvm::Type* type, const GlobalAccess& access, Value* other) const {
  Value* fallback = other ? other : llvm::Constant::getNullValue(type);
  b.CreateStore(fallback, operand(b, 0));
  Value* predicate = access.predicate ? b.CreateZExt(access.predicate, b.getInt32Ty()) : b.getInt32(1);
  call_host(b, host_load_global, b.getVoidTy(), {pointer_of(b, access), b.getInt32(bytes_of(fallback)), predicate});
  return b.CreateLoad(type, operand(b, 0));
}

void EmulatedTarget::store_global(Builder& b, Value* value, const GlobalAccess& access) const {
  b.CreateStore(value, operand(b, 0));
  Value* predicate = access.predicate ? b.CreateZExt(access.predicate, b.getInt32Ty()) : b.getInt32(1);
  call_host(b, host_store_global, b.getVoidTy(), {pointer_of(b, access), b.getInt32(bytes_of(value)), predicate});
}

// Ints, and sums of f32 (alone and by neighbours) and f64; the rest is exchanged in loops.
bool EmulatedTarget::has_atomic(dsl::AtomicKind kind, dsl::ElementType element, int64_t count, bool gives_old) const {
  if (dsl::info(element).bytes < 4) return false;
  if (!dsl::is_float(element)) return count == 1;
  if (kind != dsl::AtomicKind::kAdd) return false;
  return count == 1 || (element == dsl::ElementType::kF32 && count <= 4 && !gives_old);
}

llvm::Value* EmulatedTarget::atomic_place(Builder& b, const codegen::gpu::AtomicAccess& access, uint64_t bits) const {
  // Loops around exchanges are functions of their own, which know no thread.
  llvm::Function& function = *b.GetInsertBlock()->getParent();
  if (function.hasInternalLinkage()) {
    if (!access.predicate) return access.pointer;
    Builder entry(&function.getEntryBlock(), function.getEntryBlock().begin());
    Value* nobodys = entry.CreateAlloca(entry.getInt64Ty());
    entry.CreateStore(entry.getInt64(0), nobodys);
    return b.CreateSelect(access.predicate, access.pointer, nobodys);
  }
  Value* predicate = access.predicate ? access.predicate : b.getTrue();
  call_host(b, host_atomic, b.getVoidTy(),
            {access.pointer, b.getInt32(static_cast<uint32_t>(bits / 8)), b.CreateZExt(predicate, b.getInt32Ty())});
  return b.CreateSelect(predicate, access.pointer, operand(b, 0));
}

llvm::Value* EmulatedTarget::atomic_rmw(Builder& b, dsl::AtomicKind kind, dsl::ElementType element, Value* value,
                                        bool /*gives_old*/, const codegen::gpu::AtomicAccess& access) const {
  using Operation = llvm::AtomicRMWInst::BinOp;
  const bool is_signed = dsl::info(element).is_signed, is_sum = dsl::is_float(element) && kind == dsl::AtomicKind::kAdd;
  static constexpr Operation kSigned[] = {Operation::Add, Operation::Min, Operation::Max, Operation::And,
                                          Operation::Or,  Operation::Xor, Operation::Xchg};
  Operation operation = kSigned[static_cast<size_t>(kind)];
  if (!is_signed && operation == Operation::Min) operation = Operation::UMin;
  if (!is_signed && operation == Operation::Max) operation = Operation::UMax;
  if (is_sum) operation = Operation::FAdd;
  const auto bits = static_cast<uint64_t>(value->getType()->getPrimitiveSizeInBits());
  Value* place = atomic_place(b, access, bits);
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  llvm::Type* number = element == dsl::ElementType::kF64 ? b.getDoubleTy() : b.getFloatTy();
  Value* old = nullptr;
  for (unsigned i = 0; i < (vector ? vector->getNumElements() : 1); ++i) {
    Value* part = vector ? b.CreateExtractElement(value, i) : value;
    Value* at = b.CreateConstGEP1_32(part->getType(), place, i);
    if (is_sum) part = b.CreateBitCast(part, number);
    old = b.CreateAtomicRMW(operation, at, part, llvm::MaybeAlign(), llvm::AtomicOrdering::Monotonic);
  }
  if (vector) return nullptr;
  old = b.CreateBitCast(old, value->getType());
  return access.predicate ? b.CreateSelect(access.predicate, old, llvm::Constant::getNullValue(old->getType())) : old;
}

llvm::Value* EmulatedTarget::compare_exchange(Builder& b, Value* expected, Value* desired,
                                              const codegen::gpu::AtomicAccess& access) const {
  const unsigned bits = expected->getType()->getIntegerBitWidth();
  auto* exchanged = b.CreateAtomicCmpXchg(atomic_place(b, access, bits), expected, desired, llvm::MaybeAlign(),
                                          llvm::AtomicOrdering::Monotonic, llvm::AtomicOrdering::Monotonic);
  Value* old = b.CreateExtractValue(exchanged, 0);
  return access.predicate ? b.CreateSelect(access.predicate, old, llvm::Constant::getNullValue(old->getType())) : old;
}

// As the host's assembler has it: general registers.
bool EmulatedTarget::takes_constraint(llvm::StringRef constraint, llvm::Type* type) const {
  return constraint == "r" && type->isIntegerTy();
}

std::optional<MatrixInstruction> EmulatedTarget::matrix_instruction(dsl::ElementType a, dsl::ElementType b,
                                                                    dsl::ElementType sum,
                                                                    dsl::Precision precision) const {
  const MatrixForm* form = find_matrix_form(lanes_, a, b, sum, precision);
  if (!form) return std::nullopt;
  MatrixInstruction out{form->a_layout, form->b_layout, form->sum_layout, {}};
  out.emit = [this, form](Builder& builder, MatrixInstruction::Operand x, MatrixInstruction::Operand y,
                          MatrixInstruction::Operand sums) { return multiply(builder, *form, {x, y, sums}, sums); };
  return out;
}

// The new sums come to the beginning of the operands.
std::vector<Value*> EmulatedTarget::multiply(Builder& b, const MatrixForm& form,
                                             std::initializer_list<llvm::ArrayRef<Value*>> operands,
                                             llvm::ArrayRef<Value*> sums) const {
  size_t offset = 0;
  for (llvm::ArrayRef<Value*> elements : operands) {
    for (Value* element : elements) b.CreateStore(element, operand(b, offset)), offset += 8;
  }
  Value* address = b.CreateIntToPtr(b.getInt64(reinterpret_cast<uintptr_t>(&form)), b.getPtrTy());
  call_host(b, host_multiply, b.getVoidTy(), {next_site(b), address});
  std::vector<Value*> results;
  for (size_t i = 0; i < sums.size(); ++i) results.push_back(b.CreateLoad(sums[i]->getType(), operand(b, 8 * i)));
  return results;
}

std::optional<codegen::gpu::ScaledInstruction> EmulatedTarget::scaled_instruction(dsl::ElementType a,
                                                                                  dsl::ElementType b) const {
  if (like_ == nullptr || !like_->units.block_scales) return std::nullopt;
  const MatrixForm* form = find_scaled_form(a, b);
  codegen::gpu::ScaledInstruction out{form->a_layout, form->b_layout, form->sum_layout,
                                      form->a_scales, form->b_scales, {}};
  using Operand = MatrixInstruction::Operand;
  out.emit = [this, form](Builder& builder, Operand x, Operand y, Operand x_scales, Operand y_scales, Operand sums) {
    return multiply(builder, *form, {x, y, sums, x_scales, y_scales}, sums);
  };
  return out;
}

std::optional<codegen::gpu::GroupInstruction> EmulatedTarget::group_instruction(dsl::ElementType a, dsl::ElementType b,
                                                                                dsl::ElementType sum,
                                                                                dsl::Precision precision) const {
  if (like_ && like_->units.tensor_memory)
    return find_tensor_instruction(a, b, sum, precision, like_->units.tensor_bytes);
  if (!groups_) return std::nullopt;
  return find_group_instruction(a, b, sum, precision, [this] { return ++sites_; });
}

}  // namespace kiln::test
