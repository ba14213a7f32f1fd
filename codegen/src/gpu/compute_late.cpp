#include "gpu/compute_late.h"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include <vector>

namespace kiln::codegen::gpu {
namespace {

bool is_computation(const llvm::Instruction& instruction) {
  if (instruction.isTerminator() || instruction.mayReadOrWriteMemory()) return false;
  if (llvm::isa<llvm::PHINode, llvm::AllocaInst>(instruction)) return false;
  // Some intrinsics are not known to return.
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
  return call ? !call->isConvergent() : !instruction.mayHaveSideEffects();
}

// The instructions of a block in their new order.
class Order {
 public:
  explicit Order(llvm::BasicBlock& block) : block_(block) {}

  std::vector<llvm::Instruction*> take() {
    for (llvm::Instruction& instruction : block_) {
      if (!is_computation(instruction) && !instruction.isTerminator()) append(instruction);
    }
    // What other blocks want, and the end.
    for (llvm::Instruction& instruction : block_) append(instruction);
    return std::move(order_);
  }

 private:
  // Operands first.
  void append(llvm::Instruction& last) {
    std::vector<std::pair<llvm::Instruction*, unsigned>> open;  // with the operand to look at next
    const auto visit = [&](llvm::Instruction& instruction) {
      if (placed_.insert(&instruction).second) open.emplace_back(&instruction, 0);
    };
    visit(last);
    while (!open.empty()) {
      auto& [instruction, next] = open.back();
      if (next == instruction->getNumOperands() || llvm::isa<llvm::PHINode>(instruction)) {
        order_.push_back(instruction);
        open.pop_back();
        continue;
      }
      auto* operand = llvm::dyn_cast<llvm::Instruction>(instruction->getOperand(next++));
      if (operand && operand->getParent() == &block_) visit(*operand);
    }
  }

  llvm::BasicBlock& block_;
  llvm::SmallPtrSet<llvm::Instruction*, 32> placed_;
  std::vector<llvm::Instruction*> order_;
};

}  // namespace

void compute_late(llvm::Function& function) {
  const llvm::DominatorTree tree(function);
  const llvm::LoopInfo loops(tree);
  for (llvm::BasicBlock& block : function) {
    if (loops.getLoopFor(&block)) continue;
    for (llvm::Instruction* instruction : Order(block).take()) instruction->moveBefore(block, block.end());
  }
}

}  // namespace kiln::codegen::gpu
