#include "gpu/stages.h"

#include <algorithm>

#include "gpu/layout/algebra.h"
#include "gpu/shared_access.h"

namespace kiln::codegen::gpu {
namespace {

// Of all accesses of a ring: its order is the loop's affair, not that of barriers by hazard.
constexpr int kRingPhase = 0;

std::vector<ValueId> picked(llvm::ArrayRef<ValueId> ids, const std::vector<size_t>& numbers) {
  std::vector<ValueId> out;
  for (size_t i : numbers) out.push_back(ids[i]);
  return out;
}

}  // namespace

Stages::Stages(Context& c, const Op& loop, const Pipeline& pipeline, const LoopRange& range, bool runs_on)
    : c_(c),
      loop_(loop),
      pipeline_(pipeline),
      range_(range),
      distance_(std::max(1, pipeline.stages - (runs_on ? 2 : 1))) {}

Result<void> Stages::begin() {
  llvm::IRBuilder<> entry(c_.prologue_end);
  index_ = entry.CreateAlloca(entry.getInt64Ty());
  filled_ = entry.CreateAlloca(entry.getInt32Ty());
  used_ = entry.CreateAlloca(entry.getInt32Ty());
  c_.b.CreateStore(range_.start, index_);
  c_.b.CreateStore(c_.b.getInt32(0), filled_);
  c_.b.CreateStore(c_.b.getInt32(0), used_);
  for (const StagedLoad& staged : pipeline_.loads) {
    rings_.emplace_back(c_.b, staged.panels.bytes * pipeline_.stages);
  }
  ahead_ = make_variables(c_, picked(loop_.results, pipeline_.ahead));
  const auto inits = llvm::ArrayRef(loop_.operands).drop_front(3);
  if (auto done = assign(c_, picked(inits, pipeline_.ahead), ahead_); !done) return done;
  for (int i = 0; i < distance_; ++i) {
    if (auto done = fill(nullptr); !done) return done;
  }
  return {};
}

Result<void> Stages::advance(llvm::Instruction* guard) {
  c_.target.async_wait(c_.b, distance_ - 1);
  c_.target.group_publish(c_.b);
  c_.target.barrier(c_.b);
  return fill(guard);
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
    for (size_t i = 0; i < rings_.size(); ++i) {
      const StagedLoad& staged = pipeline_.loads[i];
      if (auto done = copy(staged, rings_[i], slot(rings_[i], staged, filled_), enabled); !done) return done;
    }
    return assign(c_, picked(region.ops.back().operands, pipeline_.ahead), ahead_);
  };
  auto done = lower();
  c_.leave();
  if (!done) return done;
  c_.target.async_commit(b);
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

Value* Stages::slot(const SharedBuffer& ring, const StagedLoad& staged, llvm::AllocaInst* number) {
  Builder& b = c_.b;
  Value* offset =
      b.CreateMul(b.CreateLoad(b.getInt32Ty(), number), b.getInt32(static_cast<uint32_t>(staged.panels.bytes)));
  return b.CreateGEP(b.getInt8Ty(), ring.pointer(), offset);
}

void Stages::step(llvm::AllocaInst* number) {
  Builder& b = c_.b;
  Value* next = b.CreateAdd(b.CreateLoad(b.getInt32Ty(), number), b.getInt32(1));
  Value* wraps = b.CreateICmpEQ(next, b.getInt32(static_cast<uint32_t>(pipeline_.stages)));
  b.CreateStore(b.CreateSelect(wraps, b.getInt32(0), next), number);
}

void Stages::define() {
  for (size_t i = 0; i < rings_.size(); ++i) {
    const StagedLoad& staged = pipeline_.loads[i];
    c_.define_shared(staged.load->results[0], {staged.panels, rings_[i], slot(rings_[i], staged, used_), kRingPhase});
  }
  step(used_);
}

}  // namespace kiln::codegen::gpu
