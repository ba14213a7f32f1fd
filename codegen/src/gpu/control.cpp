// for, while and if. All conditions are scalars, the same in all threads, so a block stays together. Carried registers
// live in allocas that LLVM promotes.
#include "gpu/control.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "gpu/analysis/deferred_reductions.h"
#include "gpu/dot/dot_layouts.h"
#include "gpu/dot/group_dot.h"
#include "gpu/dot/tensor_memory.h"
#include "gpu/pipeline/early_loads.h"
#include "gpu/pipeline/pipelined_dot.h"
#include "gpu/region.h"
#include "gpu/variables.h"
#include "kiln/dsl/walk.h"

namespace kiln::codegen::gpu {
namespace {

void define_from(Context& ctx, llvm::ArrayRef<ValueId> ids, const std::vector<Variable>& variables) {
  for (size_t i = 0; i < ids.size(); ++i) ctx.define(ids[i], read(ctx, variables[i]));
}

// A region in the block where the builder stands; `guard` ends the block before it.
Result<void> lower_inside(Context& ctx, const dsl::Region& region, llvm::Instruction* guard,
                          llvm::function_ref<Result<void>()> body) {
  ctx.enter(region, guard);
  Result<void> done = body();
  ctx.leave();
  return done;
}

// What runs on goes to the next iteration as it is, once what the last one left has ended.
Result<void> end_iteration(Context& ctx, llvm::ArrayRef<ValueId> yielded, const std::vector<Variable>& carried) {
  const int running = ctx.pending_groups();
  auto done = assign(ctx, yielded, carried);
  if (running > 0) ctx.wait_for_groups(running);
  ctx.wait_for_all();
  return done;
}

// What a branch reads, or what that is made of, is there before; other products run on beside it.
void wait_for_uses_in(Context& ctx, const dsl::Region& region) {
  if (ctx.pending_groups() == 0) return;
  std::set<ValueId> seen;
  std::vector<ValueId> open;  // the next one last
  const auto add_operands = [&](const auto& part) {
    const auto before = static_cast<ptrdiff_t>(open.size());
    dsl::for_each_op(part, [&](const Op& op) { open.insert(open.end(), op.operands.begin(), op.operands.end()); });
    std::reverse(open.begin() + before, open.end());
  };
  add_operands(region);
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    if (ctx.is_pending(id)) static_cast<void>(ctx.get(id));
    if (const Op* from = ctx.definition[id]) add_operands(*from);
  }
}

// The numbers of carried values that come from products of several warps and are yielded by themselves alone: they may
// run into the next iteration.
std::vector<size_t> running_on(Context& ctx, const Op& loop) {
  const dsl::Region& region = loop.regions[0];
  const std::vector<ValueId>& yielded = region.ops.back().operands;
  std::vector<size_t> out;
  for (size_t i = 0; i < yielded.size(); ++i) {
    const Op* dot = ctx.definition[yielded[i]];
    if (!dot || dot->code != OpCode::kDot || ctx.region_of(yielded[i]) != &region || ctx.uses(yielded[i]) != 1)
      continue;
    if (!dot_layouts(ctx.kernel, *dot, ctx.target, ctx.block).group) continue;
    if (ctx.placement.home[yielded[i]] == ctx.placement.home[loop.results[i]]) out.push_back(i);
  }
  return out;
}

// Where products sum up in tensor memory: what a loop carries into its first one is put there.
void begin_in_tensor_memory(Context& ctx, const Op& dot, std::array<ValueId, 2> sums, const Variable& carried) {
  if (!ctx.tensor_memory) return;
  const DotGroup group = *dot_layouts(ctx.kernel, dot, ctx.target, ctx.block).group;
  ctx.tensor_memory->store(group, read(ctx, carried));
  for (ValueId id : sums) ctx.tensor_memory->keep(id, group);
}

void finish_deferred_reductions(Context& ctx, const Op& loop,
                                const std::vector<DeferredReduction>& deferred_reductions) {
  for (const DeferredReduction& deferred : deferred_reductions) {
    const ValueId id = loop.results[deferred.carried];
    ctx.define(id, finish_deferred_reduction(ctx, deferred, *ctx.get(id)));
  }
}

}  // namespace

