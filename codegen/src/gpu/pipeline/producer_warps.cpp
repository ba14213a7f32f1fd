#include "gpu/pipeline/producer_warps.h"

#include <algorithm>

#include "gpu/analysis/program_operands.h"
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
    for (const StagedLoad& operand : pipeline.program_operands) add_operands(*operand.load);
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

Result<void> lower_copies(Context& ctx, const Op& loop, const Pipeline& pipeline, const StageOrder& order) {
  const auto slice = Slice(ctx.kernel, ctx.placement).of(loop, pipeline);
  const auto lower_slice = [&]() -> Result<void> {
    for (const Op* op : *slice) {
      if (auto done = lower_op(ctx, *op); !done) return done;
    }
    return {};
  };
  llvm::AllocaInst* parity = ctx.program_operands ? begin_operands(ctx, true) : nullptr;
  std::optional<PipelineStages> stages;
  const auto copy = [&](std::map<const Op*, Value*> alike) {
    if (parity) copy_operands(ctx, pipeline, parity);
    stages.emplace(ctx, loop, pipeline, range_of(ctx, loop), order);
    stages->share(std::move(alike));
    return stages->copy_all();
  };
  if (!ctx.block.persistent) {
    auto done = lower_slice();
    return done ? copy({}) : done;
  }
  const ProgramLoop programs = begin_programs(ctx, ProgramRole::kProduces);
  const auto lower = [&]() -> Result<void> {
    if (ctx.block.cluster == 1) {
      auto done = lower_slice();
      return done ? copy({}) : done;
    }
    auto alike = find_alike(ctx, pipeline, programs.number, lower_slice);
    return alike ? copy(std::move(*alike)) : alike.error();
  };
  auto done = lower();
  end_programs(ctx, programs);
  // The other block says in this one's memory that it has left a stage.
  if (done && ctx.block.cluster > 1) stages->wait_until_all_free();
  return done;
}

// By the thread that copies, where a block starts. Products wait for the first copies: what these want comes first.
void init_shared(Context& ctx, const Op& loop, const Pipeline& pipeline, const StageOrder& order) {
  for (Value* map : ctx.tensor_maps) ctx.target.bulk_engine()->prefetch_map(ctx.ir, map, nullptr);
  if (ctx.queue) init_program_queue(ctx, *ctx.queue, nullptr);
  if (ctx.program_operands) init_operand_places(ctx, *ctx.program_operands, nullptr);
  init_multi_buffers(ctx, ctx.multi_buffers.at(&loop), pipeline, order, nullptr);
}

}  // namespace

const Op* loop_for_producer_warps(const dsl::Kernel& kernel, const Placement& placement) {
  if (placement.pipelines.size() != 1) return nullptr;
  const auto& [loop, pipeline] = *placement.pipelines.begin();
  const bool is_outermost = std::ranges::any_of(kernel.body.ops, [&](const Op& op) { return &op == loop; });
  if (!is_outermost || !pipeline.is_all_bulk() || !pipeline.ahead.empty()) return nullptr;
  return Slice(kernel, placement).of(*loop, pipeline) ? loop : nullptr;
}

Result<void> begin_producer_warps(Context& ctx, const Op& loop) {
  Builder& ir = ctx.ir;
  const BulkEngine& engine = *ctx.target.bulk_engine();
  const Pipeline& pipeline = ctx.placement.pipelines.at(&loop);
  StageOrder order = stage_order(ctx, loop, pipeline);
  order.is_fed = order.drifts = true;
  if (ctx.block.queued) ctx.queue.emplace(make_program_queue(ctx));
  if (!pipeline.program_operands.empty()) ctx.program_operands.emplace(make_operand_places(ctx, pipeline));
  ctx.multi_buffers.emplace(&loop, make_multi_buffers(ctx, pipeline, order));
  llvm::BasicBlock *producing = new_block(ctx, "copying"), *start = new_block(ctx, "copying.start"),
                   *started = new_block(ctx, "copying.started"), *one = new_block(ctx, "copying.one"),
                   *done = new_block(ctx, "copying.end"), *computing = new_block(ctx, "computing");
  Value* thread = ctx.target.thread_id(ir);
  Value* first = ir.getInt32(static_cast<uint32_t>(ctx.block.computing_threads()));
  Value* warp_first = ir.getInt32(static_cast<uint32_t>(ctx.block.computing_threads() / ctx.block.lanes));
  Value* warp = ctx.target.warp_uniform(ir, ir.CreateUDiv(thread, ir.getInt32(static_cast<uint32_t>(ctx.block.lanes))));
  ir.CreateCondBr(ir.CreateICmpUGE(warp, warp_first), producing, computing);

  ir.SetInsertPoint(producing);
  engine.begin_producing(ir, ctx.block);
  Value* is_first = ir.CreateICmpEQ(thread, first);
  ir.CreateCondBr(is_first, start, started);
  ir.SetInsertPoint(start);
  init_shared(ctx, loop, pipeline, order);
  ir.CreateBr(started);
  ir.SetInsertPoint(started);
  // The blocks of a cluster write each other's stages.
  const bool waits = ctx.block.cluster > 1;
  waits ? engine.cluster_barrier(ir) : engine.arrive_at_block_barrier(ir, ctx.block);
  ir.CreateCondBr(is_first, one, done);
  ir.SetInsertPoint(one);
  Scope before = ctx.scope();
  if (auto lowered = lower_copies(ctx, loop, pipeline, order); !lowered) return lowered;
  ctx.restore(std::move(before));
  ir.CreateBr(done);
  ir.SetInsertPoint(done);
  ir.CreateRetVoid();

  ir.SetInsertPoint(computing);
  engine.begin_computing(ir, ctx.block);
  waits ? engine.cluster_barrier(ir) : engine.block_barrier(ir, ctx.block);
  return {};
}

}  // namespace kiln::codegen::gpu
