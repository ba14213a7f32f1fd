#include "gpu/pipeline/copying_warps.h"

#include <algorithm>

#include "gpu/analysis/program_factors.h"
#include "gpu/control.h"
#include "gpu/pipeline/cluster.h"
#include "gpu/pipeline/persistent.h"
#include "gpu/pipeline/stages.h"
#include "gpu/region.h"
#include "gpu/variables.h"
#include "kiln/dsl/traits.h"
#include "passes/pointers.h"

namespace kiln::codegen::gpu {
namespace {

// The ops before a loop that its copies need.
class Slice {
 public:
  Slice(const dsl::Kernel& kernel, const Placement& placement)
      : kernel_(kernel), placement_(placement), pointers_(kernel), definition_(kernel.values.size()) {
    for (const Op& op : kernel.body.ops) {
      for (ValueId id : op.results) definition_[id] = &op;
    }
  }

  // In program order; nothing where one of them is more than a scalar's computation.
  std::optional<std::vector<const Op*>> of(const Op& loop, const Pipeline& pipeline) {
    std::vector<ValueId> open(loop.operands.begin(), loop.operands.begin() + 3);
    const auto add_operands = [&](const Op& op) { open.insert(open.end(), op.operands.begin(), op.operands.end()); };
    for (const Op* op : pipeline.slice) add_operands(*op);
    for (const StagedLoad& staged : pipeline.loads) add_operands(*staged.load);
    for (const StagedLoad& factor : pipeline.factors) add_operands(*factor.load);
    std::set<const Op*> found;
    while (!open.empty()) {
      const Op* op = definition_[open.back()];
      open.pop_back();
      if (!op || !found.insert(op).second) continue;
      if (!is_simple(*op)) return std::nullopt;
      add_operands(*op);
    }
    std::vector<const Op*> out;
    for (const Op& op : kernel_.body.ops) {
      if (found.contains(&op)) out.push_back(&op);
    }
    return out;
  }

 private:
  bool is_simple(const Op& op) const {
    const auto is_scalar_or_view = [&](ValueId id) { return kernel_.type(id).is_scalar() || !placement_.home[id]; };
    if (!op.regions.empty() || !std::ranges::all_of(op.results, is_scalar_or_view)) return false;
    if (op.code != OpCode::kLoad) return is_pure(op);
    const auto param = pointers_.parameter(op.operands[0]);
    return param && kernel_.params[*param].readonly && !kernel_.params[*param].may_alias;
  }

  const dsl::Kernel& kernel_;
  const Placement& placement_;
  const Pointers pointers_;
  std::vector<const Op*> definition_;  // of the kernel's outermost region
};

Result<void> lower_copies(Context& c, const Op& loop, const Pipeline& pipeline, const StageOrder& order) {
  const auto slice = Slice(c.kernel, c.placement).of(loop, pipeline);
  const auto lower_slice = [&]() -> Result<void> {
    for (const Op* op : *slice) {
      if (auto done = lower_op(c, *op); !done) return done;
    }
    return {};
  };
  llvm::AllocaInst* parity = c.factors ? begin_factors(c, true) : nullptr;
  std::optional<Stages> stages;
  const auto copy = [&](std::map<const Op*, Value*> alike) {
    if (parity) copy_factors(c, pipeline, parity);
    stages.emplace(c, loop, pipeline, range_of(c, loop), order);
    stages->share(std::move(alike));
    return stages->copy_all();
  };
  if (!c.block.persistent) {
    auto done = lower_slice();
    return done ? copy({}) : done;
  }
  const ProgramLoop programs = begin_programs(c, ProgramRole::kCopies);
  const auto lower = [&]() -> Result<void> {
    if (c.block.cluster == 1) {
      auto done = lower_slice();
      return done ? copy({}) : done;
    }
    auto alike = find_alike(c, pipeline, programs.number, lower_slice);
    return alike ? copy(std::move(*alike)) : alike.error();
  };
  auto done = lower();
  end_programs(c, programs);
  // The other block says in this one's memory that it has left a slot.
  if (done && c.block.cluster > 1) stages->wait_until_all_free();
  return done;
}

// By the thread that copies, where a block starts. Products wait for the first copies: what these want comes first.
void init_shared(Context& c, const Op& loop, const Pipeline& pipeline, const StageOrder& order) {
  for (Value* map : c.tensor_maps) c.target.bulk_engine()->prefetch_map(c.b, map, nullptr);
  if (c.queue) init_program_queue(c, *c.queue, nullptr);
  if (c.factors) init_factor_places(c, *c.factors, nullptr);
  init_rings(c, c.rings.at(&loop), pipeline, order, nullptr);
}

}  // namespace

const Op* loop_for_copying_warps(const dsl::Kernel& kernel, const Placement& placement) {
  if (placement.pipelines.size() != 1) return nullptr;
  const auto& [loop, pipeline] = *placement.pipelines.begin();
  const bool is_outermost = std::ranges::any_of(kernel.body.ops, [&](const Op& op) { return &op == loop; });
  if (!is_outermost || !pipeline.is_all_bulk() || !pipeline.ahead.empty()) return nullptr;
  return Slice(kernel, placement).of(*loop, pipeline) ? loop : nullptr;
}

Result<void> begin_copying_warps(Context& c, const Op& loop) {
  Builder& b = c.b;
  const BulkEngine& engine = *c.target.bulk_engine();
  const Pipeline& pipeline = c.placement.pipelines.at(&loop);
  StageOrder order = stage_order(c, loop, pipeline);
  order.is_fed = order.drifts = true;
  if (c.block.queued) c.queue.emplace(make_program_queue(c));
  if (!pipeline.factors.empty()) c.factors.emplace(make_factor_places(c, pipeline));
  c.rings.emplace(&loop, make_rings(c, pipeline, order));
  llvm::BasicBlock *copying = new_block(c, "copying"), *start = new_block(c, "copying.start"),
                   *started = new_block(c, "copying.started"), *one = new_block(c, "copying.one"),
                   *done = new_block(c, "copying.end"), *computing = new_block(c, "computing");
  Value* thread = c.target.thread_id(b);
  Value* first = b.getInt32(static_cast<uint32_t>(c.block.computing_threads()));
  Value* warp_first = b.getInt32(static_cast<uint32_t>(c.block.computing_threads() / c.block.lanes));
  Value* warp = c.target.warp_uniform(b, b.CreateUDiv(thread, b.getInt32(static_cast<uint32_t>(c.block.lanes))));
  b.CreateCondBr(b.CreateICmpUGE(warp, warp_first), copying, computing);

  b.SetInsertPoint(copying);
  engine.begin_copying(b, c.block);
  Value* is_first = b.CreateICmpEQ(thread, first);
  b.CreateCondBr(is_first, start, started);
  b.SetInsertPoint(start);
  init_shared(c, loop, pipeline, order);
  b.CreateBr(started);
  b.SetInsertPoint(started);
  // The blocks of a cluster write each other's slots.
  const bool waits = c.block.cluster > 1;
  waits ? engine.cluster_barrier(b) : engine.arrive_at_block_barrier(b, c.block);
  b.CreateCondBr(is_first, one, done);
  b.SetInsertPoint(one);
  Scope before = c.scope();
  if (auto lowered = lower_copies(c, loop, pipeline, order); !lowered) return lowered;
  c.restore(std::move(before));
  b.CreateBr(done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();

  b.SetInsertPoint(computing);
  engine.begin_computing(b, c.block);
  waits ? engine.cluster_barrier(b) : engine.block_barrier(b, c.block);
  return {};
}

}  // namespace kiln::codegen::gpu
