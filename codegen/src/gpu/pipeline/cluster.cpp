#include "gpu/pipeline/cluster.h"

#include <algorithm>

#include "gpu/pipeline/persistent.h"
#include "kiln/dsl/walk.h"

namespace kiln::codegen::gpu {
namespace {

// Nothing is read that the kernel writes, and what is written twice is the same then.
bool may_run_again(const dsl::Kernel& kernel, const Pointers& pointers) {
  return !any_op(kernel, [&](const Op& op) {
    if (op.code == OpCode::kLoad) {
      const auto param = pointers.parameter(op.operands[0]);
      return !param || !kernel.params[*param].readonly || kernel.params[*param].may_alias;
    }
    const dsl::OpInfo& info = dsl::info(op.code);
    return op.code != OpCode::kStore && (info.has(dsl::kReads) || info.has(dsl::kWrites));
  });
}

// The scalars of the program that a load's place depends on, but for the loop's index; nothing where one of them is
// computed in the loop.
std::optional<std::set<ValueId>> scalars_of(const Op& loop, const TensorAccess& access, const LinearForms& forms) {
  std::set<ValueId> out;
  const auto add = [&](const Linear& form) {
    for (const auto& [id, factor] : form.program) out.insert(id);
  };
  for (const TensorDim& dim : access.dims) add(dim.coordinate);
  for (const Linear& guard : access.guards) add(guard);
  const dsl::Region& body = loop.regions[0];
  out.erase(body.args[0]);
  const auto is_inside = [&](ValueId id) {
    const Op* op = forms.definition(id);
    return !op || std::ranges::any_of(body.ops, [&](const Op& inner) { return &inner == op; });
  };
  if (std::ranges::any_of(out, is_inside)) return std::nullopt;
  return out;
}

}  // namespace

bool plan_cluster(const dsl::Kernel& kernel, const Op& loop, const std::vector<AxisInfo>& info, Pipeline& pipeline) {
  constexpr int64_t kBlocks = 2;
  if (!may_run_again(kernel, Pointers(kernel))) return false;
  LinearForms forms(kernel, info);
  if (!is_alike_in_all_programs(loop, forms)) return false;
  bool any = false;
  for (StagedLoad& staged : pipeline.loads) {
    const auto scalars = scalars_of(loop, staged.bulk->access, forms);
    if (!scalars) continue;
    auto tile = plan_bulk_tile(kernel, *staged.load, forms, kBlocks);
    if (!tile) continue;
    staged.bulk = std::move(*tile);
    staged.shared_by.emplace(scalars->begin(), scalars->end());
    any = true;
  }
  return any;
}

Result<std::map<const Op*, Value*>> find_alike(Context& ctx, const Pipeline& pipeline, Value* number,
                                               llvm::function_ref<Result<void>()> lower) {
  Builder& ir = ctx.ir;
  std::map<ValueId, Value*> theirs;
  Scope before = ctx.scope();
  set_program(ctx, ir.CreateXor(number, ir.getInt32(1)));
  if (auto done = lower(); !done) return done.error();
  for (const StagedLoad& staged : pipeline.loads) {
    if (!staged.shared_by) continue;
    for (ValueId id : *staged.shared_by) theirs.emplace(id, ctx.scalar(id));
  }
  ctx.restore(std::move(before));
  set_program(ctx, number);
  if (auto done = lower(); !done) return done.error();
  std::map<const Op*, Value*> out;
  for (const StagedLoad& staged : pipeline.loads) {
    if (!staged.shared_by) continue;
    Value* alike = ir.getTrue();
    for (ValueId id : *staged.shared_by) alike = ir.CreateAnd(alike, ir.CreateICmpEQ(theirs.at(id), ctx.scalar(id)));
    out.emplace(staged.load, alike);
  }
  return out;
}

}  // namespace kiln::codegen::gpu
