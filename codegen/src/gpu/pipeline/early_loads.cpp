#include "gpu/pipeline/early_loads.h"

#include <algorithm>

#include "gpu/analysis/row_operands.h"
#include "gpu/ops/memory.h"
#include "gpu/region.h"
#include "kiln/dsl/traits.h"
#include "passes/pointers.h"

namespace kiln::codegen::gpu {
namespace {

// The ops of a loop's body that a load takes; nothing where one of them is more than pure, or wants a carried value.
std::optional<std::vector<const Op*>> slice_of(const Context& ctx, const dsl::Region& body, const Op& load) {
  std::set<const Op*> found;
  std::vector<ValueId> open = load.operands;
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (ctx.region_of(id) != &body || id == body.args[0]) continue;
    const Op* op = ctx.definition[id];
    if (!op || !op->regions.empty() || !is_pure(*op) || op->code == OpCode::kDot) {
      return std::nullopt;
    }
    if (found.insert(op).second) open.insert(open.end(), op->operands.begin(), op->operands.end());
  }
  std::vector<const Op*> out;
  for (const Op& op : body.ops) {
    if (found.contains(&op)) out.push_back(&op);
  }
  return out;
}

}  // namespace

EarlyLoads::EarlyLoads(Context& ctx, const Op& loop, const Pipeline& pipeline, const LoopRange& range,
                       llvm::Instruction* guard)
    : ctx_(ctx), body_(loop.regions[0]), range_(range), guard_(guard) {
  const dsl::KernelOptions& options = ctx.kernel.options;
  if (ctx.effort == Effort::kShort || options.check_bounds || options.debug) return;
  const Pointers pointers(ctx.kernel);
  const std::set<const Op*> operands = row_operands(ctx.kernel, loop);
  for (const Op& op : body_.ops) {
    if (op.code != OpCode::kLoad || ctx.placement.staged.contains(&op)) continue;
    const bool is_scalar = ctx.kernel.type(op.results[0]).rank() == 0;
    const bool is_for_copies = std::ranges::find(pipeline.slice, &op) != pipeline.slice.end();
    if ((!is_scalar && !operands.contains(&op)) || is_for_copies) continue;
    const auto param = pointers.parameter(op.operands[0]);
    if (!param || !ctx.kernel.params[*param].readonly || ctx.kernel.params[*param].may_alias) continue;
    if (auto slice = slice_of(ctx, body_, op)) slices_.emplace(&op, std::move(*slice));
  }
}

bool EarlyLoads::has(const Op& load) const { return ctx_.current_region() == &body_ && slices_.contains(&load); }

Result<Registers> EarlyLoads::take(const Op& load, const Layout& layout) {
  Builder& ir = ctx_.ir;
  const Variable place = make_variable(ctx_, ctx_.type(load.results[0]), layout);
  {
    const llvm::IRBuilderBase::InsertPointGuard here(ir);
    ir.SetInsertPoint(guard_);
    if (auto done = load_for(load, range_.start, place); !done) return done.error();
  }
  Registers loaded = read(ctx_, place);
  if (auto done = load_for(load, ir.CreateAdd(count_, range_.step), place); !done) return done.error();
  return loaded;
}

// An iteration's, if there is one. The values of the one that is being lowered are put aside.
Result<void> EarlyLoads::load_for(const Op& load, Value* count, const Variable& into) {
  Builder& ir = ctx_.ir;
  Value* enabled = ir.CreateICmpSLT(count, range_.end);
  Scope here = ctx_.scope();
  ctx_.leave();
  ctx_.enter(body_, guard_, enabled);
  const auto lower = [&]() -> Result<void> {
    ctx_.define(body_.args[0], {range_.index(ir, count, ctx_.type(body_.args[0]).element)});
    for (const Op* op : slices_.at(&load)) {
      if (auto done = lower_op(ctx_, *op); !done) return done;
    }
    auto registers = load_tile(ctx_, load, into.layout, enabled);
    if (!registers) return registers.error();
    write(ctx_, into, *registers);
    return {};
  };
  auto done = lower();
  ctx_.leave();
  ctx_.enter(body_, guard_);
  ctx_.restore(std::move(here));
  return done;
}

}  // namespace kiln::codegen::gpu
