// A piece of a function that is to become a function of its own: blocks that begin at one and go on at another alone.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

#include <vector>

namespace kiln::codegen {

class Piece {
 public:
  // From `first` to before `next`.
  Piece(llvm::BasicBlock& first, llvm::BasicBlock& next) : first_(first), next_(next), parent_(*first.getParent()) {}

  // False where it is no piece that begins and ends there alone, but for what returns from the function.
  bool find_blocks();
  bool returns() const { return returns_; }
  size_t instructions() const;

  // What it takes from outside, and what others take from it. Variables of this piece alone move along.
  void find_values();
  const llvm::SetVector<llvm::Value*>& inputs() const { return inputs_; }
  const std::vector<llvm::Instruction*>& outputs() const { return outputs_; }

  // Whoever came to the piece comes to this block instead, and others use these in place of the outputs.
  void enter_by(llvm::BasicBlock& caller);
  void replace_output(size_t i, llvm::Value& by);

  // The blocks become the function's, whose first arguments are the inputs. The block that comes last, still empty.
  llvm::BasicBlock& move_into(llvm::Function& part);

 private:
  bool is_inside(const llvm::Value* value) const;
  bool is_used_inside_alone(const llvm::Value& value) const;

  llvm::BasicBlock &first_, &next_;
  llvm::Function& parent_;
  llvm::SetVector<llvm::BasicBlock*> blocks_;
  llvm::SetVector<llvm::Value*> inputs_;
  llvm::SetVector<llvm::AllocaInst*> places_;
  std::vector<llvm::Instruction*> outputs_;
  bool returns_ = false;
};

}  // namespace kiln::codegen
