#include "gpu/persistent.h"

namespace kiln::codegen::gpu {
namespace {

Value* count_programs(Context& c) {
  return c.b.CreateMul(c.num_programs[0], c.b.CreateMul(c.num_programs[1], c.num_programs[2]), "programs");
}

llvm::BasicBlock* append_block(Context& c, const char* name) {
  return llvm::BasicBlock::Create(c.b.getContext(), name, c.function);
}

}  // namespace

ProgramLoop begin_programs(Context& c) {
  Builder& b = c.b;
  ProgramLoop loop{append_block(c, "program"), append_block(c, "programs.end")};
  Value* first = c.target.program_id(b, 0);
  llvm::BasicBlock* before = b.GetInsertBlock();
  b.CreateCondBr(b.CreateICmpULT(first, count_programs(c)), loop.body, loop.after);
  b.SetInsertPoint(loop.body);
  loop.number = b.CreatePHI(b.getInt32Ty(), 2, "number");
  loop.number->addIncoming(first, before);
  Value* lines = b.CreateUDiv(loop.number, c.num_programs[0]);
  c.program_id = {b.CreateURem(loop.number, c.num_programs[0]), b.CreateURem(lines, c.num_programs[1]),
                  b.CreateUDiv(lines, c.num_programs[1])};
  return loop;
}

void end_programs(Context& c, const ProgramLoop& loop) {
  Builder& b = c.b;
  Value* next = b.CreateAdd(loop.number, c.target.num_programs(b, 0));
  loop.number->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpULT(next, count_programs(c)), loop.body, loop.after);
  b.SetInsertPoint(loop.after);
}

}  // namespace kiln::codegen::gpu
