#include "gpu/branches.h"

namespace kiln::codegen::gpu {
namespace {

llvm::BasicBlock* new_block(Context& ctx, const char* name, const char* suffix) {
  return llvm::BasicBlock::Create(ctx.ir.getContext(), std::string(name) + suffix, ctx.function);
}

}  // namespace

Result<Registers> emit_either(Context& ctx, Value* condition, const char* name, Branch then, Branch otherwise) {
  Builder& ir = ctx.ir;
  llvm::BasicBlock *inside = new_block(ctx, name, ""), *beside = new_block(ctx, name, ".else");
  llvm::BasicBlock* after = new_block(ctx, name, ".end");
  ir.CreateCondBr(condition, inside, beside);
  const auto fill = [&](llvm::BasicBlock*& block, Branch branch) {
    ir.SetInsertPoint(block);
    auto out = branch();
    block = ir.GetInsertBlock();
    ir.CreateBr(after);
    return out;
  };
  const auto chosen = fill(inside, then), other = fill(beside, otherwise);
  if (!chosen || !other) return chosen ? other : chosen;
  ir.SetInsertPoint(after);
  Registers out;
  for (size_t reg = 0; reg < chosen->size(); ++reg) {
    auto* x = ir.CreatePHI((*chosen)[reg]->getType(), 2);
    x->addIncoming((*chosen)[reg], inside);
    x->addIncoming((*other)[reg], beside);
    out.push_back(x);
  }
  return out;
}

Result<Registers> emit_if(Context& ctx, Value* condition, const char* name, const Registers& otherwise, Branch then) {
  return emit_either(ctx, condition, name, then, [&]() -> Result<Registers> { return otherwise; });
}

void emit_if(Context& ctx, Value* condition, const char* name, llvm::function_ref<void()> then) {
  (void)emit_if(ctx, condition, name, {}, [&]() -> Result<Registers> {
    then();
    return Registers();
  });
}

Result<Registers> emit_while(Context& ctx, const char* name, const Registers& start,
                             llvm::function_ref<Value*(const Registers&)> condition,
                             llvm::function_ref<Result<Registers>(const Registers&)> body) {
  Builder& ir = ctx.ir;
  llvm::BasicBlock *before = ir.GetInsertBlock(), *head = new_block(ctx, name, "");
  llvm::BasicBlock *inside = new_block(ctx, name, ".body"), *after = new_block(ctx, name, ".end");
  ir.CreateBr(head);
  ir.SetInsertPoint(head);
  Registers out;
  for (Value* x : start) {
    auto* carried = ir.CreatePHI(x->getType(), 2);
    carried->addIncoming(x, before);
    out.push_back(carried);
  }
  ir.CreateCondBr(condition(out), inside, after);
  ir.SetInsertPoint(inside);
  const auto next = body(out);
  if (!next) return next;
  for (size_t reg = 0; reg < out.size(); ++reg) {
    llvm::cast<llvm::PHINode>(out[reg])->addIncoming((*next)[reg], ir.GetInsertBlock());
  }
  ir.CreateBr(head);
  ir.SetInsertPoint(after);
  return out;
}

}  // namespace kiln::codegen::gpu
