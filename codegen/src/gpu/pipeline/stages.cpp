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

// Of all accesses of a ring: its order is the loop's affair, not that of barriers by hazard.
constexpr int kRingPhase = 0;
constexpr int64_t kBarrierBytes = 8;

// The last iteration's products may still read their slot at the head of the next one, and at its end if they run on.
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

Rings make_rings(Context& c, const Pipeline& pipeline, const StageOrder& order) {
  Builder& b = c.b;
  Rings out;
  constexpr auto kOf = SharedBuffer::Of::kBlock;
  for (const StagedLoad& staged : pipeline.loads) {
    out.slots.emplace_back(b, staged.panels.bytes * pipeline.stages, kOf);
  }
  if (!pipeline.has_bulk()) return out;
  out.full.emplace(b, kBarrierBytes * pipeline.stages, kOf);
  if (order.drifts) out.free.emplace(b, kBarrierBytes * pipeline.stages, kOf);
  if (c.block.crews > 1) out.turns.emplace(b, kBarrierBytes * c.block.crews, kOf);
  return out;
}

void init_rings(Context& c, const Rings& rings, const Pipeline& pipeline, const StageOrder& order, Value* chosen) {
  Builder& b = c.b;
  const BulkEngine& engine = *c.target.bulk_engine();
  const auto init = [&](const SharedBuffer& barriers, int count, int arrivals) {
    for (int i = 0; i < count; ++i) {
      Value* barrier =
          b.CreateConstGEP1_64(b.getInt8Ty(), barriers.pointer(), static_cast<uint64_t>(kBarrierBytes * i));
      barriers.touch(b, SharedBuffer::Access::kWrite, kRingPhase);
      engine.init_barrier(b, barrier, arrivals, chosen);
    }
  };
  init(*rings.full, pipeline.stages, order.late.empty() ? 1 : 2);
  if (rings.free) init(*rings.free, pipeline.stages, c.block.warps * c.block.cluster);
  if (rings.turns) init(*rings.turns, c.block.crews, 1);
  engine.publish_barriers(b);
}

Stages::Stages(Context& c, const Op& loop, const Pipeline& pipeline, const LoopRange& range, StageOrder order)
    : c_(c),
      loop_(loop),
      pipeline_(pipeline),
      range_(range),
      order_(std::move(order)),
      distance_(distance_of(pipeline, order_)) {
  if (c.rings.contains(&loop)) order_.is_fed = order_.drifts = true;
}

Result<void> Stages::begin() {
  start();
  const auto made = c_.rings.find(&loop_);
  if (order_.is_fed) {
    rings_ = made->second;
    if (c_.crew) {
      take_turn();
      pass_over_others();
    }
    return {};
  }
  rings_ = make_rings(c_, pipeline_, order_);
  copier_ = c_.b.CreateIsNull(c_.target.thread_id(c_.b));
  if (pipeline_.has_bulk()) {
    // In a loop around this one others may still wait for the barriers of the last time.
    if (!order_.late.empty()) c_.target.program_barrier(c_.b, c_.block);
    init_rings(c_, rings_, pipeline_, order_, copier_);
    c_.target.program_barrier(c_.b, c_.block);
  }
  ahead_ = make_variables(c_, picked(loop_.results, pipeline_.ahead));
  const auto inits = llvm::ArrayRef(loop_.operands).drop_front(3);
  if (auto done = assign(c_, picked(inits, pipeline_.ahead), ahead_); !done) return done;
  for (int i = 0; i < distance_; ++i) {
    if (auto done = fill(nullptr); !done) return done;
    if (pipeline_.is_through_registers()) put();
  }
  return {};
}

void Stages::start() {
  Builder& b = c_.b;
  llvm::IRBuilder<> entry(c_.prologue_end);
  const auto variable = [&](llvm::AllocaInst*& out, Value* first, llvm::IRBuilder<>& where) {
    out = entry.CreateAlloca(first->getType());
    where.CreateStore(first, out);
  };
  variable(count_, range_.start, b);
  variable(last_, b.getInt32(static_cast<uint32_t>(-1)), b);
  // Rings that warps of their own fill go on where the last program of a persistent block left them.
  llvm::IRBuilder<>& once = order_.is_fed ? entry : b;
  for (llvm::AllocaInst** zero : {&filled_, &used_, &parity_, &current_}) variable(*zero, b.getInt32(0), once);
  // A slot that was never filled is free.
  variable(filled_parity_, b.getInt32(1), once);
}

