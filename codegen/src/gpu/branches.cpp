#include "gpu/branches.h"

namespace kiln::codegen::gpu {
namespace {

llvm::BasicBlock* new_block(Context& c, const char* name, const char* suffix) {
  return llvm::BasicBlock::Create(c.b.getContext(), std::string(name) + suffix, c.function);
}

}  // namespace

Result<Registers> emit_either(Context& c, Value* condition, const char* name, Branch then, Branch otherwise) {
  Builder& b = c.b;
  llvm::BasicBlock *inside = new_block(c, name, ""), *beside = new_block(c, name, ".else");
  llvm::BasicBlock* after = new_block(c, name, ".end");
  b.CreateCondBr(condition, inside, beside);
  const auto fill = [&](llvm::BasicBlock*& block, Branch branch) {
    b.SetInsertPoint(block);
    auto out = branch();
    block = b.GetInsertBlock();
    b.CreateBr(after);
    return out;
  };
  const auto chosen = fill(inside, then), other = fill(beside, otherwise);
  if (!chosen || !other) return chosen ? other : chosen;
  b.SetInsertPoint(after);
  Registers out;
  for (size_t reg = 0; reg < chosen->size(); ++reg) {
    auto* x = b.CreatePHI((*chosen)[reg]->getType(), 2);
    x->addIncoming((*chosen)[reg], inside);
    x->addIncoming((*other)[reg], beside);
    out.push_back(x);
  }
  return out;
}

Result<Registers> emit_if(Context& c, Value* condition, const char* name, const Registers& otherwise, Branch then) {
  return emit_either(c, condition, name, then, [&]() -> Result<Registers> { return otherwise; });
}

void emit_if(Context& c, Value* condition, const char* name, llvm::function_ref<void()> then) {
  (void)emit_if(c, condition, name, {}, [&]() -> Result<Registers> {
    then();
    return Registers();
  });
}

Result<Registers> emit_while(Context& c, const char* name, const Registers& start,
                             llvm::function_ref<Value*(const Registers&)> condition,
                             llvm::function_ref<Result<Registers>(const Registers&)> body) {
  Builder& b = c.b;
  llvm::BasicBlock *before = b.GetInsertBlock(), *head = new_block(c, name, "");
  llvm::BasicBlock *inside = new_block(c, name, ".body"), *after = new_block(c, name, ".end");
  b.CreateBr(head);
  b.SetInsertPoint(head);
  Registers out;
  for (Value* x : start) {
    auto* carried = b.CreatePHI(x->getType(), 2);
    carried->addIncoming(x, before);
    out.push_back(carried);
  }
  b.CreateCondBr(condition(out), inside, after);
  b.SetInsertPoint(inside);
  const auto next = body(out);
  if (!next) return next;
  for (size_t reg = 0; reg < out.size(); ++reg) {
    llvm::cast<llvm::PHINode>(out[reg])->addIncoming((*next)[reg], b.GetInsertBlock());
  }
  b.CreateBr(head);
  b.SetInsertPoint(after);
  return out;
}

}  // namespace kiln::codegen::gpu
