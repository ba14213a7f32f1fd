#include "gpu/pipeline/stages.h"

#include <algorithm>

#include "gpu/address/address.h"
#include "gpu/address/register_groups.h"
#include "gpu/address/tile_coordinates.h"
#include "gpu/layout/algebra.h"
#include "gpu/ops/memory.h"
#include "gpu/region.h"
#include "gpu/shared/shared_access.h"

namespace kiln::codegen::gpu {
namespace {

// Of all accesses of a multi-buffer: its order is the loop's affair, not that of barriers by hazard.
constexpr int kMultiBufferPhase = 0;
constexpr int64_t kBarrierBytes = 8;

// The last iteration's products may still read their stage at the head of the next one, and at its end if they run on.
int distance_of(const Pipeline& pipeline, const StageOrder& order) {
  if (pipeline.is_through_registers()) return std::max(1, pipeline.stages - 1);
  const bool waits = order.runs_on || (order.drifts && pipeline.stages > 2);
  const int busy = (pipeline.is_all_bulk() ? 0 : 1) + (waits ? 1 : 0);
  return std::max(1, pipeline.stages - busy);
}

std::vector<ValueId> picked(llvm::ArrayRef<ValueId> ids, const std::vector<size_t>& numbers) {
  std::vector<ValueId> out;
  for (size_t i : numbers) out.push_back(ids[i]);
  return out;
}

}  // namespace

MultiBuffers make_multi_buffers(Context& ctx, const Pipeline& pipeline, const StageOrder& order) {
  Builder& ir = ctx.ir;
  MultiBuffers out;
  constexpr auto kOf = SharedBuffer::Of::kBlock;
  for (const StagedLoad& staged : pipeline.loads) {
    out.buffers.emplace_back(ir, staged.panels.bytes * pipeline.stages, kOf);
  }
  if (!pipeline.has_bulk()) return out;
  out.full.emplace(ir, kBarrierBytes * pipeline.stages, kOf);
  if (order.drifts) out.free.emplace(ir, kBarrierBytes * pipeline.stages, kOf);
  if (ctx.block.consumer_groups > 1) out.right_to_multiply.emplace(ir, kBarrierBytes * ctx.block.consumer_groups, kOf);
  return out;
}

void init_multi_buffers(Context& ctx, const MultiBuffers& multi_buffers, const Pipeline& pipeline,
                        const StageOrder& order, Value* chosen) {
  Builder& ir = ctx.ir;
  const BulkEngine& engine = *ctx.target.bulk_engine();
  const auto init = [&](const SharedBuffer& barriers, int count, int arrivals) {
    for (int i = 0; i < count; ++i) {
      Value* barrier =
          ir.CreateConstGEP1_64(ir.getInt8Ty(), barriers.pointer(), static_cast<uint64_t>(kBarrierBytes * i));
      barriers.touch(ir, SharedBuffer::Access::kWrite, kMultiBufferPhase);
      engine.init_barrier(ir, barrier, arrivals, chosen);
    }
  };
  init(*multi_buffers.full, pipeline.stages, order.late.empty() ? 1 : 2);
  if (multi_buffers.free) init(*multi_buffers.free, pipeline.stages, ctx.block.warps * ctx.block.cluster);
  if (multi_buffers.right_to_multiply) init(*multi_buffers.right_to_multiply, ctx.block.consumer_groups, 1);
  engine.publish_barriers(ir);
}

PipelineStages::PipelineStages(Context& ctx, const Op& loop, const Pipeline& pipeline, const LoopRange& range,
                               StageOrder order)
    : ctx_(ctx),
      loop_(loop),
      pipeline_(pipeline),
      range_(range),
      order_(std::move(order)),
      distance_(distance_of(pipeline, order_)) {
  if (ctx.multi_buffers.contains(&loop)) order_.is_fed = order_.drifts = true;
}

Result<void> PipelineStages::begin() {
  start();
  const auto made = ctx_.multi_buffers.find(&loop_);
  if (order_.is_fed) {
    buffers_ = made->second;
    if (ctx_.consumer_group) {
      take_right_to_multiply();
      pass_over_others();
    }
    return {};
  }
  buffers_ = make_multi_buffers(ctx_, pipeline_, order_);
  copier_ = ctx_.ir.CreateIsNull(ctx_.target.thread_id(ctx_.ir));
  if (pipeline_.has_bulk()) {
    // In a loop around this one others may still wait for the barriers of the last time.
    if (!order_.late.empty()) ctx_.target.program_barrier(ctx_.ir, ctx_.block);
    init_multi_buffers(ctx_, buffers_, pipeline_, order_, copier_);
    ctx_.target.program_barrier(ctx_.ir, ctx_.block);
  }
  ahead_ = make_variables(ctx_, picked(loop_.results, pipeline_.ahead));
  const auto inits = llvm::ArrayRef(loop_.operands).drop_front(3);
  if (auto done = assign(ctx_, picked(inits, pipeline_.ahead), ahead_); !done) return done;
  for (int i = 0; i < distance_; ++i) {
    if (auto done = fill(nullptr); !done) return done;
    if (pipeline_.is_through_registers()) put();
  }
  return {};
}

void PipelineStages::start() {
  Builder& ir = ctx_.ir;
  llvm::IRBuilder<> entry(ctx_.prologue_end);
  const auto variable = [&](llvm::AllocaInst*& out, Value* first, llvm::IRBuilder<>& where) {
    out = entry.CreateAlloca(first->getType());
    where.CreateStore(first, out);
  };
  variable(count_, range_.start, ir);
  variable(last_, ir.getInt32(static_cast<uint32_t>(-1)), ir);
  // Multi-buffers that warps of their own fill go on where the last program of a persistent block left them.
  llvm::IRBuilder<>& once = order_.is_fed ? entry : ir;
  for (llvm::AllocaInst** zero : {&filled_, &used_, &parity_, &current_}) variable(*zero, ir.getInt32(0), once);
  // A stage that was never filled is free.
  variable(filled_parity_, ir.getInt32(1), once);
}

// A barrier tells one phase from the next alone: a consumer group that waited for stages before the others had waited
// for theirs of the program in front would take these for its own.
void PipelineStages::take_right_to_multiply() {
  Builder& ir = ctx_.ir;
  llvm::IRBuilder<> entry(ctx_.prologue_end);
  llvm::AllocaInst* parity = entry.CreateAlloca(ir.getInt32Ty());
  entry.CreateStore(entry.CreateZExt(entry.CreateIsNull(ctx_.consumer_group), ir.getInt32Ty()),
                    parity);  // the first need not wait
  buffers_.right_to_multiply->touch(ir, SharedBuffer::Access::kRead, kMultiBufferPhase);
  ctx_.target.bulk_engine()->wait(ir, right_to_multiply_of(ctx_.consumer_group),
                                  ir.CreateLoad(ir.getInt32Ty(), parity));
  flip(parity, ir.getTrue());
}

void PipelineStages::pass_on_right_to_multiply() {
  Builder& ir = ctx_.ir;
  Value* next = ir.CreateAdd(ctx_.consumer_group, ir.getInt32(1));
  next = ir.CreateSelect(ir.CreateICmpEQ(next, ir.getInt32(static_cast<uint32_t>(ctx_.block.consumer_groups))),
                         ir.getInt32(0), next);
  buffers_.right_to_multiply->touch(ir, SharedBuffer::Access::kWrite, kMultiBufferPhase);
  ctx_.target.bulk_engine()->arrive(ir, right_to_multiply_of(next), ir.CreateIsNull(ctx_.thread));
}

Value* PipelineStages::right_to_multiply_of(Value* consumer_group) {
  Builder& ir = ctx_.ir;
  Value* offset = ir.CreateMul(consumer_group, ir.getInt32(static_cast<uint32_t>(kBarrierBytes)));
  return ir.CreateGEP(ir.getInt8Ty(), buffers_.right_to_multiply->pointer(), offset);
}

// The stages of the programs of other consumer groups: at first of those in front, then of all others.
void PipelineStages::pass_over_others() {
  Builder& ir = ctx_.ir;
  llvm::IRBuilder<> entry(ctx_.prologue_end);
  llvm::AllocaInst* programs = entry.CreateAlloca(ir.getInt32Ty());
  entry.CreateStore(ctx_.consumer_group, programs);
  Value* length = ir.CreateSub(ir.CreateAdd(range_.end, range_.step), ir.CreateAdd(range_.start, ir.getInt64(1)));
  Value* count = ir.CreateTrunc(ir.CreateSDiv(length, range_.step), ir.getInt32Ty());
  count = ir.CreateSelect(ir.CreateICmpSLT(range_.start, range_.end), count, ir.getInt32(0));
  if (!order_.late.empty()) count = ir.CreateAdd(count, ir.getInt32(1));
  Value* passed = ir.CreateMul(count, ir.CreateLoad(ir.getInt32Ty(), programs));
  Value* at = ir.CreateAdd(ir.CreateLoad(ir.getInt32Ty(), used_), passed);
  Value* stages = ir.getInt32(static_cast<uint32_t>(pipeline_.stages));
  ir.CreateStore(ir.CreateURem(at, stages), used_);
  Value* odd = ir.CreateAnd(ir.CreateUDiv(at, stages), ir.getInt32(1));
  ir.CreateStore(ir.CreateXor(ir.CreateLoad(ir.getInt32Ty(), parity_), odd), parity_);
  ir.CreateStore(ir.getInt32(static_cast<uint32_t>(ctx_.block.consumer_groups - 1)), programs);
}

//   loop: wait until the stage is free; copy; to the next stage
Result<void> PipelineStages::copy_all() {
  Builder& ir = ctx_.ir;
  start();
  buffers_ = ctx_.multi_buffers.at(&loop_);
  copier_ = ir.getTrue();
  llvm::BasicBlock *loop = new_block(ctx_, "copy"), *after = new_block(ctx_, "copy.end");
  llvm::Instruction* guard = ir.CreateCondBr(ir.CreateICmpSLT(range_.start, range_.end), loop, after);
  ir.SetInsertPoint(loop);
  wait_for_stage();
  if (auto done = fill(guard); !done) return done;
  // What is read an iteration late has a stage behind the last iteration's.
  Value* end = order_.late.empty() ? range_.end : ir.CreateAdd(range_.end, range_.step);
  ir.CreateCondBr(ir.CreateICmpSLT(ir.CreateLoad(ir.getInt64Ty(), count_), end), loop, after);
  ir.SetInsertPoint(after);
  return {};
}

void PipelineStages::wait_until_all_free() {
  for (int i = 0; i < pipeline_.stages; ++i) {
    wait_for_stage();
    flip(filled_parity_, step(filled_));
  }
}

Result<void> PipelineStages::advance(llvm::Instruction* guard) {
  if (pipeline_.has_bulk()) {
    buffers_.full->touch(ctx_.ir, SharedBuffer::Access::kRead, kMultiBufferPhase);
    Value* parity = ctx_.ir.CreateLoad(ctx_.ir.getInt32Ty(), parity_);
    ctx_.target.bulk_engine()->wait(ctx_.ir, stage_address(*buffers_.full, kBarrierBytes, used_), parity);
  }
  if (pipeline_.is_all_bulk()) return {};
  if (pipeline_.is_through_registers()) {
    ctx_.target.program_barrier(ctx_.ir, ctx_.block);
    return fill(guard);
  }
  ctx_.target.async_wait(ctx_.ir, distance_ - 1);
  ctx_.target.group_publish(ctx_.ir);
  ctx_.target.program_barrier(ctx_.ir, ctx_.block);
  return fill(guard);
}

Result<void> PipelineStages::finish(llvm::Instruction* guard) {
  if (pipeline_.is_through_registers()) {
    if (pipeline_.stages == 1) ctx_.target.program_barrier(ctx_.ir, ctx_.block);
    put();
    return {};
  }
  if (!pipeline_.is_all_bulk()) return {};
  release();
  return refill(guard);
}

// Products that run on still read the stage of this iteration; they have left that of the last.
void PipelineStages::release() {
  if (!order_.drifts) return;
  Builder& ir = ctx_.ir;
  buffers_.free->touch(ir, SharedBuffer::Access::kWrite, kMultiBufferPhase);
  Value* chosen = ir.CreateIsNull(ctx_.lane);
  llvm::AllocaInst* left = current_;
  if (order_.runs_on) {
    left = last_;
    chosen = ir.CreateAnd(chosen, ir.CreateICmpSGE(ir.CreateLoad(ir.getInt32Ty(), last_), ir.getInt32(0)));
  }
  arrive_free(left, chosen);
  ir.CreateStore(ir.CreateLoad(ir.getInt32Ty(), current_), last_);
}

// The blocks of a cluster write each other's stages.
void PipelineStages::arrive_free(llvm::AllocaInst* left, Value* chosen) {
  Builder& ir = ctx_.ir;
  const BulkEngine& engine = *ctx_.target.bulk_engine();
  Value* barrier = stage_address(*buffers_.free, kBarrierBytes, left);
  engine.arrive(ir, barrier, chosen);
  if (ctx_.block.cluster == 1) return;
  engine.arrive_in_cluster(ir, barrier, ir.CreateXor(engine.number_in_cluster(ir), ir.getInt32(1)), chosen);
}

Result<void> PipelineStages::refill(llvm::Instruction* guard) {
  if (order_.is_fed) return {};
  if (order_.drifts) {
    wait_until_free();
  } else {
    ctx_.target.program_barrier(ctx_.ir, ctx_.block);
  }
  return fill(guard);
}

// Each thread waits for its own copies, also for those behind the loop's end, which fill stages with zeros: until a
// barrier another one's may still be under way, and the stages' memory is not free for what comes next.
void PipelineStages::end() {
  if (pipeline_.is_all_bulk() || pipeline_.is_through_registers()) return;
  ctx_.target.async_wait(ctx_.ir, 0);
  for (const SharedBuffer& buffer : buffers_.buffers)
    buffer.touch(ctx_.ir, SharedBuffer::Access::kWrite, kMultiBufferPhase);
}

void PipelineStages::release_last() {
  if (!ctx_.block.persistent || !order_.is_fed) return;
  if (!order_.late.empty()) return release();
  if (!order_.runs_on) return;
  Builder& ir = ctx_.ir;
  buffers_.free->touch(ir, SharedBuffer::Access::kWrite, kMultiBufferPhase);
  Value* any = ir.CreateICmpSGE(ir.CreateLoad(ir.getInt32Ty(), last_), ir.getInt32(0));
  arrive_free(last_, ir.CreateAnd(ir.CreateIsNull(ctx_.lane), any));
}

// Until the stage that is filled next has been left.
void PipelineStages::wait_for_stage() {
  Builder& ir = ctx_.ir;
  ctx_.target.bulk_engine()->wait(ir, stage_address(*buffers_.free, kBarrierBytes, filled_),
                                  ir.CreateLoad(ir.getInt32Ty(), filled_parity_));
}

// The warp that tells the engine.
void PipelineStages::wait_until_free() {
  Builder& ir = ctx_.ir;
  llvm::BasicBlock *wait = new_block(ctx_, "handover"), *after = new_block(ctx_, "handover.end");
  ir.CreateCondBr(ir.CreateIsNull(ctx_.warp), wait, after);
  ir.SetInsertPoint(wait);
  wait_for_stage();
  ir.CreateBr(after);
  ir.SetInsertPoint(after);
}

void PipelineStages::announce(Value* chosen, Value* enabled, bool late) {
  Builder& ir = ctx_.ir;
  int64_t bytes = 0;
  for (const StagedLoad& staged : pipeline_.loads) {
    if (!staged.bulk || order_.late.contains(staged.load) != late) continue;
    bytes += staged.bulk->box_bytes * static_cast<int64_t>(staged.bulk->boxes.size());
  }
  const BulkEngine& engine = *ctx_.target.bulk_engine();
  Value* barrier = stage_address(*buffers_.full, kBarrierBytes, filled_);
  buffers_.full->touch(ir, SharedBuffer::Access::kWrite, kMultiBufferPhase);
  engine.arrive_expecting(ir, barrier, bytes, ir.CreateAnd(chosen, enabled));
  // The other arrival ends the phase.
  if (!order_.late.empty()) engine.arrive(ir, barrier, ir.CreateAnd(chosen, ir.CreateNot(enabled)));
}

void PipelineStages::copy_in_bulk(const StagedLoad& staged, const SharedBuffer& multi_buffer, Value* base,
                                  Value* chosen) {
  Builder& ir = ctx_.ir;
  const BulkEngine& engine = *ctx_.target.bulk_engine();
  const std::vector<Value*> at = tile_coordinates(ctx_, staged.bulk->access);
  const auto alike = alike_.find(staged.load);
  Value *alone = chosen, *turn = nullptr;
  if (alike != alike_.end()) {
    alone = ir.CreateAnd(chosen, ir.CreateNot(alike->second));
    turn = ir.CreateIsNotNull(engine.number_in_cluster(ir));
  }
  for (const TileBox& box : staged.bulk->boxes) {
    BoxCopy copy{ctx_.tensor_map(*staged.load), at, nullptr};
    for (size_t i = 0; i < at.size(); ++i) {
      if (box.start[i] != 0)
        copy.coordinates[i] = ir.CreateAdd(at[i], ir.getInt32(static_cast<uint32_t>(box.start[i])));
    }
    copy.shared = ir.CreateConstGEP1_64(ir.getInt8Ty(), base, static_cast<uint64_t>(box.shared_bytes));
    multi_buffer.touch(ir, SharedBuffer::Access::kWrite, kMultiBufferPhase);
    Value* barrier = stage_address(*buffers_.full, kBarrierBytes, filled_);
    engine.load(ir, copy, barrier, alone);
    if (!turn) continue;
    turn = ir.CreateNot(turn);
    copy.for_cluster = true;
    engine.load(ir, copy, barrier, ir.CreateAnd(chosen, ir.CreateAnd(alike->second, turn)));
  }
}

// One stage's copies; none behind the end.
Result<void> PipelineStages::fill(llvm::Instruction* guard) {
  Builder& ir = ctx_.ir;
  Value* count = ir.CreateLoad(ir.getInt64Ty(), count_);
  if (auto done = copy_iteration(count, ir.CreateICmpSLT(count, range_.end), false, guard); !done) return done;
  if (!order_.late.empty()) {
    Value* last = ir.CreateSub(count, range_.step);
    Value* enabled = ir.CreateAnd(ir.CreateICmpSGE(last, range_.start), ir.CreateICmpSLT(last, range_.end));
    if (auto done = copy_iteration(last, enabled, true, guard); !done) return done;
  }
  if (!pipeline_.is_all_bulk()) ctx_.target.async_commit(ir);
  ir.CreateStore(ir.CreateAdd(count, range_.step), count_);
  if (!pipeline_.is_through_registers()) flip(filled_parity_, step(filled_));
  return {};
}

// One iteration's copies, by the addresses of that iteration.
Result<void> PipelineStages::copy_iteration(Value* count, Value* enabled, bool late, llvm::Instruction* guard) {
  Builder& ir = ctx_.ir;
  const dsl::Region& region = loop_.regions[0];
  ctx_.enter(region, guard, enabled);
  const auto lower = [&]() -> Result<void> {
    ctx_.define(region.args[0], {range_.index(ir, count, ctx_.type(region.args[0]).element)});
    for (size_t i = 0; i < ahead_.size(); ++i) ctx_.define(region.args[pipeline_.ahead[i] + 1], read(ctx_, ahead_[i]));
    for (const Op* op : pipeline_.slice) {
      if (auto done = lower_op(ctx_, *op); !done) return done;
    }
    if (pipeline_.has_bulk()) announce(copier_, enabled, late);
    held_.clear();
    for (size_t i = 0; i < buffers_.buffers.size(); ++i) {
      const StagedLoad& staged = pipeline_.loads[i];
      if (order_.late.contains(staged.load) != late) continue;
      if (staged.trip) {
        if (auto done = load(staged, enabled); !done) return done;
        continue;
      }
      Value* base = stage_address(buffers_.buffers[i], staged.panels.bytes, filled_);
      if (staged.bulk) {
        copy_in_bulk(staged, buffers_.buffers[i], base, ir.CreateAnd(copier_, enabled));
      } else if (auto done = copy(staged, buffers_.buffers[i], base, enabled); !done) {
        return done;
      }
    }
    return assign(ctx_, picked(region.ops.back().operands, pipeline_.ahead), ahead_);
  };
  auto done = lower();
  ctx_.leave();
  return done;
}

Result<void> PipelineStages::load(const StagedLoad& staged, Value* enabled) {
  auto registers = load_tile(ctx_, *staged.load, staged.copies, enabled);
  if (!registers) return registers.error();
  held_.push_back(std::move(*registers));
  return {};
}

void PipelineStages::put() {
  for (size_t i = 0; i < buffers_.buffers.size(); ++i) {
    const StagedLoad& staged = pipeline_.loads[i];
    const int bits = traveling_bits(ctx_.type(staged.load->results[0]));
    for (Value*& x : held_[i]) x = to_bits(ctx_, x, bits);
    const SharedPlace place{&buffers_.buffers[i], stage_address(buffers_.buffers[i], staged.panels.bytes, filled_),
                            kMultiBufferPhase};
    store_shared(ctx_, place, staged.trip->store, held_[i], bits);
  }
  step(filled_);
}

Result<void> PipelineStages::copy(const StagedLoad& staged, const SharedBuffer& multi_buffer, Value* base,
                                  Value* enabled) {
  Builder& ir = ctx_.ir;
  const Op& load = *staged.load;
  const Layout& layout = staged.copies;
  auto where = addresses(ctx_, load.operands[0], layout);
  if (!where) return where.error();
  auto masks = load.operands.size() > 1 ? ctx_.get(load.operands[1], layout) : Result<Registers>(Registers());
  if (!masks) return masks.error();
  const dsl::Type& type = ctx_.type(load.results[0]);
  const Layout offsets = compose(inverse(staged.panels.memory), layout);
  for (const Group& group : groups_of(layout, staged.vector, staged.panels.fast)) {
    GlobalAccess from;
    from.pointer = pointer_of(ctx_, (*where)[group[0]]);
    from.predicate = masks->empty() ? enabled : ir.CreateAnd((*masks)[group[0]], enabled);
    from.predicate = both(ir, from.predicate, ctx_.in_tile(layout, group[0], type));
    multi_buffer.touch(ir, SharedBuffer::Access::kWrite, kMultiBufferPhase);
    ctx_.target.async_copy(ir, shared_address(ctx_, base, offsets, group[0], dsl::info(type.element).bits), from,
                           static_cast<int>(staged.vector * dsl::info(type.element).bytes));
  }
  return {};
}

Value* PipelineStages::stage_address(const SharedBuffer& multi_buffer, int64_t bytes, llvm::AllocaInst* number) {
  Builder& ir = ctx_.ir;
  Value* offset = ir.CreateMul(ir.CreateLoad(ir.getInt32Ty(), number), ir.getInt32(static_cast<uint32_t>(bytes)));
  return ir.CreateGEP(ir.getInt8Ty(), multi_buffer.pointer(), offset);
}

Value* PipelineStages::step(llvm::AllocaInst* number) {
  Builder& ir = ctx_.ir;
  Value* next = ir.CreateAdd(ir.CreateLoad(ir.getInt32Ty(), number), ir.getInt32(1));
  Value* wraps = ir.CreateICmpEQ(next, ir.getInt32(static_cast<uint32_t>(pipeline_.stages)));
  ir.CreateStore(ir.CreateSelect(wraps, ir.getInt32(0), next), number);
  return wraps;
}

void PipelineStages::flip(llvm::AllocaInst* parity, Value* wraps) {
  Builder& ir = ctx_.ir;
  Value* old = ir.CreateLoad(ir.getInt32Ty(), parity);
  ir.CreateStore(ir.CreateXor(old, ir.CreateZExt(wraps, ir.getInt32Ty())), parity);
}

void PipelineStages::define() {
  Builder& ir = ctx_.ir;
  for (size_t i = 0; i < buffers_.buffers.size(); ++i) {
    const StagedLoad& staged = pipeline_.loads[i];
    Value* base = stage_address(buffers_.buffers[i], staged.panels.bytes, used_);
    ctx_.define_shared(staged.load->results[0], {staged.panels, buffers_.buffers[i], base, kMultiBufferPhase});
  }
  ir.CreateStore(ir.CreateLoad(ir.getInt32Ty(), used_), current_);
  flip(parity_, step(used_));
}

void PipelineStages::touch() {
  for (const SharedBuffer& multi_buffer : buffers_.buffers)
    multi_buffer.touch(ctx_.ir, SharedBuffer::Access::kRead, kMultiBufferPhase);
}

}  // namespace kiln::codegen::gpu
