#include "gpu/llvm_passes/read_late.h"

#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>

#include <vector>

#include "gpu/shared/shared_memory.h"

namespace kiln::codegen::gpu {
namespace {

using llvm::Instruction;

bool is_read(const Instruction& instruction) {
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
  return load && load->isSimple() && load->getPointerAddressSpace() == kSharedSpace;
}

// The parts of a vector that is read.
bool is_part(const Instruction& instruction) {
  return llvm::isa<llvm::ExtractElementInst, llvm::CastInst>(instruction);
}

// Operations on an address, from the last: each of one value and constants.
constexpr int kAddressOperations = 4;

bool is_on_address(const llvm::Value* value) {
  if (!llvm::isa<llvm::GetElementPtrInst, llvm::BinaryOperator>(value)) return false;
  const auto& operands = llvm::cast<Instruction>(value)->operands();
  return llvm::count_if(operands, [](const llvm::Use& use) { return !llvm::isa<llvm::Constant>(use); }) == 1;
}

// What leads to the address of a read, as far as it stands elsewhere or serves others, again.
void compute_address_at(Instruction& read) {
  Instruction* user = &read;
  for (int i = 0; i < kAddressOperations; ++i) {
    llvm::Use* next = llvm::find_if(user->operands(), [](llvm::Use& use) { return is_on_address(use); });
    if (next == user->op_end()) return;
    Instruction* copy = llvm::cast<Instruction>(*next)->clone();
    copy->insertBefore(user->getIterator());
    next->set(copy);
    user = copy;
  }
}

// The instructions of a block in their new order.
class Order {
 public:
  std::vector<Instruction*> take(llvm::BasicBlock& block) {
    for (Instruction& instruction : block) {
      if (is_read(instruction) || (is_part(instruction) && waits(instruction.getOperand(0)))) {
        waiting_.insert({&instruction, true});
      } else {
        if (instruction.mayWriteToMemory() || instruction.isTerminator()) append_all();
        append(instruction);
      }
    }
    return std::move(order_);
  }

 private:
  bool waits(const llvm::Value* value) const {
    const auto found = waiting_.find(llvm::dyn_cast<Instruction>(value));
    return found != waiting_.end() && found->second;
  }

  // What it waits for is a part of a part of what is read, at the most: no chain is deep.
  void append(Instruction& instruction) {
    if (!llvm::isa<llvm::PHINode>(instruction)) {
      for (llvm::Value* operand : instruction.operands()) {
        if (waits(operand)) append_waiting(*llvm::cast<Instruction>(operand));
      }
    }
    order_.push_back(&instruction);
  }
  void append_waiting(Instruction& instruction) {
    waiting_[&instruction] = false;
    append(instruction);
  }
  void append_all() {
    for (const auto& [instruction, is_waiting] : waiting_) {
      if (is_waiting) append_waiting(*const_cast<Instruction*>(instruction));
    }
    waiting_.clear();
  }

  llvm::MapVector<const Instruction*, bool> waiting_;
  std::vector<Instruction*> order_;
};

}  // namespace

void read_late(llvm::Function& function) {
  for (llvm::BasicBlock& block : function) {
    for (Instruction* instruction : Order().take(block)) instruction->moveBefore(block, block.end());
    for (Instruction& instruction : block) {
      if (is_read(instruction)) compute_address_at(instruction);
    }
  }
}

}  // namespace kiln::codegen::gpu
