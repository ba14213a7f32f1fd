#include "piece.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/IRBuilder.h>

namespace kiln::codegen {

using llvm::BasicBlock;
using llvm::Instruction;
using llvm::Value;

bool Piece::find_blocks() {
  blocks_.insert(&first_);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    for (BasicBlock* to : llvm::successors(blocks_[i])) {
      if (to != &next_) blocks_.insert(to);
    }
    returns_ = returns_ || llvm::isa<llvm::ReturnInst>(blocks_[i]->getTerminator());
  }
  const auto from_inside = [&](BasicBlock* block) {
    return llvm::all_of(llvm::predecessors(block), [&](BasicBlock* from) { return blocks_.contains(from); });
  };
  const auto from_outside = [&](BasicBlock* block) {
    return llvm::none_of(llvm::predecessors(block), [&](BasicBlock* from) { return blocks_.contains(from); });
  };
  return !llvm::isa<llvm::PHINode>(next_.front()) && !llvm::isa<llvm::PHINode>(first_.front()) &&
         from_outside(&first_) && from_inside(&next_) && llvm::all_of(llvm::drop_begin(blocks_), from_inside);
}

size_t Piece::instructions() const {
  size_t sum = 0;
  for (const BasicBlock* block : blocks_) sum += block->size();
  return sum;
}

bool Piece::is_inside(const Value* value) const {
  const auto* instruction = llvm::dyn_cast<Instruction>(value);
  return instruction && blocks_.contains(const_cast<BasicBlock*>(instruction->getParent()));
}

bool Piece::is_used_inside_alone(const Value& value) const {
  return llvm::all_of(value.users(), [&](const Value* user) { return is_inside(user); });
}

void Piece::find_values() {
  for (BasicBlock* block : blocks_) {
    for (Instruction& instruction : *block) {
      for (Value* operand : instruction.operands()) {
        if (!llvm::isa<Instruction, llvm::Argument>(operand) || is_inside(operand)) continue;
        auto* place = llvm::dyn_cast<llvm::AllocaInst>(operand);
        if (inputs_.contains(operand) || places_.contains(place)) continue;
        if (place && is_used_inside_alone(*place)) {
          places_.insert(place);
        } else {
          inputs_.insert(operand);
        }
      }
      if (!is_used_inside_alone(instruction)) outputs_.push_back(&instruction);
    }
  }
}

void Piece::enter_by(BasicBlock& caller) {
  first_.replaceUsesWithIf(&caller, [&](llvm::Use& use) { return !is_inside(use.getUser()); });
}

void Piece::replace_output(size_t i, Value& by) {
  outputs_[i]->replaceUsesWithIf(&by, [&](llvm::Use& use) { return !is_inside(use.getUser()); });
}

BasicBlock& Piece::move_into(llvm::Function& part) {
  auto* entry = BasicBlock::Create(part.getContext(), "entry", &part);
  auto* done = BasicBlock::Create(part.getContext(), "done", &part);
  for (BasicBlock* block : blocks_) {
    block->removeFromParent();
    block->insertInto(&part);
    block->getTerminator()->replaceSuccessorWith(&next_, done);
  }
  llvm::DenseMap<Value*, Value*> given;
  for (size_t i = 0; i < inputs_.size(); ++i) given[inputs_[i]] = part.getArg(static_cast<unsigned>(i));
  for (BasicBlock* block : blocks_) {
    for (Instruction& instruction : *block) {
      for (llvm::Use& operand : instruction.operands()) {
        if (const auto found = given.find(operand.get()); found != given.end()) operand.set(found->second);
      }
    }
  }
  llvm::IRBuilder<> b(entry);
  const llvm::BasicBlock::iterator begin = b.CreateBr(&first_)->getIterator();
  for (llvm::AllocaInst* place : places_) place->moveBefore(begin);
  return *done;
}

}  // namespace kiln::codegen
