#include "gpu/dot/tensor_memory.h"

#include <algorithm>
#include <bit>

#include "gpu/variables.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int kGroupWarps = 4, kQuarter = TensorEngine::kLanes / kGroupWarps;
constexpr int kRing = 4;  // barriers of a group of warps
constexpr int kRingBits = std::countr_zero(static_cast<unsigned>(kRing));
constexpr int kBarrierBytes = 8;
constexpr int kPhase = 0;  // of the marks: transaction barriers order what they are for

llvm::ConstantInt* number(Builder& ir, int64_t x) { return ir.getInt32(static_cast<uint32_t>(x)); }

}  // namespace

std::unique_ptr<TensorMemory> TensorMemory::begin(Context& ctx) {
  const int64_t used = tensor_columns(ctx.kernel, ctx.target, ctx.block);
  if (used == 0) return nullptr;
  const auto columns = std::bit_ceil(static_cast<unsigned>(std::max<int64_t>(used, TensorEngine::kLeastColumns)));
  return std::unique_ptr<TensorMemory>(new TensorMemory(ctx, static_cast<int>(columns)));
}

TensorMemory::TensorMemory(Context& ctx, int columns)
    : ctx_(ctx),
      engine_(*ctx.target.tensor_engine()),
      columns_(columns),
      barriers_(ctx.ir, int64_t{kBarrierBytes} * kRing * (ctx.block.warps / kGroupWarps)),
      warp_(ctx.warp),
      thread_(ctx.thread) {
  Builder& ir = ctx_.ir;
  const BulkEngine& bulk = *ctx_.target.bulk_engine();
  llvm::IRBuilder<> entry(ctx_.prologue_end);
  count_ = entry.CreateAlloca(entry.getInt32Ty());
  // As if a whole ring had been committed, and had ended: there is nothing to wait for yet.
  entry.CreateStore(entry.getInt32(kRing), count_);
  const SharedBuffer place(ir, sizeof(uint32_t));
  chosen_ = ir.CreateIsNull(ir.CreateAnd(thread_, number(ir, TensorEngine::kLanes - 1)));
  auto *first = new_block(ctx_, "tensor"), *begun = new_block(ctx_, "tensor.begun");
  ir.CreateCondBr(ir.CreateIsNull(warp_), first, begun);
  ir.SetInsertPoint(first);
  place.touch(ir, SharedBuffer::Access::kWrite, kPhase);
  engine_.allocate(ir, place.pointer(), columns_);
  Value* is_first = ir.CreateIsNull(thread_);
  barriers_.touch(ir, SharedBuffer::Access::kWrite, kPhase);
  for (int i = 0; i < kRing * (ctx_.block.warps / kGroupWarps); ++i) {
    bulk.init_barrier(ir, ir.CreateConstGEP1_32(ir.getInt8Ty(), barriers_.pointer(), kBarrierBytes * i), 1, is_first);
  }
  bulk.publish_barriers(ir);
  ir.CreateBr(begun);
  ir.SetInsertPoint(begun);
  engine_.before_barrier(ir);
  ctx_.target.program_barrier(ir, ctx_.block);
  engine_.after_barrier(ir);
  llvm::LoadInst* address = ir.CreateLoad(ir.getInt32Ty(), place.pointer());
  place.mark(address, SharedBuffer::Access::kRead, kPhase);
  address_ = ctx_.target.warp_uniform(ir, address);
}

void TensorMemory::end() {
  Builder& ir = ctx_.ir;
  wait(0);
  engine_.before_barrier(ir);
  ctx_.target.program_barrier(ir, ctx_.block);
  engine_.after_barrier(ir);
  auto *first = new_block(ctx_, "tensor.end"), *ended = new_block(ctx_, "tensor.ended");
  ir.CreateCondBr(ir.CreateIsNull(warp_), first, ended);
  ir.SetInsertPoint(first);
  engine_.release(ir, address_, columns_);
  ir.CreateBr(ended);
  ir.SetInsertPoint(ended);
}

bool TensorMemory::are_in_place(ValueId sums, const DotGroup& group) const {
  const auto found = kept_.find(sums);
  return found != kept_.end() && ctx_.is_pending(sums) && found->second.first_column == group.first_column;
}

Registers TensorMemory::stand_ins(const dsl::Type& type, const Layout& layout) {
  llvm::Type* element = register_type(ctx_.ir.getContext(), type);
  Registers out;
  for (int64_t i = 0; i < layout.size(Dim::kRegister); ++i) {
    out.push_back(ctx_.ir.CreateFreeze(llvm::PoisonValue::get(element)));
  }
  return out;
}

