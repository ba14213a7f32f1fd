#include "gpu/stages.h"

#include <algorithm>

#include "gpu/layout/algebra.h"
#include "gpu/register_groups.h"
#include "gpu/shared_access.h"

namespace kiln::codegen::gpu {
namespace {

// Of all accesses of a ring: its order is the loop's affair, not that of barriers by hazard.
constexpr int kRingPhase = 0;
constexpr int64_t kBarrierBytes = 8;

// The last iteration's products may still read their slot at the head of the next one, and at its end if they run on.
int distance_of(const Pipeline& pipeline, bool runs_on) {
  const int busy = (pipeline.is_all_bulk() ? 0 : 1) + (runs_on ? 1 : 0);
  return std::max(1, pipeline.stages - busy);
}

std::vector<ValueId> picked(llvm::ArrayRef<ValueId> ids, const std::vector<size_t>& numbers) {
  std::vector<ValueId> out;
  for (size_t i : numbers) out.push_back(ids[i]);
  return out;
}

}  // namespace

Stages::Stages(Context& c, const Op& loop, const Pipeline& pipeline, const LoopRange& range, bool runs_on)
    : c_(c), loop_(loop), pipeline_(pipeline), range_(range), distance_(distance_of(pipeline, runs_on)) {}

Result<void> Stages::begin() {
  llvm::IRBuilder<> entry(c_.prologue_end);
  index_ = entry.CreateAlloca(entry.getInt64Ty());
  filled_ = entry.CreateAlloca(entry.getInt32Ty());
  used_ = entry.CreateAlloca(entry.getInt32Ty());
  parity_ = entry.CreateAlloca(entry.getInt32Ty());
  c_.b.CreateStore(range_.start, index_);
  c_.b.CreateStore(c_.b.getInt32(0), filled_);
  c_.b.CreateStore(c_.b.getInt32(0), used_);
  c_.b.CreateStore(c_.b.getInt32(0), parity_);
  for (const StagedLoad& staged : pipeline_.loads) {
    rings_.emplace_back(c_.b, staged.panels.bytes * pipeline_.stages);
  }
  if (pipeline_.has_bulk()) make_barriers();
  ahead_ = make_variables(c_, picked(loop_.results, pipeline_.ahead));
  const auto inits = llvm::ArrayRef(loop_.operands).drop_front(3);
  if (auto done = assign(c_, picked(inits, pipeline_.ahead), ahead_); !done) return done;
  for (int i = 0; i < distance_; ++i) {
    if (auto done = fill(nullptr); !done) return done;
  }
  return {};
}

Result<void> Stages::advance(llvm::Instruction* guard) {
  if (pipeline_.has_bulk()) {
    barriers_->touch(c_.b, SharedBuffer::Access::kRead, kRingPhase);
    Value* parity = c_.b.CreateLoad(c_.b.getInt32Ty(), parity_);
    c_.target.bulk_engine()->wait(c_.b, slot(*barriers_, kBarrierBytes, used_), parity);
  }
  if (pipeline_.is_all_bulk()) return {};
  c_.target.async_wait(c_.b, distance_ - 1);
  c_.target.group_publish(c_.b);
  c_.target.barrier(c_.b);
  return fill(guard);
}

Result<void> Stages::finish(llvm::Instruction* guard) {
  if (!pipeline_.is_all_bulk()) return {};
  c_.target.barrier(c_.b);
  return fill(guard);
}

void Stages::make_barriers() {
  Builder& b = c_.b;
  const BulkEngine& engine = *c_.target.bulk_engine();
  barriers_.emplace(b, kBarrierBytes * pipeline_.stages);
  Value* chosen = b.CreateIsNull(c_.target.thread_id(b));
  for (int i = 0; i < pipeline_.stages; ++i) {
    Value* barrier =
        b.CreateConstGEP1_64(b.getInt8Ty(), barriers_->pointer(), static_cast<uint64_t>(kBarrierBytes * i));
    barriers_->touch(b, SharedBuffer::Access::kWrite, kRingPhase);
    engine.init_barrier(b, barrier, 1, chosen);
  }
  engine.publish_shared(b);
  c_.target.barrier(b);
}

void Stages::announce(Value* chosen) {
  int64_t bytes = 0;
  for (const StagedLoad& staged : pipeline_.loads) {
    if (staged.bulk) bytes += staged.bulk->box_bytes * static_cast<int64_t>(staged.bulk->boxes.size());
  }
  barriers_->touch(c_.b, SharedBuffer::Access::kWrite, kRingPhase);
  c_.target.bulk_engine()->arrive_expecting(c_.b, slot(*barriers_, kBarrierBytes, filled_), bytes, chosen);
}

void Stages::copy_in_bulk(const StagedLoad& staged, const SharedBuffer& ring, Value* base, Value* chosen) {
  Builder& b = c_.b;
  const std::vector<Value*> at = tile_coordinates(c_, staged.bulk->access);
  for (const TileBox& box : staged.bulk->boxes) {
    BoxCopy copy{c_.tensor_map(*staged.load), at, nullptr};
    for (size_t i = 0; i < at.size(); ++i) {
      if (box.start[i] != 0) copy.coordinates[i] = b.CreateAdd(at[i], b.getInt32(static_cast<uint32_t>(box.start[i])));
    }
    copy.shared = b.CreateConstGEP1_64(b.getInt8Ty(), base, static_cast<uint64_t>(box.shared_bytes));
    ring.touch(b, SharedBuffer::Access::kWrite, kRingPhase);
    c_.target.bulk_engine()->load(b, copy, slot(*barriers_, kBarrierBytes, filled_), chosen);
  }
}

// One iteration's copies, by the addresses of that iteration; none behind the end.
Result<void> Stages::fill(llvm::Instruction* guard) {
  Builder& b = c_.b;
  const dsl::Region& region = loop_.regions[0];
  Value* index = b.CreateLoad(b.getInt64Ty(), index_);
  Value* enabled = b.CreateICmpSLT(index, range_.end);
  c_.enter(region, guard);
  const auto lower = [&]() -> Result<void> {
    const unsigned bits = static_cast<unsigned>(dsl::info(c_.type(region.args[0]).element).bits);
    c_.define(region.args[0], {b.CreateTrunc(index, b.getIntNTy(bits))});
    for (size_t i = 0; i < ahead_.size(); ++i) c_.define(region.args[pipeline_.ahead[i] + 1], read(c_, ahead_[i]));
    for (const Op* op : pipeline_.slice) {
      if (auto done = lower_op(c_, *op); !done) return done;
    }
    Value* chosen = nullptr;
    if (pipeline_.has_bulk()) {
      chosen = b.CreateAnd(b.CreateIsNull(c_.target.thread_id(b)), enabled);
      announce(chosen);
    }
    for (size_t i = 0; i < rings_.size(); ++i) {
      const StagedLoad& staged = pipeline_.loads[i];
      Value* base = slot(rings_[i], staged.panels.bytes, filled_);
      if (staged.bulk) {
        copy_in_bulk(staged, rings_[i], base, chosen);
      } else if (auto done = copy(staged, rings_[i], base, enabled); !done) {
        return done;
      }
    }
    return assign(c_, picked(region.ops.back().operands, pipeline_.ahead), ahead_);
  };
  auto done = lower();
  c_.leave();
  if (!done) return done;
  if (!pipeline_.is_all_bulk()) c_.target.async_commit(b);
  b.CreateStore(b.CreateAdd(index, range_.step), index_);
  step(filled_);
  return {};
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

void Stages::define() {
  Builder& b = c_.b;
  for (size_t i = 0; i < rings_.size(); ++i) {
    const StagedLoad& staged = pipeline_.loads[i];
    Value* base = slot(rings_[i], staged.panels.bytes, used_);
    c_.define_shared(staged.load->results[0], {staged.panels, rings_[i], base, kRingPhase});
  }
  Value* wraps = step(used_);
  Value* parity = b.CreateLoad(b.getInt32Ty(), parity_);
  b.CreateStore(b.CreateXor(parity, b.CreateZExt(wraps, b.getInt32Ty())), parity_);
}

}  // namespace kiln::codegen::gpu
