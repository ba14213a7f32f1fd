#include "gpu/pipeline/persistent.h"

#include <algorithm>

#include "kiln/dsl/traits.h"

namespace kiln::codegen::gpu {
namespace {

Value* count_programs(Context& ctx) {
  return ctx.ir.CreateMul(ctx.num_programs[0], ctx.ir.CreateMul(ctx.num_programs[1], ctx.num_programs[2]), "programs");
}

llvm::BasicBlock* append_block(Context& ctx, const char* name) {
  return llvm::BasicBlock::Create(ctx.ir.getContext(), name, ctx.function);
}

// Whether a block has a program, or its neighbour of the cluster has.
Value* goes_on(Context& ctx, Value* number) {
  Builder& ir = ctx.ir;
  if (ctx.block.cluster > 1) number = ir.CreateAnd(number, ir.getInt32(static_cast<uint32_t>(-ctx.block.cluster)));
  return ir.CreateICmpULT(number, count_programs(ctx));
}

// Numbers come until there is one behind the last program.
ProgramLoop begin_queued_programs(Context& ctx, ProgramRole role) {
  Builder& ir = ctx.ir;
  ProgramLoop loop{append_block(ctx, "programs"), append_block(ctx, "program"), append_block(ctx, "programs.end")};
  const bool gives = role == ProgramRole::kProduces;
  Value* own = ctx.target.program_id(ir, 0);
  llvm::BasicBlock* before = ir.GetInsertBlock();
  ir.CreateBr(loop.head);
  ir.SetInsertPoint(loop.head);
  if (gives) {
    loop.given = ir.CreatePHI(ir.getInt32Ty(), 2, "number");
    loop.given->addIncoming(own, before);
  }
  const QueueEnd end = begin_queue(ctx, gives);
  if (gives) give_program(ctx, end, loop.given);
  loop.number = gives ? loop.given : take_program(ctx, end);
  ir.CreateCondBr(goes_on(ctx, loop.number), loop.body, loop.after);
  ir.SetInsertPoint(loop.body);
  set_program(ctx, loop.number);
  return loop;
}

void end_queued_programs(Context& ctx, const ProgramLoop& loop) {
  Builder& ir = ctx.ir;
  if (loop.given) {
    Value* counted = count_program(ctx, count_programs(ctx));
    loop.given->addIncoming(ir.CreateAdd(ctx.target.num_programs(ir, 0), counted), ir.GetInsertBlock());
  }
  ir.CreateBr(loop.head);
  ir.SetInsertPoint(loop.after);
}

}  // namespace

void set_program(Context& ctx, Value* number) {
  Builder& ir = ctx.ir;
  if (ctx.block.cluster > 1) {
    number = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, number, ir.CreateSub(count_programs(ctx), ir.getInt32(1)));
  }
  // Divisions are what the first copies of a program would wait for: none where the grid has one axis.
  size_t axes = ctx.kernel.grid.size();
  while (axes > 1 && ctx.kernel.grid[axes - 1].as_constant() == 1) --axes;
  ctx.program_id = {number, ir.getInt32(0), ir.getInt32(0)};
  for (size_t axis = 1; axis < axes; ++axis) {
    Value* lines = ir.CreateUDiv(ctx.program_id[axis - 1], ctx.num_programs[axis - 1]);
    ctx.program_id[axis - 1] = ir.CreateURem(ctx.program_id[axis - 1], ctx.num_programs[axis - 1]);
    ctx.program_id[axis] = lines;
  }
}

ProgramLoop begin_programs(Context& ctx, ProgramRole role) {
  if (ctx.block.queued) return begin_queued_programs(ctx, role);
  Builder& ir = ctx.ir;
  ProgramLoop loop{nullptr, append_block(ctx, "program"), append_block(ctx, "programs.end")};
  Value* place = ctx.target.program_id(ir, 0);
  if (role == ProgramRole::kComputes && ctx.consumer_group) {
    place = ir.CreateAdd(place, ir.CreateMul(ctx.consumer_group, ctx.target.num_programs(ir, 0)));
    loop.consumer_groups = ctx.block.consumer_groups;
  }
  llvm::BasicBlock* before = ir.GetInsertBlock();
  ir.CreateCondBr(goes_on(ctx, place), loop.body, loop.after);
  ir.SetInsertPoint(loop.body);
  loop.first = ir.CreatePHI(ir.getInt32Ty(), 2, "first");
  loop.first->addIncoming(ir.getInt32(0), before);
  loop.place = ir.CreatePHI(ir.getInt32Ty(), 2, "place");
  loop.place->addIncoming(place, before);
  loop.number = ir.CreateAdd(loop.first, loop.place, "number");
  set_program(ctx, loop.number);
  return loop;
}

void end_programs(Context& ctx, const ProgramLoop& loop) {
  if (ctx.block.queued) return end_queued_programs(ctx, loop);
  Builder& ir = ctx.ir;
  Value* blocks = ctx.target.num_programs(ir, 0);
  Value* first =
      ir.CreateAdd(loop.first, ir.CreateMul(blocks, ir.getInt32(static_cast<uint32_t>(loop.consumer_groups))));
  Value* place = loop.place;
  if (ctx.block.balanced) place = ir.CreateSub(ir.CreateSub(blocks, ir.getInt32(1)), place);
  loop.first->addIncoming(first, ir.GetInsertBlock());
  loop.place->addIncoming(place, ir.GetInsertBlock());
  ir.CreateCondBr(goes_on(ctx, ir.CreateAdd(first, place)), loop.body, loop.after);
  ir.SetInsertPoint(loop.after);
}

bool is_fit_for_consumer_groups(const dsl::Kernel& kernel, const Op& loop, const std::vector<AxisInfo>& info,
                                const Pipeline& pipeline) {
  const auto is_product = [](const Op& op) { return family_of(op) == dsl::OpFamily::kDot; };
  const auto is_flat = [](const Op& op) { return op.regions.empty(); };
  const std::vector<Op>& body = loop.regions[0].ops;
  LinearForms forms(kernel, info);
  return pipeline.program_operands.empty() && std::ranges::all_of(body, is_flat) &&
         std::ranges::count_if(body, is_product) == 1 && is_alike_in_all_programs(loop, forms);
}

bool is_alike_in_all_programs(const Op& loop, LinearForms& forms) {
  return std::all_of(loop.operands.begin(), loop.operands.begin() + 3, [&](ValueId id) {
    const auto form = forms.of(id);
    return form && form->is_host();
  });
}

}  // namespace kiln::codegen::gpu
