#include "gpu/pipeline/pipelined_dot.h"

#include <algorithm>
#include <set>

#include "gpu/dot/group_dot.h"
#include "gpu/region.h"
#include "gpu/variables.h"
#include "kiln/dsl/walk.h"

namespace kiln::codegen::gpu {
namespace {

// Whether an op computes from a value; not by way of those in `seen`.
bool reads(const Context& ctx, const Op& op, ValueId source, std::set<ValueId> seen = {}) {
  std::vector<const Op*> todo = {&op};
  while (!todo.empty()) {
    const Op& reader = *todo.back();
    todo.pop_back();
    const bool is_found = any_op(reader, [&](const Op& each) {
      for (ValueId id : each.operands) {
        if (id == source) return true;
        if (seen.insert(id).second && ctx.definition[id]) todo.push_back(ctx.definition[id]);
      }
      return false;
    });
    if (is_found) return true;
  }
  return false;
}

class PipelinedDotLoop {
 public:
  PipelinedDotLoop(Context& ctx, const Op& loop, const Pipeline& pipeline, const PipelinedDot& pipelined)
      : ctx_(ctx),
        loop_(loop),
        body_(loop.regions[0]),
        pipelined_(pipelined),
        range_(range_of(ctx, loop)),
        stages_(ctx, loop, pipeline, range_, order_of(ctx, pipelined)),
        operand_a_(make_variable(ctx, ctx.type(operand()),
                                 dot_layouts(ctx.kernel, *pipelined.late, ctx.target, ctx.block).group->a)) {}

  Result<void> lower() {
    Builder& ir = ctx_.ir;
    carried_ = make_variables(ctx_, loop_.results);
    if (auto done = assign(ctx_, llvm::ArrayRef(loop_.operands).drop_front(3), carried_); !done) return done;
    if (auto begun = stages_.begin(); !begun) return begun;
    auto *first = new_block(ctx_, "for.first"), *loop = new_block(ctx_, "for"), *last = new_block(ctx_, "for.last"),
         *after = new_block(ctx_, "for.end");
    guard_ = ir.CreateCondBr(ir.CreateICmpSLT(range_.start, range_.end), first, after);
    ir.SetInsertPoint(first);
    if (auto done = iteration(range_.start, false); !done) return done;
    Value* second = ir.CreateAdd(range_.start, range_.step);
    ir.CreateCondBr(ir.CreateICmpSLT(second, range_.end), loop, last);
    llvm::BasicBlock* from = ir.GetInsertBlock();

    ir.SetInsertPoint(loop);
    auto* count = ir.CreatePHI(ir.getInt64Ty(), 2, "for");
    count->addIncoming(second, from);
    if (auto done = iteration(count, true); !done) return done;
    Value* next = ir.CreateAdd(count, range_.step);
    count->addIncoming(next, ir.GetInsertBlock());
    ir.CreateCondBr(ir.CreateICmpSLT(next, range_.end), loop, last);

    ir.SetInsertPoint(last);
    if (auto done = last_product(); !done) return done;
    ir.CreateBr(after);
    ir.SetInsertPoint(after);
    for (size_t i = 0; i < carried_.size(); ++i) ctx_.define(loop_.results[i], read(ctx_, carried_[i]));
    return {};
  }

 private:
  ValueId operand() const { return pipelined_.late->operands[0]; }
  ValueId sum() const { return pipelined_.late->operands[2]; }
  ValueId result() const { return pipelined_.late->results[0]; }

  // `has_late`: another one came before it, whose late product is begun here.
  Result<void> iteration(Value* count, bool has_late) {
    if (auto advanced = stages_.advance(guard_); !advanced) return advanced;
    ctx_.enter(body_, guard_);
    auto done = lower_body(count, has_late);
    if (done) stages_.release();
    ctx_.leave();
    return done;
  }

  Result<void> lower_body(Value* count, bool has_late) {
    ctx_.define(body_.args[0], {range_.index(ctx_.ir, count, ctx_.type(body_.args[0]).element)});
    for (size_t i = 0; i < carried_.size(); ++i) {
      if (!has_late || i != pipelined_.carried) ctx_.define(body_.args[i + 1], read(ctx_, carried_[i]));
    }
    stages_.define();
    ctx_.let_run_on(pipelined_.first->results[0]);
    ctx_.let_run_on(result());
    const auto lower = [&](const Op& op) -> Result<void> {
      if (&op == pipelined_.late) return {};
      if (auto done = lower_op(ctx_, op); !done) return done;
      // Lanes shuffle the operand while the last iteration's product runs.
      if (&op == ctx_.definition[operand()]) {
        if (auto arranged = ctx_.get(operand(), operand_a_.layout); !arranged) return arranged.error();
      }
      if (&op != pipelined_.first || !has_late) return {};
      auto begun = begin_second_product();
      return begun ? refill() : begun;
    };
    if (auto done = lower_region(ctx_, body_, lower); !done) return done;
    // What the late product will want. It sums up where it will leave the result.
    std::vector<ValueId> yielded = body_.ops.back().operands;
    yielded[pipelined_.carried] = sum();
    yielded.push_back(operand());
    std::vector<Variable> variables = carried_;
    variables.push_back(operand_a_);
    ctx_.wait_for_all();
    return assign(ctx_, yielded, variables);
  }