// A barrier tells one phase from the next alone: a crew that waited for slots before the others had waited for theirs
// of the program in front would take these for its own.
void Stages::take_turn() {
  Builder& b = c_.b;
  llvm::IRBuilder<> entry(c_.prologue_end);
  llvm::AllocaInst* parity = entry.CreateAlloca(b.getInt32Ty());
  entry.CreateStore(entry.CreateZExt(entry.CreateIsNull(c_.crew), b.getInt32Ty()), parity);  // the first need not wait
  rings_.turns->touch(b, SharedBuffer::Access::kRead, kRingPhase);
  c_.target.bulk_engine()->wait(b, turn_of(c_.crew), b.CreateLoad(b.getInt32Ty(), parity));
  flip(parity, b.getTrue());
}

void Stages::leave_turn() {
  Builder& b = c_.b;
  Value* next = b.CreateAdd(c_.crew, b.getInt32(1));
  next = b.CreateSelect(b.CreateICmpEQ(next, b.getInt32(static_cast<uint32_t>(c_.block.crews))), b.getInt32(0), next);
  rings_.turns->touch(b, SharedBuffer::Access::kWrite, kRingPhase);
  c_.target.bulk_engine()->arrive(b, turn_of(next), b.CreateIsNull(c_.thread));
}

Value* Stages::turn_of(Value* crew) {
  Builder& b = c_.b;
  Value* offset = b.CreateMul(crew, b.getInt32(static_cast<uint32_t>(kBarrierBytes)));
  return b.CreateGEP(b.getInt8Ty(), rings_.turns->pointer(), offset);
}

// The slots of the programs of other crews: at first of those in front, then of all others.
void Stages::pass_over_others() {
  Builder& b = c_.b;
  llvm::IRBuilder<> entry(c_.prologue_end);
  llvm::AllocaInst* programs = entry.CreateAlloca(b.getInt32Ty());
  entry.CreateStore(c_.crew, programs);
  Value* length = b.CreateSub(b.CreateAdd(range_.end, range_.step), b.CreateAdd(range_.start, b.getInt64(1)));
  Value* count = b.CreateTrunc(b.CreateSDiv(length, range_.step), b.getInt32Ty());
  count = b.CreateSelect(b.CreateICmpSLT(range_.start, range_.end), count, b.getInt32(0));
  if (!order_.late.empty()) count = b.CreateAdd(count, b.getInt32(1));
  Value* passed = b.CreateMul(count, b.CreateLoad(b.getInt32Ty(), programs));
  Value* at = b.CreateAdd(b.CreateLoad(b.getInt32Ty(), used_), passed);
  Value* stages = b.getInt32(static_cast<uint32_t>(pipeline_.stages));
  b.CreateStore(b.CreateURem(at, stages), used_);
  Value* turns = b.CreateAnd(b.CreateUDiv(at, stages), b.getInt32(1));
  b.CreateStore(b.CreateXor(b.CreateLoad(b.getInt32Ty(), parity_), turns), parity_);
  b.CreateStore(b.getInt32(static_cast<uint32_t>(c_.block.crews - 1)), programs);
}

//   loop: wait until the slot is free; copy; to the next slot
Result<void> Stages::copy_all() {
  Builder& b = c_.b;
  start();
  rings_ = c_.rings.at(&loop_);
  copier_ = b.getTrue();
  llvm::BasicBlock *loop = new_block(c_, "copy"), *after = new_block(c_, "copy.end");
  llvm::Instruction* guard = b.CreateCondBr(b.CreateICmpSLT(range_.start, range_.end), loop, after);
  b.SetInsertPoint(loop);
  wait_for_slot();
  if (auto done = fill(guard); !done) return done;
  // What is read an iteration late has a slot behind the last iteration's.
  Value* end = order_.late.empty() ? range_.end : b.CreateAdd(range_.end, range_.step);
  b.CreateCondBr(b.CreateICmpSLT(b.CreateLoad(b.getInt64Ty(), count_), end), loop, after);
  b.SetInsertPoint(after);
  return {};
}

void Stages::wait_until_all_free() {
  for (int i = 0; i < pipeline_.stages; ++i) {
    wait_for_slot();
    flip(filled_parity_, step(filled_));
  }
}

