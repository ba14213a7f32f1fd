#include "gpu/pipeline/rotated_loop.h"

#include <algorithm>
#include <set>

#include "gpu/dot/group_dot.h"
#include "gpu/region.h"
#include "gpu/variables.h"
#include "kiln/dsl/walk.h"

namespace kiln::codegen::gpu {
namespace {

// Whether an op computes from a value; not by way of those in `seen`.
bool reads(const Context& c, const Op& op, ValueId source, std::set<ValueId> seen = {}) {
  std::vector<const Op*> todo = {&op};
  while (!todo.empty()) {
    const Op& reader = *todo.back();
    todo.pop_back();
    const bool is_found = any_op(reader, [&](const Op& each) {
      for (ValueId id : each.operands) {
        if (id == source) return true;
        if (seen.insert(id).second && c.definition[id]) todo.push_back(c.definition[id]);
      }
      return false;
    });
    if (is_found) return true;
  }
  return false;
}

class RotatedLoop {
 public:
  RotatedLoop(Context& c, const Op& loop, const Pipeline& pipeline, const Rotation& rotation)
      : c_(c),
        loop_(loop),
        body_(loop.regions[0]),
        rotation_(rotation),
        range_(range_of(c, loop)),
        stages_(c, loop, pipeline, range_, order_of(c, rotation)),
        factors_(
            make_variable(c, c.type(factor()), dot_layouts(c.kernel, *rotation.late, c.target, c.block).group->a)) {}

  Result<void> lower() {
    Builder& b = c_.b;
    carried_ = make_variables(c_, loop_.results);
    if (auto done = assign(c_, llvm::ArrayRef(loop_.operands).drop_front(3), carried_); !done) return done;
    if (auto begun = stages_.begin(); !begun) return begun;
    auto *first = new_block(c_, "for.first"), *loop = new_block(c_, "for"), *last = new_block(c_, "for.last"),
         *after = new_block(c_, "for.end");
    guard_ = b.CreateCondBr(b.CreateICmpSLT(range_.start, range_.end), first, after);
    b.SetInsertPoint(first);
    if (auto done = iteration(range_.start, false); !done) return done;
    Value* second = b.CreateAdd(range_.start, range_.step);
    b.CreateCondBr(b.CreateICmpSLT(second, range_.end), loop, last);
    llvm::BasicBlock* from = b.GetInsertBlock();

    b.SetInsertPoint(loop);
    auto* count = b.CreatePHI(b.getInt64Ty(), 2, "for");
    count->addIncoming(second, from);
    if (auto done = iteration(count, true); !done) return done;
    Value* next = b.CreateAdd(count, range_.step);
    count->addIncoming(next, b.GetInsertBlock());
    b.CreateCondBr(b.CreateICmpSLT(next, range_.end), loop, last);

    b.SetInsertPoint(last);
    if (auto done = last_product(); !done) return done;
    b.CreateBr(after);
    b.SetInsertPoint(after);
    for (size_t i = 0; i < carried_.size(); ++i) c_.define(loop_.results[i], read(c_, carried_[i]));
    return {};
  }

 private:
  ValueId factor() const { return rotation_.late->operands[0]; }
  ValueId sum() const { return rotation_.late->operands[2]; }
  ValueId result() const { return rotation_.late->results[0]; }

  // `has_late`: another one came before it, whose late product is begun here.
  Result<void> iteration(Value* count, bool has_late) {
    if (auto advanced = stages_.advance(guard_); !advanced) return advanced;
    c_.enter(body_, guard_);
    auto done = lower_body(count, has_late);
    if (done) stages_.release();
    c_.leave();
    return done;
  }

  Result<void> lower_body(Value* count, bool has_late) {
    c_.define(body_.args[0], {range_.index(c_.b, count, c_.type(body_.args[0]).element)});
    for (size_t i = 0; i < carried_.size(); ++i) {
      if (!has_late || i != rotation_.carried) c_.define(body_.args[i + 1], read(c_, carried_[i]));
    }
    stages_.define();
    c_.let_run_on(rotation_.first->results[0]);
    c_.let_run_on(result());
    const auto lower = [&](const Op& op) -> Result<void> {
      if (&op == rotation_.late) return {};
      if (auto done = lower_op(c_, op); !done) return done;
      // Lanes shuffle the factor while the last iteration's product runs.
      if (&op == c_.definition[factor()]) {
        if (auto arranged = c_.get(factor(), factors_.layout); !arranged) return arranged.error();
      }
      if (&op != rotation_.first || !has_late) return {};
      auto begun = begin_late_product();
      return begun ? refill() : begun;
    };
    if (auto done = lower_region(c_, body_, lower); !done) return done;
    // What the late product will want. It sums up where it will leave the result.
    std::vector<ValueId> yielded = body_.ops.back().operands;
    yielded[rotation_.carried] = sum();
    yielded.push_back(factor());
    std::vector<Variable> variables = carried_;
    variables.push_back(factors_);
    c_.settle_all();
    return assign(c_, yielded, variables);
  }

