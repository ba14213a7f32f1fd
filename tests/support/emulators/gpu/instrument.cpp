#include "instrument.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/ReplaceConstant.h>

#include "emulated_target.h"
#include "gpu/shared/shared_memory.h"

namespace kiln::test {
namespace {

using Builder = llvm::IRBuilder<>;
using llvm::Value;

constexpr char kSharedMemory[] = "kiln_shared";

void host_shared(Thread* thread, const void* pointer, uint32_t bytes, uint32_t writes) {
  thread->block->check_shared(*thread, pointer, bytes, writes != 0);
}

struct Access {
  llvm::Instruction* instruction;
  Value* pointer;
  llvm::Type* type;
  bool writes;
};

std::vector<Access> shared_accesses(llvm::Function& kernel) {
  std::vector<Access> out;
  for (llvm::Instruction& i : llvm::instructions(kernel)) {
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&i))
      out.push_back({load, load->getPointerOperand(), load->getType(), false});
    if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&i)) {
      out.push_back({store, store->getPointerOperand(), store->getValueOperand()->getType(), true});
    }
  }
  std::erase_if(out, [](const Access& access) {
    return access.pointer->getType()->getPointerAddressSpace() != codegen::gpu::kSharedSpace;
  });
  return out;
}

}  // namespace

void place_shared_memory(llvm::Module& module, llvm::Function& kernel) {
  llvm::GlobalVariable* memory = module.getNamedGlobal(kSharedMemory);
  if (!memory) return;
  llvm::convertUsersOfConstantsToInstructions({memory});
  memory->replaceAllUsesWith(EmulatedTarget::shared_of(kernel));
  memory->eraseFromParent();
}

void watch_shared_memory(llvm::Function& kernel) {
  const llvm::DataLayout& layout = kernel.getParent()->getDataLayout();
  for (const Access& access : shared_accesses(kernel)) {
    // A write is told when its bytes are there.
    Builder b(access.writes ? access.instruction->getNextNode() : access.instruction);
    const auto bytes = static_cast<uint32_t>(layout.getTypeStoreSize(access.type).getFixedValue());
    Value* pointer = b.CreateAddrSpaceCast(access.pointer, b.getPtrTy());
    call_host(b, host_shared, b.getVoidTy(), {pointer, b.getInt32(bytes), b.getInt32(access.writes ? 1 : 0)});
  }
}

void add_entry(llvm::Module& module, llvm::Function& kernel, int lanes) {
  llvm::LLVMContext& context = module.getContext();
  auto* pointer = llvm::PointerType::get(context, 0);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, pointer, pointer}, false);
  auto* entry = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "kiln_emulated_entry", module);
  Builder b(llvm::BasicBlock::Create(context, "entry", entry));
  llvm::SmallVector<Value*, 8> arguments;
  const unsigned own = kernel.arg_size() - 2;
  for (unsigned i = 0; i < own; ++i) {
    Value* slot = b.CreateConstGEP1_64(b.getInt8Ty(), entry->getArg(0), 8 * i);
    arguments.push_back(b.CreateLoad(kernel.getArg(i)->getType(), slot));
  }
  arguments.push_back(entry->getArg(1));
  arguments.push_back(b.CreateAddrSpaceCast(entry->getArg(2), b.getPtrTy(codegen::gpu::kSharedSpace)));
  b.CreateCall(&kernel, arguments);
  b.CreateRetVoid();
  new llvm::GlobalVariable(module, b.getInt32Ty(), /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
                           b.getInt32(static_cast<uint32_t>(lanes)), "kiln_emulated_lanes");
}

}  // namespace kiln::test
