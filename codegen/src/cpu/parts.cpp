#include "cpu/parts.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include "piece.h"

namespace kiln::codegen::cpu {
namespace {

using llvm::BasicBlock;
using llvm::Function;
using llvm::Instruction;
using llvm::Value;

// Instructions. A function of 26000, of a thousand tile stores, takes LLVM half a minute.
constexpr size_t kLongFunction = 16000;

// The call in place of the piece. What the others use of it is loaded behind the call.
void call(Function& parent, Piece& piece, Function& part, BasicBlock& first, BasicBlock& next) {
  llvm::IRBuilder<> ir(parent.getContext());
  auto* caller = BasicBlock::Create(parent.getContext(), "part", &parent, &first);
  piece.enter_by(*caller);
  ir.SetInsertPoint(&parent.getEntryBlock(), parent.getEntryBlock().begin());
  std::vector<Value*> arguments(piece.inputs().begin(), piece.inputs().end());
  for (const Instruction* output : piece.outputs()) arguments.push_back(ir.CreateAlloca(output->getType()));
  ir.SetInsertPoint(caller);
  Value* result = ir.CreateCall(&part, arguments);
  for (size_t i = 0; i < piece.outputs().size(); ++i) {
    piece.replace_output(i, *ir.CreateLoad(piece.outputs()[i]->getType(), arguments[piece.inputs().size() + i]));
  }
  if (!piece.returns()) {
    ir.CreateBr(&next);
    return;
  }
  auto* early = BasicBlock::Create(parent.getContext(), "early", &parent);
  ir.CreateCondBr(ir.CreateIsNull(result), &next, early);
  ir.SetInsertPoint(early);
  ir.CreateRet(result);
}

void outline(Function& parent, Piece& piece, BasicBlock& first, BasicBlock& next) {
  piece.find_values();
  std::vector<llvm::Type*> types;
  for (const Value* input : piece.inputs()) types.push_back(input->getType());
  llvm::IRBuilder<> ir(parent.getContext());
  types.insert(types.end(), piece.outputs().size(), ir.getPtrTy());
  auto* part = Function::Create(llvm::FunctionType::get(ir.getInt32Ty(), types, false), Function::InternalLinkage,
                                parent.getName() + ".part", parent.getParent());
  part->copyAttributesFrom(&parent);
  part->setLinkage(Function::InternalLinkage);
  part->addFnAttr(llvm::Attribute::NoInline);
  call(parent, piece, *part, first, next);
  BasicBlock& done = piece.move_into(*part);
  for (size_t i = 0; i < piece.outputs().size(); ++i) {
    Instruction* output = piece.outputs()[i];
    ir.SetInsertPoint(output->getParent(), *output->getInsertionPointAfterDef());
    ir.CreateStore(output, part->getArg(static_cast<unsigned>(piece.inputs().size() + i)));
  }
  ir.SetInsertPoint(&done);
  ir.CreateRet(ir.getInt32(0));
}

}  // namespace

void split_into_parts(Function& function, const Cuts& cuts) {
  const bool is_long = function.getInstructionCount() > kLongFunction;
  for (const std::vector<BasicBlock*>& blocks : cuts) {
    for (size_t i = 0; i + 1 < blocks.size() && is_long; ++i) {
      Piece piece(*blocks[i], *blocks[i + 1]);
      if (piece.find_blocks()) outline(function, piece, *blocks[i], *blocks[i + 1]);
    }
    for (BasicBlock* block : blocks) {
      if (!is_long) llvm::MergeBlockIntoPredecessor(block);
    }
  }
}

}  // namespace kiln::codegen::cpu
