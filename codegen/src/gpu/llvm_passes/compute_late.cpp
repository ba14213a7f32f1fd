#include "gpu/llvm_passes/compute_late.h"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include <vector>

namespace kiln::codegen::gpu {
namespace {

// Words that a thread has loaded and what comes of them waits: more than a thread has registers. Then all is computed
// that can be, as it would be for nothing else if every load of a long block came before the first sum of them.
constexpr uint64_t kMostWaiting = 256;

bool is_computation(const llvm::Instruction& instruction) {
  if (instruction.isTerminator() || instruction.mayReadOrWriteMemory()) return false;
  if (llvm::isa<llvm::PHINode, llvm::AllocaInst>(instruction)) return false;
  // Some intrinsics are not known to return.
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
  return call ? !call->isConvergent() : !instruction.mayHaveSideEffects();
}

// Words of 32 bits.
uint64_t words(const llvm::Type& type) {
  if (const auto* fields = llvm::dyn_cast<llvm::StructType>(&type)) {
    uint64_t out = 0;
    for (const llvm::Type* field : fields->elements()) out += words(*field);
    return out;
  }
  return llvm::divideCeil(type.getPrimitiveSizeInBits().getFixedValue(), 32);
}

// The instructions of a block in their new order.
class Order {
 public:
  Order(llvm::BasicBlock& block, uint64_t most_waiting) : block_(block), most_waiting_(most_waiting) {}

  std::vector<llvm::Instruction*> take() {
    uint64_t waiting = 0;
    auto behind = block_.begin();  // the last that was computed because too much waited
    for (llvm::Instruction& instruction : block_) {
      if (is_computation(instruction) || instruction.isTerminator()) continue;
      if (instruction.mayReadFromMemory()) waiting += words(*instruction.getType());
      if (waiting > most_waiting_) {
        for (; &*behind != &instruction; ++behind) append(*behind);
        waiting = words(*instruction.getType());
      }
      append(instruction);
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
  const uint64_t most_waiting_;
  llvm::SmallPtrSet<llvm::Instruction*, 32> placed_;
  std::vector<llvm::Instruction*> order_;
};

}  // namespace

void compute_late(llvm::Function& function, bool has_products) {
  const uint64_t most_waiting = has_products ? UINT64_MAX : kMostWaiting;
  const llvm::DominatorTree tree(function);
  const llvm::LoopInfo loops(tree);
  for (llvm::BasicBlock& block : function) {
    if (loops.getLoopFor(&block)) continue;
    for (llvm::Instruction* instruction : Order(block, most_waiting).take())
      instruction->moveBefore(block, block.end());
  }
}

}  // namespace kiln::codegen::gpu
