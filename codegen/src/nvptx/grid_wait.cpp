#include "nvptx/grid_wait.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "gpu/shared/shared_memory.h"

namespace kiln::codegen::nvptx {
namespace {

bool is_in_shared_memory(const llvm::Instruction& instruction) {
  const llvm::Value* pointer = llvm::getLoadStorePointerOperand(&instruction);
  return pointer && pointer->getType()->getPointerAddressSpace() == gpu::kSharedSpace;
}

// Assembly that makes transaction barriers and tensor maps ready.
bool prepares_copies(const llvm::CallInst& call) {
  const auto* assembly = llvm::dyn_cast<llvm::InlineAsm>(call.getCalledOperand());
  if (!assembly) return false;
  const llvm::StringRef text = assembly->getAsmString();
  return !text.contains("cp.") && (text.contains("mbarrier.init") || text.starts_with("fence.mbarrier_init") ||
                                   text.starts_with("fence.proxy.async") || text.contains("prefetch.tensormap"));
}

bool may_touch_global_memory(const llvm::Instruction& instruction) {
  if (!instruction.mayReadOrWriteMemory() || is_in_shared_memory(instruction)) return false;
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
  if (!call) return true;
  if (const auto* intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(call)) {
    // Barriers, exchanges between lanes.
    return !intrinsic->isAssumeLikeIntrinsic() && !intrinsic->onlyAccessesInaccessibleMemory() &&
           intrinsic->getIntrinsicID() != llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all;
  }
  return !prepares_copies(*call);
}

// The first instruction of what is done one after another from the beginning that may touch global memory, or before
// which nothing else can be known.
llvm::Instruction* first_access(llvm::Function& kernel) {
  llvm::BasicBlock* block = &kernel.getEntryBlock();
  while (true) {
    for (llvm::Instruction& instruction : *block) {
      if (instruction.isTerminator() || may_touch_global_memory(instruction)) {
        llvm::BasicBlock* next = instruction.isTerminator() ? block->getUniqueSuccessor() : nullptr;
        if (!next || !next->getUniquePredecessor()) return &instruction;
        block = next;
        break;
      }
    }
  }
}

bool has_assembly(const llvm::Module& module, llvm::StringRef what) {
  const auto has = [&](const llvm::Instruction& instruction) {
    const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
    const auto* assembly = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
    return assembly && llvm::StringRef(assembly->getAsmString()).contains(what);
  };
  return llvm::any_of(module,
                      [&](const llvm::Function& function) { return llvm::any_of(llvm::instructions(function), has); });
}

}  // namespace

bool may_begin_early(const llvm::Module& module) {
  return !has_assembly(module, "cp.async.bulk.") && !has_assembly(module, "ld.global.nc");
}

void wait_for_earlier_grids(llvm::Function& kernel) {
  llvm::IRBuilder<> ir(first_access(kernel));
  auto* type = llvm::FunctionType::get(ir.getVoidTy(), false);
  for (const char* instruction : {"griddepcontrol.wait;", "griddepcontrol.launch_dependents;"}) {
    ir.CreateCall(type, llvm::InlineAsm::get(type, instruction, "~{memory}", true));
  }
}

}  // namespace kiln::codegen::nvptx