Result<void> Stages::advance(llvm::Instruction* guard) {
  if (pipeline_.has_bulk()) {
    rings_.full->touch(c_.b, SharedBuffer::Access::kRead, kRingPhase);
    Value* parity = c_.b.CreateLoad(c_.b.getInt32Ty(), parity_);
    c_.target.bulk_engine()->wait(c_.b, slot(*rings_.full, kBarrierBytes, used_), parity);
  }
  if (pipeline_.is_all_bulk()) return {};
  if (pipeline_.is_through_registers()) {
    c_.target.program_barrier(c_.b, c_.block);
    return fill(guard);
  }
  c_.target.async_wait(c_.b, distance_ - 1);
  c_.target.group_publish(c_.b);
  c_.target.program_barrier(c_.b, c_.block);
  return fill(guard);
}

Result<void> Stages::finish(llvm::Instruction* guard) {
  if (pipeline_.is_through_registers()) {
    if (pipeline_.stages == 1) c_.target.program_barrier(c_.b, c_.block);
    put();
    return {};
  }
  if (!pipeline_.is_all_bulk()) return {};
  release();
  return refill(guard);
}

// Products that run on still read the slot of this iteration; they have left that of the last.
void Stages::release() {
  if (!order_.drifts) return;
  Builder& b = c_.b;
  rings_.free->touch(b, SharedBuffer::Access::kWrite, kRingPhase);
  Value* chosen = b.CreateIsNull(c_.lane);
  llvm::AllocaInst* left = current_;
  if (order_.runs_on) {
    left = last_;
    chosen = b.CreateAnd(chosen, b.CreateICmpSGE(b.CreateLoad(b.getInt32Ty(), last_), b.getInt32(0)));
  }
  arrive_free(left, chosen);
  b.CreateStore(b.CreateLoad(b.getInt32Ty(), current_), last_);
}

// The blocks of a cluster write each other's slots.
void Stages::arrive_free(llvm::AllocaInst* left, Value* chosen) {
  Builder& b = c_.b;
  const BulkEngine& engine = *c_.target.bulk_engine();
  Value* barrier = slot(*rings_.free, kBarrierBytes, left);
  engine.arrive(b, barrier, chosen);
  if (c_.block.cluster == 1) return;
  engine.arrive_in_cluster(b, barrier, b.CreateXor(engine.number_in_cluster(b), b.getInt32(1)), chosen);
}

Result<void> Stages::refill(llvm::Instruction* guard) {
  if (order_.is_fed) return {};
  if (order_.drifts) {
    wait_until_free();
  } else {
    c_.target.program_barrier(c_.b, c_.block);
  }
  return fill(guard);
}

// Each thread waits for its own copies, also for those behind the loop's end, which fill slots with zeros: until a
// barrier another one's may still be under way, and the slots' memory is not free for what comes next.
void Stages::end() {
  if (pipeline_.is_all_bulk() || pipeline_.is_through_registers()) return;
  c_.target.async_wait(c_.b, 0);
  for (const SharedBuffer& slots : rings_.slots) slots.touch(c_.b, SharedBuffer::Access::kWrite, kRingPhase);
}

void Stages::release_last() {
  if (!c_.block.persistent || !order_.is_fed) return;
  if (!order_.late.empty()) return release();
  if (!order_.runs_on) return;
  Builder& b = c_.b;
  rings_.free->touch(b, SharedBuffer::Access::kWrite, kRingPhase);
  Value* any = b.CreateICmpSGE(b.CreateLoad(b.getInt32Ty(), last_), b.getInt32(0));
  arrive_free(last_, b.CreateAnd(b.CreateIsNull(c_.lane), any));
}

// Until the slot that is filled next has been left.
void Stages::wait_for_slot() {
  Builder& b = c_.b;
  c_.target.bulk_engine()->wait(b, slot(*rings_.free, kBarrierBytes, filled_),
                                b.CreateLoad(b.getInt32Ty(), filled_parity_));
}