StageOrder stage_order(Context& ctx, const Op& loop, const Pipeline& pipeline) {
  const std::vector<size_t> run_on = running_on(ctx, loop);
  if (const auto pipelined = plan_pipelined_dot(ctx, loop, pipeline, run_on)) return order_of(ctx, *pipelined);
  return {.runs_on = !run_on.empty()};
}

Result<void> lower_for(Context& ctx, const Op& op) {
  Builder& ir = ctx.ir;
  ctx.wait_for_all();
  const dsl::Region& region = op.regions[0];
  const auto arguments = llvm::ArrayRef(region.args).drop_front();
  const std::vector<ValueId>& yielded = region.ops.back().operands;
  std::vector<size_t> run_on = running_on(ctx, op);
  const std::vector<DeferredReduction> deferred_reductions = plan_deferred_reductions(ctx, op);
  for (const DeferredReduction& deferred : deferred_reductions) ctx.let_run_on(deferred.sum);
  const auto pipeline = ctx.placement.pipelines.find(&op);
  const bool is_staged = pipeline != ctx.placement.pipelines.end();
  if (is_staged) {
    if (const auto pipelined = plan_pipelined_dot(ctx, op, pipeline->second, run_on)) {
      auto done = lower_pipelined_dot(ctx, op, pipeline->second, *pipelined);
      if (done) finish_deferred_reductions(ctx, op, deferred_reductions);
      return done;
    }
  }
  if (!is_staged) {
    // What they read would be written again: they end in their own iteration (group_dot.cpp).
    std::erase_if(run_on, [&](size_t i) { return !operands_stay(ctx, *ctx.definition[yielded[i]]); });
  }
  const std::vector<Variable> carried = make_variables(ctx, op.results);
  if (auto done = assign(ctx, llvm::ArrayRef(op.operands).drop_front(3), carried); !done) return done;
  for (size_t i : run_on)
    begin_in_tensor_memory(ctx, *ctx.definition[yielded[i]], {arguments[i], op.results[i]}, carried[i]);
  const LoopRange range = range_of(ctx, op);
  std::optional<PipelineStages> stages;
  if (is_staged) {
    stages.emplace(ctx, op, pipeline->second, range, StageOrder{.runs_on = !run_on.empty()});
    if (auto begun = stages->begin(); !begun) return begun;
  }

  llvm::BasicBlock *before = ir.GetInsertBlock(), *loop = new_block(ctx, "for"), *after = new_block(ctx, "for.end");
  const bool by_turns = stages && ctx.consumer_group;
  llvm::BasicBlock* none = by_turns ? new_block(ctx, "for.none") : after;
  llvm::Instruction* guard = ir.CreateCondBr(ir.CreateICmpSLT(range.start, range.end), loop, none);
  ir.SetInsertPoint(loop);
  auto* count = ir.CreatePHI(ir.getInt64Ty(), 2, "for");
  count->addIncoming(range.start, before);
  if (stages) {
    if (auto advanced = stages->advance(guard); !advanced) return advanced;
  }
  std::optional<EarlyLoads> early;
  if (is_staged) early.emplace(ctx, op, pipeline->second, range, guard).begin(count);
  EarlyLoads* outer = std::exchange(ctx.early_loads, early ? &*early : nullptr);
  auto done = lower_inside(ctx, region, guard, [&]() -> Result<void> {
    ctx.define(region.args[0], {range.index(ir, count, ctx.type(region.args[0]).element)});
    define_from(ctx, arguments, carried);
    for (size_t i : run_on) {
      ctx.let_run_on(yielded[i]);
      ctx.add_pending(arguments[i]);
    }
    if (stages) stages->define();
    if (auto lowered = lower_region(ctx, region); !lowered) return lowered;
    return end_iteration(ctx, yielded, carried);
  });
  ctx.early_loads = outer;
  if (!done) return done;
  if (stages) {
    if (auto finished = stages->finish(guard); !finished) return finished;
  }
  Value* next = ir.CreateAdd(count, range.step);
  count->addIncoming(next, ir.GetInsertBlock());
  // Where nothing was begun nothing is waited for: the assembler gives up on products that may or may not run there.
  llvm::BasicBlock* left = run_on.empty() && !by_turns ? after : new_block(ctx, "for.left");
  ir.CreateCondBr(ir.CreateICmpSLT(next, range.end), loop, left);
  if (left != after) {
    ir.SetInsertPoint(left);
    if (by_turns) stages->pass_on_right_to_multiply();
    for (size_t i : run_on) write(ctx, carried[i], ctx.wait_for_products(0, op.results[i], read(ctx, carried[i])));
    if (stages) stages->release_last();
    ir.CreateBr(after);
  }
  if (by_turns) {
    ir.SetInsertPoint(none);
    stages->pass_on_right_to_multiply();
    ir.CreateBr(after);
  }
  ir.SetInsertPoint(after);
  if (stages) stages->end();
  define_from(ctx, op.results, carried);
  finish_deferred_reductions(ctx, op, deferred_reductions);
  return {};
}

