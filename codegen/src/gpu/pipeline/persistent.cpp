#include "gpu/pipeline/persistent.h"

#include <algorithm>

#include "kiln/dsl/traits.h"

namespace kiln::codegen::gpu {
namespace {

Value* count_programs(Context& c) {
  return c.b.CreateMul(c.num_programs[0], c.b.CreateMul(c.num_programs[1], c.num_programs[2]), "programs");
}

llvm::BasicBlock* append_block(Context& c, const char* name) {
  return llvm::BasicBlock::Create(c.b.getContext(), name, c.function);
}

// Whether a block has a program, or its neighbour of the cluster has.
Value* goes_on(Context& c, Value* number) {
  Builder& b = c.b;
  if (c.block.cluster > 1) number = b.CreateAnd(number, b.getInt32(static_cast<uint32_t>(-c.block.cluster)));
  return b.CreateICmpULT(number, count_programs(c));
}

// Numbers come until there is one behind the last program.
ProgramLoop begin_queued_programs(Context& c, ProgramRole role) {
  Builder& b = c.b;
  ProgramLoop loop{append_block(c, "programs"), append_block(c, "program"), append_block(c, "programs.end")};
  const bool gives = role == ProgramRole::kCopies;
  Value* own = c.target.program_id(b, 0);
  llvm::BasicBlock* before = b.GetInsertBlock();
  b.CreateBr(loop.head);
  b.SetInsertPoint(loop.head);
  if (gives) {
    loop.given = b.CreatePHI(b.getInt32Ty(), 2, "number");
    loop.given->addIncoming(own, before);
  }
  const QueueEnd end = begin_queue(c, gives);
  if (gives) give_program(c, end, loop.given);
  loop.number = gives ? loop.given : take_program(c, end);
  b.CreateCondBr(goes_on(c, loop.number), loop.body, loop.after);
  b.SetInsertPoint(loop.body);
  set_program(c, loop.number);
  return loop;
}

void end_queued_programs(Context& c, const ProgramLoop& loop) {
  Builder& b = c.b;
  if (loop.given) {
    Value* counted = count_program(c, count_programs(c));
    loop.given->addIncoming(b.CreateAdd(c.target.num_programs(b, 0), counted), b.GetInsertBlock());
  }
  b.CreateBr(loop.head);
  b.SetInsertPoint(loop.after);
}

}  // namespace

void set_program(Context& c, Value* number) {
  Builder& b = c.b;
  if (c.block.cluster > 1) {
    number = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, number, b.CreateSub(count_programs(c), b.getInt32(1)));
  }
  // Divisions are what the first copies of a program would wait for: none where the grid has one axis.
  size_t axes = c.kernel.grid.size();
  while (axes > 1 && c.kernel.grid[axes - 1].as_constant() == 1) --axes;
  c.program_id = {number, b.getInt32(0), b.getInt32(0)};
  for (size_t axis = 1; axis < axes; ++axis) {
    Value* lines = b.CreateUDiv(c.program_id[axis - 1], c.num_programs[axis - 1]);
    c.program_id[axis - 1] = b.CreateURem(c.program_id[axis - 1], c.num_programs[axis - 1]);
    c.program_id[axis] = lines;
  }
}

ProgramLoop begin_programs(Context& c, ProgramRole role) {
  if (c.block.queued) return begin_queued_programs(c, role);
  Builder& b = c.b;
  ProgramLoop loop{nullptr, append_block(c, "program"), append_block(c, "programs.end")};
  Value* place = c.target.program_id(b, 0);
  if (role == ProgramRole::kComputes && c.crew) {
    place = b.CreateAdd(place, b.CreateMul(c.crew, c.target.num_programs(b, 0)));
    loop.crews = c.block.crews;
  }
  llvm::BasicBlock* before = b.GetInsertBlock();
  b.CreateCondBr(goes_on(c, place), loop.body, loop.after);
  b.SetInsertPoint(loop.body);
  loop.first = b.CreatePHI(b.getInt32Ty(), 2, "first");
  loop.first->addIncoming(b.getInt32(0), before);
  loop.place = b.CreatePHI(b.getInt32Ty(), 2, "place");
  loop.place->addIncoming(place, before);
  loop.number = b.CreateAdd(loop.first, loop.place, "number");
  set_program(c, loop.number);
  return loop;
}

void end_programs(Context& c, const ProgramLoop& loop) {
  if (c.block.queued) return end_queued_programs(c, loop);
  Builder& b = c.b;
  Value* blocks = c.target.num_programs(b, 0);
  Value* first = b.CreateAdd(loop.first, b.CreateMul(blocks, b.getInt32(static_cast<uint32_t>(loop.crews))));
  Value* place = loop.place;
  if (c.block.turns) place = b.CreateSub(b.CreateSub(blocks, b.getInt32(1)), place);
  loop.first->addIncoming(first, b.GetInsertBlock());
  loop.place->addIncoming(place, b.GetInsertBlock());
  b.CreateCondBr(goes_on(c, b.CreateAdd(first, place)), loop.body, loop.after);
  b.SetInsertPoint(loop.after);
}

bool is_fit_for_crews(const dsl::Kernel& kernel, const Op& loop, const std::vector<AxisInfo>& info,
                      const Pipeline& pipeline) {
  const auto is_product = [](const Op& op) { return family_of(op) == dsl::OpFamily::kDot; };
  const auto is_flat = [](const Op& op) { return op.regions.empty(); };
  const std::vector<Op>& body = loop.regions[0].ops;
  LinearForms forms(kernel, info);
  return pipeline.factors.empty() && std::ranges::all_of(body, is_flat) &&
         std::ranges::count_if(body, is_product) == 1 && is_alike_in_all_programs(loop, forms);
}

bool is_alike_in_all_programs(const Op& loop, LinearForms& forms) {
  return std::all_of(loop.operands.begin(), loop.operands.begin() + 3, [&](ValueId id) {
    const auto form = forms.of(id);
    return form && form->is_host();
  });
}

}  // namespace kiln::codegen::gpu
