#include "gpu/persistent.h"

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

}  // namespace

void set_program(Context& c, Value* number) {
  Builder& b = c.b;
  if (c.block.cluster > 1) {
    number = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, number, b.CreateSub(count_programs(c), b.getInt32(1)));
  }
  Value* lines = b.CreateUDiv(number, c.num_programs[0]);
  c.program_id = {b.CreateURem(number, c.num_programs[0]), b.CreateURem(lines, c.num_programs[1]),
                  b.CreateUDiv(lines, c.num_programs[1])};
}

ProgramLoop begin_programs(Context& c) {
  Builder& b = c.b;
  ProgramLoop loop{append_block(c, "program"), append_block(c, "programs.end")};
  Value* first = c.target.program_id(b, 0);
  llvm::BasicBlock* before = b.GetInsertBlock();
  b.CreateCondBr(goes_on(c, first), loop.body, loop.after);
  b.SetInsertPoint(loop.body);
  loop.number = b.CreatePHI(b.getInt32Ty(), 2, "number");
  loop.number->addIncoming(first, before);
  set_program(c, loop.number);
  return loop;
}

void end_programs(Context& c, const ProgramLoop& loop) {
  Builder& b = c.b;
  Value* next = b.CreateAdd(loop.number, c.target.num_programs(b, 0));
  loop.number->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(goes_on(c, next), loop.body, loop.after);
  b.SetInsertPoint(loop.after);
}

}  // namespace kiln::codegen::gpu
