#include "cpu/parts.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

namespace kiln::codegen::cpu {
namespace {

using llvm::BasicBlock;
using llvm::Function;
using llvm::Instruction;
using llvm::Value;

// Instructions. A function of 26000, of a thousand tile stores, takes LLVM half a minute.
constexpr size_t kLongFunction = 16000;

class Part {
 public:
  Part(BasicBlock& first, BasicBlock& next) : first_(first), next_(next), parent_(*first.getParent()) {}

  // False where it is no piece that begins and ends there alone.
  bool find_blocks() {
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

  void outline() {
    find_values();
    std::vector<llvm::Type*> types;
    for (const Value* input : inputs_) types.push_back(input->getType());
    llvm::IRBuilder<> b(parent_.getContext());
    types.insert(types.end(), outputs_.size(), b.getPtrTy());
    auto* part = Function::Create(llvm::FunctionType::get(b.getInt32Ty(), types, false), Function::InternalLinkage,
                                  parent_.getName() + ".part", parent_.getParent());
    part->copyAttributesFrom(&parent_);
    part->setLinkage(Function::InternalLinkage);
    part->addFnAttr(llvm::Attribute::NoInline);
    call(*part, b);
    take_blocks(*part, b);
  }

 private:
  bool is_inside(const Value* value) const {
    const auto* instruction = llvm::dyn_cast<Instruction>(value);
    return instruction && blocks_.contains(const_cast<BasicBlock*>(instruction->getParent()));
  }
  bool is_used_inside_alone(const Value& value) const {
    return llvm::all_of(value.users(), [&](const Value* user) { return is_inside(user); });
  }

  void find_values() {
    for (BasicBlock* block : blocks_) {
      for (Instruction& instruction : *block) {
        for (Value* operand : instruction.operands()) {
          if (!llvm::isa<Instruction, llvm::Argument>(operand) || is_inside(operand)) continue;
          auto* place = llvm::dyn_cast<llvm::AllocaInst>(operand);
          if (inputs_.contains(operand) || places_.contains(place)) continue;
          // A variable of this piece alone moves there.
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

  // The call in place of the piece. What the others use of it is loaded behind the call.
  void call(Function& part, llvm::IRBuilder<>& b) {
    auto* caller = BasicBlock::Create(parent_.getContext(), "part", &parent_, &first_);
    first_.replaceUsesWithIf(caller, [&](llvm::Use& use) { return !is_inside(use.getUser()); });
    b.SetInsertPoint(&parent_.getEntryBlock(), parent_.getEntryBlock().begin());
    std::vector<Value*> arguments(inputs_.begin(), inputs_.end());
    for (const Instruction* output : outputs_) arguments.push_back(b.CreateAlloca(output->getType()));
    b.SetInsertPoint(caller);
    Value* result = b.CreateCall(&part, arguments);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      Value* loaded = b.CreateLoad(outputs_[i]->getType(), arguments[inputs_.size() + i]);
      outputs_[i]->replaceUsesWithIf(loaded, [&](llvm::Use& use) { return !is_inside(use.getUser()); });
    }
    if (!returns_) {
      b.CreateBr(&next_);
      return;
    }
    auto* early = BasicBlock::Create(parent_.getContext(), "early", &parent_);
    b.CreateCondBr(b.CreateIsNull(result), &next_, early);
    b.SetInsertPoint(early);
    b.CreateRet(result);
  }

  void take_blocks(Function& part, llvm::IRBuilder<>& b) {
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
    for (size_t i = 0; i < outputs_.size(); ++i) {
      Instruction* output = outputs_[i];
      b.SetInsertPoint(output->getParent(), *output->getInsertionPointAfterDef());
      b.CreateStore(output, part.getArg(static_cast<unsigned>(inputs_.size() + i)));
    }
    b.SetInsertPoint(entry);
    llvm::Instruction* begin = b.CreateBr(&first_);
    for (llvm::AllocaInst* place : places_) place->moveBefore(begin);
    b.SetInsertPoint(done);
    b.CreateRet(b.getInt32(0));
  }

  BasicBlock &first_, &next_;
  Function& parent_;
  llvm::SetVector<BasicBlock*> blocks_;
  llvm::SetVector<Value*> inputs_;
  llvm::SetVector<llvm::AllocaInst*> places_;
  std::vector<Instruction*> outputs_;
  bool returns_ = false;
};

}  // namespace

void split_into_parts(Function& function, const Cuts& cuts) {
  const bool is_long = function.getInstructionCount() > kLongFunction;
  for (const std::vector<BasicBlock*>& blocks : cuts) {
    for (size_t i = 0; i + 1 < blocks.size() && is_long; ++i) {
      Part part(*blocks[i], *blocks[i + 1]);
      if (part.find_blocks()) part.outline();
    }
    for (BasicBlock* block : blocks) {
      if (!is_long) llvm::MergeBlockIntoPredecessor(block);
    }
  }
}

}  // namespace kiln::codegen::cpu