// The warp that tells the engine.
void Stages::wait_until_free() {
  Builder& b = c_.b;
  llvm::BasicBlock *wait = new_block(c_, "handover"), *after = new_block(c_, "handover.end");
  b.CreateCondBr(b.CreateIsNull(c_.warp), wait, after);
  b.SetInsertPoint(wait);
  wait_for_slot();
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

void Stages::announce(Value* chosen, Value* enabled, bool late) {
  Builder& b = c_.b;
  int64_t bytes = 0;
  for (const StagedLoad& staged : pipeline_.loads) {
    if (!staged.bulk || order_.late.contains(staged.load) != late) continue;
    bytes += staged.bulk->box_bytes * static_cast<int64_t>(staged.bulk->boxes.size());
  }
  const BulkEngine& engine = *c_.target.bulk_engine();
  Value* barrier = slot(*rings_.full, kBarrierBytes, filled_);
  rings_.full->touch(b, SharedBuffer::Access::kWrite, kRingPhase);
  engine.arrive_expecting(b, barrier, bytes, b.CreateAnd(chosen, enabled));
  // The other arrival ends the phase.
  if (!order_.late.empty()) engine.arrive(b, barrier, b.CreateAnd(chosen, b.CreateNot(enabled)));
}

void Stages::copy_in_bulk(const StagedLoad& staged, const SharedBuffer& ring, Value* base, Value* chosen) {
  Builder& b = c_.b;
  const BulkEngine& engine = *c_.target.bulk_engine();
  const std::vector<Value*> at = tile_coordinates(c_, staged.bulk->access);
  const auto alike = alike_.find(staged.load);
  Value *alone = chosen, *turn = nullptr;
  if (alike != alike_.end()) {
    alone = b.CreateAnd(chosen, b.CreateNot(alike->second));
    turn = b.CreateIsNotNull(engine.number_in_cluster(b));
  }
  for (const TileBox& box : staged.bulk->boxes) {
    BoxCopy copy{c_.tensor_map(*staged.load), at, nullptr};
    for (size_t i = 0; i < at.size(); ++i) {
      if (box.start[i] != 0) copy.coordinates[i] = b.CreateAdd(at[i], b.getInt32(static_cast<uint32_t>(box.start[i])));
    }
    copy.shared = b.CreateConstGEP1_64(b.getInt8Ty(), base, static_cast<uint64_t>(box.shared_bytes));
    ring.touch(b, SharedBuffer::Access::kWrite, kRingPhase);
    Value* barrier = slot(*rings_.full, kBarrierBytes, filled_);
    engine.load(b, copy, barrier, alone);
    if (!turn) continue;
    turn = b.CreateNot(turn);
    copy.for_cluster = true;
    engine.load(b, copy, barrier, b.CreateAnd(chosen, b.CreateAnd(alike->second, turn)));
  }
}

// One slot's copies; none behind the end.
Result<void> Stages::fill(llvm::Instruction* guard) {
  Builder& b = c_.b;
  Value* count = b.CreateLoad(b.getInt64Ty(), count_);
  if (auto done = copy_iteration(count, b.CreateICmpSLT(count, range_.end), false, guard); !done) return done;
  if (!order_.late.empty()) {
    Value* last = b.CreateSub(count, range_.step);
    Value* enabled = b.CreateAnd(b.CreateICmpSGE(last, range_.start), b.CreateICmpSLT(last, range_.end));
    if (auto done = copy_iteration(last, enabled, true, guard); !done) return done;
  }
  if (!pipeline_.is_all_bulk()) c_.target.async_commit(b);
  b.CreateStore(b.CreateAdd(count, range_.step), count_);
  if (!pipeline_.is_through_registers()) flip(filled_parity_, step(filled_));
  return {};
}

// One iteration's copies, by the addresses of that iteration.
Result<void> Stages::copy_iteration(Value* count, Value* enabled, bool late, llvm::Instruction* guard) {
  Builder& b = c_.b;
  const dsl::Region& region = loop_.regions[0];
  c_.enter(region, guard, enabled);
  const auto lower = [&]() -> Result<void> {
    c_.define(region.args[0], {range_.index(b, count, c_.type(region.args[0]).element)});
    for (size_t i = 0; i < ahead_.size(); ++i) c_.define(region.args[pipeline_.ahead[i] + 1], read(c_, ahead_[i]));
    for (const Op* op : pipeline_.slice) {
      if (auto done = lower_op(c_, *op); !done) return done;
    }
    if (pipeline_.has_bulk()) announce(copier_, enabled, late);
    held_.clear();
    for (size_t i = 0; i < rings_.slots.size(); ++i) {
      const StagedLoad& staged = pipeline_.loads[i];
      if (order_.late.contains(staged.load) != late) continue;
      if (staged.trip) {
        if (auto done = load(staged, enabled); !done) return done;
        continue;
      }
      Value* base = slot(rings_.slots[i], staged.panels.bytes, filled_);
      if (staged.bulk) {
        copy_in_bulk(staged, rings_.slots[i], base, b.CreateAnd(copier_, enabled));
      } else if (auto done = copy(staged, rings_.slots[i], base, enabled); !done) {
        return done;
      }
    }
    return assign(c_, picked(region.ops.back().operands, pipeline_.ahead), ahead_);
  };
  auto done = lower();
  c_.leave();
  return done;
}

Result<void> Stages::load(const StagedLoad& staged, Value* enabled) {
  auto registers = load_tile(c_, *staged.load, staged.copies, enabled);
  if (!registers) return registers.error();
  held_.push_back(std::move(*registers));
  return {};
}

void Stages::put() {
  for (size_t i = 0; i < rings_.slots.size(); ++i) {
    const StagedLoad& staged = pipeline_.loads[i];
    const int bits = traveling_bits(c_.type(staged.load->results[0]));
    for (Value*& x : held_[i]) x = to_bits(c_, x, bits);
    const SharedPlace place{&rings_.slots[i], slot(rings_.slots[i], staged.panels.bytes, filled_), kRingPhase};
    store_shared(c_, place, staged.trip->store, held_[i], bits);
  }
  step(filled_);
}

Result<void> Stages::copy(const StagedLoad& staged, const SharedBuffer& ring, Value* base, Value* enabled) {
  Builder& b = c_.b;
  const Op& load = *staged.load;
  const Layout& layout = staged.copies;
  auto where = addresses(c_, load.operands[0], layout);
  if (!where) return where.error();
  auto masks = load.operands.size() > 1 ? c_.get(load.operands[1], layout) : Result<Registers>(Registers());
  if (!masks) return masks.error();
  const dsl::Type& type = c_.type(load.results[0]);
  const Layout offsets = compose(inverse(staged.panels.memory), layout);
  for (const Group& group : groups_of(layout, staged.vector, staged.panels.fast)) {
    GlobalAccess from;
    from.pointer = pointer_of(c_, (*where)[group[0]]);
    from.predicate = masks->empty() ? enabled : b.CreateAnd((*masks)[group[0]], enabled);
    from.predicate = both(b, from.predicate, c_.in_tile(layout, group[0], type));
    ring.touch(b, SharedBuffer::Access::kWrite, kRingPhase);
    c_.target.async_copy(b, shared_address(c_, base, offsets, group[0], dsl::info(type.element).bits), from,
                         static_cast<int>(staged.vector * dsl::info(type.element).bytes));
  }
  return {};
}

Value* Stages::slot(const SharedBuffer& ring, int64_t bytes, llvm::AllocaInst* number) {
  Builder& b = c_.b;
  Value* offset = b.CreateMul(b.CreateLoad(b.getInt32Ty(), number), b.getInt32(static_cast<uint32_t>(bytes)));
  return b.CreateGEP(b.getInt8Ty(), ring.pointer(), offset);
}

Value* Stages::step(llvm::AllocaInst* number) {
  Builder& b = c_.b;
  Value* next = b.CreateAdd(b.CreateLoad(b.getInt32Ty(), number), b.getInt32(1));
  Value* wraps = b.CreateICmpEQ(next, b.getInt32(static_cast<uint32_t>(pipeline_.stages)));
  b.CreateStore(b.CreateSelect(wraps, b.getInt32(0), next), number);
  return wraps;
}

void Stages::flip(llvm::AllocaInst* parity, Value* wraps) {
  Builder& b = c_.b;
  Value* old = b.CreateLoad(b.getInt32Ty(), parity);
  b.CreateStore(b.CreateXor(old, b.CreateZExt(wraps, b.getInt32Ty())), parity);
}

void Stages::define() {
  Builder& b = c_.b;
  for (size_t i = 0; i < rings_.slots.size(); ++i) {
    const StagedLoad& staged = pipeline_.loads[i];
    Value* base = slot(rings_.slots[i], staged.panels.bytes, used_);
    c_.define_shared(staged.load->results[0], {staged.panels, rings_.slots[i], base, kRingPhase});
  }
  b.CreateStore(b.CreateLoad(b.getInt32Ty(), used_), current_);
  flip(parity_, step(used_));
}

void Stages::touch() {
  for (const SharedBuffer& ring : rings_.slots) ring.touch(c_.b, SharedBuffer::Access::kRead, kRingPhase);
}

}  // namespace kiln::codegen::gpu