  // Of the last iteration: its values stand for this one's until the product is under way.
  Result<void> begin_second_product() {
    Scope here = ctx_.scope();
    auto accumulators = second_product();
    ctx_.restore(std::move(here));
    if (!accumulators) return accumulators.error();
    const ValueId argument = body_.args[pipelined_.carried + 1];
    ctx_.define(argument, std::move(*accumulators));
    ctx_.add_pending(argument);
    return {};
  }

  // While the products run. Copies are of other iterations: the values of this one are put aside.
  Result<void> refill() {
    Scope here = ctx_.scope();
    ctx_.leave();
    auto done = stages_.refill(guard_);
    ctx_.enter(body_, guard_);
    ctx_.restore(std::move(here));
    return done;
  }

  Result<Registers> second_product() {
    ctx_.define(operand(), operand_a_.layout, read(ctx_, operand_a_));
    ctx_.define(sum(), carried_[pipelined_.carried].layout, read(ctx_, carried_[pipelined_.carried]));
    if (auto done = lower_op(ctx_, *pipelined_.late); !done) return done.error();
    return ctx_.take_pending(result());
  }

  Result<void> last_product() {
    if (auto advanced = stages_.advance(guard_); !advanced) return advanced;
    ctx_.enter(body_, guard_);
    stages_.define();
    ctx_.let_run_on(result());
    auto accumulators = second_product();
    if (accumulators)
      write(ctx_, carried_[pipelined_.carried], ctx_.wait_for_products(0, result(), std::move(*accumulators)));
    stages_.touch();
    stages_.release_last();
    ctx_.leave();
    return accumulators ? Result<void>() : accumulators.error();
  }

  Context& ctx_;
  const Op& loop_;
  const dsl::Region& body_;
  const PipelinedDot pipelined_;
  const LoopRange range_;
  PipelineStages stages_;
  Variable operand_a_;
  std::vector<Variable> carried_;
  llvm::Instruction* guard_ = nullptr;  // ends the block before the loop
};

}  // namespace

std::optional<PipelinedDot> plan_pipelined_dot(Context& ctx, const Op& loop, const Pipeline& pipeline,
                                               const std::vector<size_t>& run_on) {
  const dsl::Region& body = loop.regions[0];
  if (run_on.size() != 1 || !pipeline.is_all_bulk() || !pipeline.ahead.empty()) return std::nullopt;
  const Op* late = ctx.definition[body.ops.back().operands[run_on[0]]];
  const ValueId source = operand_source(ctx, *late, 1);
  const bool is_late_alone = ctx.uses(source) == 1 && ctx.uses(late->operands[1]) == 1;
  const auto is_source = [&](const StagedLoad& staged) { return staged.load == ctx.definition[source]; };
  if (!is_late_alone || std::ranges::none_of(pipeline.loads, is_source)) return std::nullopt;
  if (!takes_a_from_registers(ctx, *late)) return std::nullopt;
  for (const Op& op : body.ops) {
    if (&op == late || reads(ctx, op, body.args[run_on[0] + 1])) return std::nullopt;  // the late product's result
    const bool is_first = op.code == OpCode::kDot && dot_layouts(ctx.kernel, op, ctx.target, ctx.block).group;
    if (!is_first || !operands_stay(ctx, op)) continue;
    if (reads(ctx, *late, op.results[0], {late->operands[2]})) return PipelinedDot{&op, late, run_on[0]};
  }
  return std::nullopt;
}

// Which the late product has read an iteration late is the second's of its operands.
StageOrder order_of(Context& ctx, const PipelinedDot& pipelined) {
  const DotLayouts layouts = dot_layouts(ctx.kernel, *pipelined.late, ctx.target, ctx.block);
  return {.late = {ctx.definition[operand_source(ctx, *pipelined.late, 1)]},
          .drifts = ctx.block.warps > layouts.group->instruction.warps};
}

Result<void> lower_pipelined_dot(Context& ctx, const Op& loop, const Pipeline& pipeline,
                                 const PipelinedDot& pipelined) {
  return PipelinedDotLoop(ctx, loop, pipeline, pipelined).lower();
}

}  // namespace kiln::codegen::gpu