  // Of the last iteration: its values stand for this one's until the product is under way.
  Result<void> begin_late_product() {
    Scope here = c_.scope();
    auto sums = late_product();
    c_.restore(std::move(here));
    if (!sums) return sums.error();
    const ValueId argument = body_.args[rotation_.carried + 1];
    c_.define(argument, std::move(*sums));
    c_.put_in_flight(argument);
    return {};
  }

  // While the products run. Copies are of other iterations: the values of this one are put aside.
  Result<void> refill() {
    Scope here = c_.scope();
    c_.leave();
    auto done = stages_.refill(guard_);
    c_.enter(body_, guard_);
    c_.restore(std::move(here));
    return done;
  }

  Result<Registers> late_product() {
    c_.define(factor(), factors_.layout, read(c_, factors_));
    c_.define(sum(), carried_[rotation_.carried].layout, read(c_, carried_[rotation_.carried]));
    if (auto done = lower_op(c_, *rotation_.late); !done) return done.error();
    return c_.take_in_flight(result());
  }

  Result<void> last_product() {
    if (auto advanced = stages_.advance(guard_); !advanced) return advanced;
    c_.enter(body_, guard_);
    stages_.define();
    c_.let_run_on(result());
    auto sums = late_product();
    if (sums) write(c_, carried_[rotation_.carried], c_.wait_for_products(0, std::move(*sums)));
    stages_.touch();
    stages_.release_last();
    c_.leave();
    return sums ? Result<void>() : sums.error();
  }

  Context& c_;
  const Op& loop_;
  const dsl::Region& body_;
  const Rotation rotation_;
  const LoopRange range_;
  Stages stages_;
  Variable factors_;
  std::vector<Variable> carried_;
  llvm::Instruction* guard_ = nullptr;  // ends the block before the loop
};

}  // namespace

std::optional<Rotation> plan_rotation(Context& c, const Op& loop, const Pipeline& pipeline,
                                      const std::vector<size_t>& run_on) {
  const dsl::Region& body = loop.regions[0];
  if (run_on.size() != 1 || !pipeline.is_all_bulk() || !pipeline.ahead.empty()) return std::nullopt;
  const Op* late = c.definition[body.ops.back().operands[run_on[0]]];
  const ValueId source = operand_source(c, *late, 1);
  const bool is_late_alone = c.uses(source) == 1 && c.uses(late->operands[1]) == 1;
  const auto is_source = [&](const StagedLoad& staged) { return staged.load == c.definition[source]; };
  if (!is_late_alone || std::ranges::none_of(pipeline.loads, is_source)) return std::nullopt;
  if (!takes_a_from_registers(c, *late)) return std::nullopt;
  for (const Op& op : body.ops) {
    if (&op == late || reads(c, op, body.args[run_on[0] + 1])) return std::nullopt;  // the late product's result
    const bool is_first = op.code == OpCode::kDot && dot_layouts(c.kernel, op, c.target, c.block).group;
    if (!is_first || !keeps_operands(c, op)) continue;
    if (reads(c, *late, op.results[0], {late->operands[2]})) return Rotation{&op, late, run_on[0]};
  }
  return std::nullopt;
}

// Which the late product has read an iteration late is the second's of its operands.
StageOrder order_of(Context& c, const Rotation& rotation) {
  const DotLayouts layouts = dot_layouts(c.kernel, *rotation.late, c.target, c.block);
  return {.late = {c.definition[operand_source(c, *rotation.late, 1)]},
          .drifts = c.block.warps > layouts.group->instruction.warps};
}

Result<void> lower_rotated_for(Context& c, const Op& loop, const Pipeline& pipeline, const Rotation& rotation) {
  return RotatedLoop(c, loop, pipeline, rotation).lower();
}

}  // namespace kiln::codegen::gpu