Value* TensorMemory::address(const DotGroup& group, int64_t fragment) {
  Builder& ir = ctx_.ir;
  const int64_t fragments = group.m * group.n;
  Value* of_group = ir.CreateMul(ir.CreateLShr(warp_, number(ir, std::countr_zero(unsigned{kGroupWarps}))),
                                 number(ir, fragments * group.columns));
  return ir.CreateAdd(ir.CreateAdd(address_, of_group), number(ir, group.first_column + fragment * group.columns));
}

// In the warp's quarter of the lanes.
Value* TensorMemory::mine(Value* address) {
  Builder& ir = ctx_.ir;
  Value* quarter = ir.CreateAnd(warp_, number(ir, kGroupWarps - 1));
  return ir.CreateAdd(address, ir.CreateMul(quarter, number(ir, int64_t{kQuarter} << TensorEngine::kLaneShift)));
}

void TensorMemory::store(const DotGroup& group, const Registers& sums) {
  Builder& ir = ctx_.ir;
  const auto size = sums.size() / static_cast<size_t>(group.m * group.n);
  for (size_t first = 0; first < sums.size(); first += size) {
    Registers words;
    for (Value* x : llvm::ArrayRef(sums).slice(first, size)) words.push_back(ir.CreateBitCast(x, ir.getInt32Ty()));
    engine_.store(ir, mine(address(group, static_cast<int64_t>(first / size))), words);
  }
}

Registers TensorMemory::load(int commits, ValueId sums, Registers stand_ins) {
  Builder& ir = ctx_.ir;
  const DotGroup& group = kept_.at(sums);
  wait(commits);
  const auto size = stand_ins.size() / static_cast<size_t>(group.m * group.n);
  for (size_t first = 0; first < stand_ins.size(); first += size) {
    const auto fragment = llvm::MutableArrayRef<Value*>(stand_ins).slice(first, size);
    const auto there = static_cast<size_t>(llvm::find_if(fragment, llvm::IsaPred<llvm::Constant>) - fragment.begin());
    if (there == 0) continue;
    const std::vector<Value*> words =
        engine_.load(ir, mine(address(group, static_cast<int64_t>(first / size))), static_cast<int>(there));
    for (size_t i = 0; i < there; ++i) fragment[i] = ir.CreateBitCast(words[i], fragment[i]->getType());
  }
  return stand_ins;
}

Value* TensorMemory::barrier_of(Value* commit) {
  Builder& ir = ctx_.ir;
  Value* group = ir.CreateLShr(warp_, number(ir, std::countr_zero(unsigned{kGroupWarps})));
  Value* place = ir.CreateAdd(ir.CreateMul(group, number(ir, kRing)), ir.CreateAnd(commit, number(ir, kRing - 1)));
  return ir.CreateGEP(ir.getInt64Ty(), barriers_.pointer(), place);
}

// Commits are counted from kRing on, so the first of a barrier ends its phase 0. What is further back than a ring has
// a phase that can no longer be told from a later one: an earlier wait than asked for does as well.
void TensorMemory::wait(int commits) {
  Builder& ir = ctx_.ir;
  Value* last = ir.CreateSub(ir.CreateLoad(ir.getInt32Ty(), count_), number(ir, std::min(commits + 1, kRing)));
  Value* parity = ir.CreateAnd(ir.CreateAdd(ir.CreateLShr(last, kRingBits), number(ir, 1)), number(ir, 1));
  barriers_.touch(ir, SharedBuffer::Access::kRead, kPhase);
  ctx_.target.bulk_engine()->wait(ir, barrier_of(last), parity);
  engine_.after_barrier(ir);
}

// The barrier that comes next may still be in the phase of a ring ago: who waits for the next one would take the end of
// that one for it.
void TensorMemory::begin_products(int commits) {
  if (commits >= kRing) wait(kRing - 1);
  engine_.before_barrier(ctx_.ir);
  ctx_.target.program_barrier(ctx_.ir, ctx_.block);
  engine_.after_barrier(ctx_.ir);
}

void TensorMemory::commit() {
  Builder& ir = ctx_.ir;
  Value* count = ir.CreateLoad(ir.getInt32Ty(), count_);
  barriers_.touch(ir, SharedBuffer::Access::kRead, kPhase);
  engine_.commit(ir, barrier_of(count), chosen_);
  ir.CreateStore(ir.CreateAdd(count, number(ir, 1)), count_);
}

}  // namespace kiln::codegen::gpu
