// for, while and if. All conditions are scalars, the same in all threads, so a block stays together. Carried registers
// live in allocas that LLVM promotes.
#include "gpu/control.h"

#include <set>
#include <utility>

#include "gpu/analysis/late_sums.h"
#include "gpu/dot/group_dot.h"
#include "gpu/dot/dot_layouts.h"
#include "gpu/pipeline/early_loads.h"
#include "gpu/pipeline/rotated_loop.h"
#include "gpu/region.h"
#include "gpu/variables.h"

namespace kiln::codegen::gpu {
namespace {

void define_from(Context& c, llvm::ArrayRef<ValueId> ids, const std::vector<Variable>& variables) {
  for (size_t i = 0; i < ids.size(); ++i) c.define(ids[i], read(c, variables[i]));
}

// A region in the block where the builder stands; `guard` ends the block before it.
Result<void> lower_inside(Context& c, const dsl::Region& region, llvm::Instruction* guard,
                          llvm::function_ref<Result<void>()> body) {
  c.enter(region, guard);
  Result<void> done = body();
  c.leave();
  return done;
}

// What runs on goes to the next iteration as it is, once what the last one left has ended.
Result<void> end_iteration(Context& c, llvm::ArrayRef<ValueId> yielded, const std::vector<Variable>& carried) {
  const int running = c.groups_in_flight();
  auto done = assign(c, yielded, carried);
  if (running > 0) c.target.group_wait(c.b, running, {});
  c.settle_all();
  return done;
}

// What a branch reads, or what that is made of, is there before; other products run on beside it.
void settle_for(Context& c, const dsl::Region& region) {
  if (c.groups_in_flight() == 0) return;
  std::set<ValueId> seen;
  const auto settle = [&](const auto& self, const Op& op) -> void {
    for (ValueId id : op.operands) {
      if (!seen.insert(id).second) continue;
      if (c.is_in_flight(id)) static_cast<void>(c.get(id));
      if (c.definition[id]) self(self, *c.definition[id]);
    }
    for (const dsl::Region& inner : op.regions) {
      for (const Op& inside : inner.ops) self(self, inside);
    }
  };
  for (const Op& op : region.ops) settle(settle, op);
}

// The numbers of carried values that come from products of several warps and are yielded by themselves alone: they may
// run into the next iteration.
std::vector<size_t> running_on(Context& c, const Op& loop) {
  const dsl::Region& region = loop.regions[0];
  const std::vector<ValueId>& yielded = region.ops.back().operands;
  std::vector<size_t> out;
  for (size_t i = 0; i < yielded.size(); ++i) {
    const Op* dot = c.definition[yielded[i]];
    if (!dot || dot->code != OpCode::kDot || c.region_of(yielded[i]) != &region || c.uses(yielded[i]) != 1) continue;
    if (!dot_layouts(c.kernel, *dot, c.target, c.block).group) continue;
    if (c.placement.home[yielded[i]] == c.placement.home[loop.results[i]]) out.push_back(i);
  }
  return out;
}

void finish_late_sums(Context& c, const Op& loop, const std::vector<LateSum>& late_sums) {
  for (const LateSum& late : late_sums) {
    const ValueId id = loop.results[late.carried];
    c.define(id, finish_late_sum(c, late, *c.get(id)));
  }
}

}  // namespace

StageOrder stage_order(Context& c, const Op& loop, const Pipeline& pipeline) {
  const std::vector<size_t> run_on = running_on(c, loop);
  if (const auto rotation = plan_rotation(c, loop, pipeline, run_on)) return order_of(c, *rotation);
  return {.runs_on = !run_on.empty()};
}

Result<void> lower_for(Context& c, const Op& op) {
  Builder& b = c.b;
  c.settle_all();
  const dsl::Region& region = op.regions[0];
  const auto arguments = llvm::ArrayRef(region.args).drop_front();
  const std::vector<ValueId>& yielded = region.ops.back().operands;
  std::vector<size_t> run_on = running_on(c, op);
  const std::vector<LateSum> late_sums = plan_late_sums(c, op);
  for (const LateSum& late : late_sums) c.let_run_on(late.sum);
  const auto pipeline = c.placement.pipelines.find(&op);
  const bool is_staged = pipeline != c.placement.pipelines.end();
  if (is_staged) {
    if (const auto rotation = plan_rotation(c, op, pipeline->second, run_on)) {
      auto done = lower_rotated_for(c, op, pipeline->second, *rotation);
      if (done) finish_late_sums(c, op, late_sums);
      return done;
    }
  }
  if (!is_staged) {
    // What they read would be written again: they end in their own iteration (group_dot.cpp).
    std::erase_if(run_on, [&](size_t i) { return !keeps_operands(c, *c.definition[yielded[i]]); });
  }
  const std::vector<Variable> carried = make_variables(c, op.results);
  if (auto done = assign(c, llvm::ArrayRef(op.operands).drop_front(3), carried); !done) return done;
  const LoopRange range = range_of(c, op);
  std::optional<Stages> stages;
  if (is_staged) {
    stages.emplace(c, op, pipeline->second, range, StageOrder{.runs_on = !run_on.empty()});
    if (auto begun = stages->begin(); !begun) return begun;
  }

  llvm::BasicBlock *before = b.GetInsertBlock(), *loop = new_block(c, "for"), *after = new_block(c, "for.end");
  const bool by_turns = stages && c.crew;
  llvm::BasicBlock* none = by_turns ? new_block(c, "for.none") : after;
  llvm::Instruction* guard = b.CreateCondBr(b.CreateICmpSLT(range.start, range.end), loop, none);
  b.SetInsertPoint(loop);
  auto* count = b.CreatePHI(b.getInt64Ty(), 2, "for");
  count->addIncoming(range.start, before);
  if (stages) {
    if (auto advanced = stages->advance(guard); !advanced) return advanced;
  }
  std::optional<EarlyLoads> early;
  if (is_staged) early.emplace(c, op, pipeline->second, range, guard).begin(count);
  EarlyLoads* outer = std::exchange(c.early_loads, early ? &*early : nullptr);
  auto done = lower_inside(c, region, guard, [&]() -> Result<void> {
    c.define(region.args[0], {range.index(b, count, c.type(region.args[0]).element)});
    define_from(c, arguments, carried);
    for (size_t i : run_on) {
      c.let_run_on(yielded[i]);
      c.put_in_flight(arguments[i]);
    }
    if (stages) stages->define();
    if (auto lowered = lower_region(c, region); !lowered) return lowered;
    return end_iteration(c, yielded, carried);
  });
  c.early_loads = outer;
  if (!done) return done;
  if (stages) {
    if (auto finished = stages->finish(guard); !finished) return finished;
  }
  Value* next = b.CreateAdd(count, range.step);
  count->addIncoming(next, b.GetInsertBlock());
  // Where nothing was begun nothing is waited for: the assembler gives up on products that may or may not run there.
  llvm::BasicBlock* left = run_on.empty() && !by_turns ? after : new_block(c, "for.left");
  b.CreateCondBr(b.CreateICmpSLT(next, range.end), loop, left);
  if (left != after) {
    b.SetInsertPoint(left);
    if (by_turns) stages->leave_turn();
    for (size_t i : run_on) write(c, carried[i], c.wait_for_products(0, read(c, carried[i])));
    if (stages) stages->release_last();
    b.CreateBr(after);
  }
  if (by_turns) {
    b.SetInsertPoint(none);
    stages->leave_turn();
    b.CreateBr(after);
  }
  b.SetInsertPoint(after);
  if (stages) stages->end();
  define_from(c, op.results, carried);
  finish_late_sums(c, op, late_sums);
  return {};
}

Result<void> lower_while(Context& c, const Op& op) {
  Builder& b = c.b;
  c.settle_all();
  const dsl::Region &condition = op.regions[0], &body = op.regions[1];
  const std::vector<Variable> carried = make_variables(c, op.results);
  if (auto done = assign(c, op.operands, carried); !done) return done;
  llvm::BasicBlock *test = new_block(c, "while"), *loop = new_block(c, "while.body"),
                   *after = new_block(c, "while.end");
  llvm::Instruction* guard = b.CreateBr(test);
  b.SetInsertPoint(test);
  auto done = lower_inside(c, condition, guard, [&]() -> Result<void> {
    define_from(c, condition.args, carried);
    if (auto lowered = lower_region(c, condition); !lowered) return lowered;
    b.CreateCondBr(c.target.uniform_condition(b, c.scalar(condition.ops.back().operands[0])), loop, after);
    return {};
  });
  if (!done) return done;
  b.SetInsertPoint(loop);
  done = lower_inside(c, body, guard, [&]() -> Result<void> {
    define_from(c, body.args, carried);
    if (auto lowered = lower_region(c, body); !lowered) return lowered;
    return assign(c, body.ops.back().operands, carried);
  });
  if (!done) return done;
  b.CreateBr(test);
  b.SetInsertPoint(after);
  define_from(c, op.results, carried);
  return {};
}

Result<void> lower_if(Context& c, const Op& op) {
  Builder& b = c.b;
  for (const dsl::Region& region : op.regions) settle_for(c, region);
  const std::vector<Variable> results = make_variables(c, op.results);
  llvm::BasicBlock *then = new_block(c, "then"), *otherwise = new_block(c, "else"), *after = new_block(c, "if.end");
  Value* condition = c.target.uniform_condition(b, c.scalar(op.operands[0]));
  llvm::Instruction* guard = b.CreateCondBr(condition, then, otherwise);
  for (size_t i = 0; i < 2; ++i) {
    const dsl::Region& region = op.regions[i];
    b.SetInsertPoint(i == 0 ? then : otherwise);
    auto done = lower_inside(c, region, guard, [&]() -> Result<void> {
      if (auto lowered = lower_region(c, region); !lowered) return lowered;
      return assign(c, region.ops.back().operands, results);
    });
    if (!done) return done;
    b.CreateBr(after);
  }
  b.SetInsertPoint(after);
  define_from(c, op.results, results);
  return {};
}

}  // namespace kiln::codegen::gpu
