#include "cpu/custom.h"

#include <llvm/IR/IRBuilder.h>

#include "custom_ir.h"
#include "diagnostics.h"
#include "emit.h"
#include "kiln/abi/launch_block.h"
#include "llvm_pass.h"
#include "reports.h"
#include "target.h"

namespace kiln::codegen::cpu {
namespace {

constexpr size_t kProgramIds = 3;
using EntryBuilder = llvm::IRBuilder<>;

// At their places in the block; a number below 32 bits as it lies there.
llvm::SmallVector<llvm::Value*> load_arguments(EntryBuilder& ir, llvm::Function& program, llvm::Value* block,
                                               const dsl::Kernel& kernel) {
  llvm::SmallVector<llvm::Value*> out;
  const abi::ParamLayout layout = abi::lay_out_params(kernel);
  for (size_t i = 0; i < layout.slots.size(); ++i) {
    llvm::Argument& parameter = *program.getArg(static_cast<unsigned>(i));
    llvm::Value* at = ir.CreateConstInBoundsGEP1_64(ir.getInt8Ty(), block, layout.slots[i].offset);
    out.push_back(ir.CreateAlignedLoad(parameter.getType(), at, llvm::Align(layout.slots[i].size)));
  }
  return out;
}

void call_program(EntryBuilder& ir, llvm::Function& program, llvm::SmallVector<llvm::Value*> arguments,
                  llvm::Value* number, llvm::Value* gx, llvm::Value* gy) {
  llvm::Value* rest = ir.CreateUDiv(number, gx);
  arguments.push_back(ir.CreateTrunc(ir.CreateURem(number, gx), ir.getInt32Ty()));
  arguments.push_back(ir.CreateTrunc(ir.CreateURem(rest, gy), ir.getInt32Ty()));
  arguments.push_back(ir.CreateTrunc(ir.CreateUDiv(rest, gy), ir.getInt32Ty()));
  ir.CreateCall(&program, arguments)->setCallingConv(program.getCallingConv());
}

void add_entry(llvm::Module& module, llvm::Function& program, const dsl::Kernel& kernel) {
  llvm::LLVMContext& context = module.getContext();
  EntryBuilder ir(context);
  auto* type = llvm::FunctionType::get(
      ir.getInt32Ty(), {ir.getPtrTy(), ir.getPtrTy(), ir.getInt64Ty(), ir.getInt64Ty(), ir.getPtrTy()}, false);
  llvm::Function* entry = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kEntry, module);
  auto* begin = llvm::BasicBlock::Create(context, "begin", entry);
  auto* head = llvm::BasicBlock::Create(context, "head", entry);
  auto* body = llvm::BasicBlock::Create(context, "body", entry);
  auto* end = llvm::BasicBlock::Create(context, "end", entry);
  ir.SetInsertPoint(begin);
  const llvm::SmallVector<llvm::Value*> arguments = load_arguments(ir, program, entry->getArg(0), kernel);
  llvm::Value* extents[2];
  for (uint64_t axis = 0; axis < 2; ++axis) {
    llvm::Value* at = ir.CreateConstInBoundsGEP1_64(ir.getInt32Ty(), entry->getArg(1), axis);
    extents[axis] = ir.CreateZExt(ir.CreateLoad(ir.getInt32Ty(), at), ir.getInt64Ty());
  }
  ir.CreateBr(head);
  ir.SetInsertPoint(head);
  llvm::PHINode* number = ir.CreatePHI(ir.getInt64Ty(), 2);
  number->addIncoming(entry->getArg(2), begin);
  ir.CreateCondBr(ir.CreateICmpULT(number, entry->getArg(3)), body, end);
  ir.SetInsertPoint(body);
  call_program(ir, program, arguments, number, extents[0], extents[1]);
  number->addIncoming(ir.CreateAdd(number, ir.getInt64(1)), body);
  ir.CreateBr(head);
  ir.SetInsertPoint(end);
  ir.CreateRet(ir.getInt32(0));
}

}  // namespace

Result<std::vector<std::byte>> compile_custom(const dsl::CustomRequest& request, abi::Metadata& metadata) {
  CpuTarget& target = **cpu_target(request.target);
  llvm::LLVMContext context;
  const Diagnostics diagnostics(context);
  auto module = read_ir(request, *target.machine, context);
  if (!module) return module.error();
  auto program = find_entry(**module, request, kProgramIds);
  if (!program) return program.error();
  if ((*module)->getNamedValue(kEntry) == *program) (*program)->setName("program");
  if ((*module)->getNamedValue(kEntry) != nullptr) {
    return error(ErrorCode::kCompileFailed, file_of(request, ".ll") + " has the name `" + kEntry + "`, which is ours");
  }
  add_entry(**module, **program, request.declaration);
  if (auto valid = check_module(**module); !valid) return valid.error();
  optimise_ir(**module, *target.machine, kEntry);
  auto object = emit_ir(**module, *target.machine, llvm::CodeGenFileType::ObjectFile);
  if (!object) return object.error();
  if (auto fine = diagnostics.check(); !fine) return fine.error();
  metadata.needs = {target.machine->getTargetTriple().getArchName().str(), target.needs};
  metadata.scratch_bytes = 0;
  metadata.entry = kEntry;
  return link_shared(to_bytes(*object));
}

}  // namespace kiln::codegen::cpu