Result<void> lower_while(Context& ctx, const Op& op) {
  Builder& ir = ctx.ir;
  ctx.wait_for_all();
  const dsl::Region &condition = op.regions[0], &body = op.regions[1];
  const std::vector<Variable> carried = make_variables(ctx, op.results);
  if (auto done = assign(ctx, op.operands, carried); !done) return done;
  llvm::BasicBlock *test = new_block(ctx, "while"), *loop = new_block(ctx, "while.body"),
                   *after = new_block(ctx, "while.end");
  llvm::Instruction* guard = ir.CreateBr(test);
  ir.SetInsertPoint(test);
  auto done = lower_inside(ctx, condition, guard, [&]() -> Result<void> {
    define_from(ctx, condition.args, carried);
    if (auto lowered = lower_region(ctx, condition); !lowered) return lowered;
    ir.CreateCondBr(ctx.target.uniform_condition(ir, ctx.scalar(condition.ops.back().operands[0])), loop, after);
    return {};
  });
  if (!done) return done;
  ir.SetInsertPoint(loop);
  done = lower_inside(ctx, body, guard, [&]() -> Result<void> {
    define_from(ctx, body.args, carried);
    if (auto lowered = lower_region(ctx, body); !lowered) return lowered;
    return assign(ctx, body.ops.back().operands, carried);
  });
  if (!done) return done;
  ir.CreateBr(test);
  ir.SetInsertPoint(after);
  define_from(ctx, op.results, carried);
  return {};
}

Result<void> lower_if(Context& ctx, const Op& op) {
  Builder& ir = ctx.ir;
  for (const dsl::Region& region : op.regions) wait_for_uses_in(ctx, region);
  const std::vector<Variable> results = make_variables(ctx, op.results);
  llvm::BasicBlock *then = new_block(ctx, "then"), *otherwise = new_block(ctx, "else"),
                   *after = new_block(ctx, "if.end");
  Value* condition = ctx.target.uniform_condition(ir, ctx.scalar(op.operands[0]));
  llvm::Instruction* guard = ir.CreateCondBr(condition, then, otherwise);
  for (size_t i = 0; i < 2; ++i) {
    const dsl::Region& region = op.regions[i];
    ir.SetInsertPoint(i == 0 ? then : otherwise);
    auto done = lower_inside(ctx, region, guard, [&]() -> Result<void> {
      if (auto lowered = lower_region(ctx, region); !lowered) return lowered;
      return assign(ctx, region.ops.back().operands, results);
    });
    if (!done) return done;
    ir.CreateBr(after);
  }
  ir.SetInsertPoint(after);
  define_from(ctx, op.results, results);
  return {};
}

}  // namespace kiln::codegen::gpu
