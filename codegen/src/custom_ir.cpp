#include "custom_ir.h"

#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/IPO/Internalize.h>

namespace kiln::codegen {
namespace {

Error refused(const std::string& what) { return error(ErrorCode::kCompileFailed, what); }

std::string text_of(const llvm::Type& type) {
  std::string out;
  llvm::raw_string_ostream stream(out);
  type.print(stream);
  return out;
}

// As the parameter lies in memory; of an address space that the target gives to all memory.
bool is_type_of(const llvm::Type& type, const dsl::Type& param) {
  if (param.pointer) return type.isPointerTy() && type.getPointerAddressSpace() <= 1;
  switch (param.element) {
    case dsl::ElementType::kF64:
      return type.isDoubleTy();
    case dsl::ElementType::kF32:
      return type.isFloatTy();
    case dsl::ElementType::kF16:
      return type.isHalfTy();
    case dsl::ElementType::kBF16:
      return type.isBFloatTy();
    default:
      return type.isIntegerTy(8 * static_cast<unsigned>(dsl::info(param.element).bytes));
  }
}

Result<void> check_parameters(const llvm::Function& function, const dsl::CustomRequest& request, size_t program_ids) {
  const dsl::Kernel& kernel = request.declaration;
  const std::string name = "`" + request.entry() + "`";
  const size_t wanted = kernel.params.size() + program_ids;
  if (function.isVarArg() || !function.getReturnType()->isVoidTy() || function.arg_size() != wanted) {
    const std::string ids = program_ids > 0 ? " and the program's three numbers" : "";
    return refused(name + " is no function of " + std::to_string(kernel.params.size()) + " parameters" + ids +
                   " that returns void: it is " + text_of(*function.getFunctionType()));
  }
  for (size_t i = 0; i < wanted; ++i) {
    const llvm::Type& type = *function.getArg(static_cast<unsigned>(i))->getType();
    if (i >= kernel.params.size()) {
      if (!type.isIntegerTy(32)) return refused(name + ": the number of a program is an i32, not " + text_of(type));
    } else if (!is_type_of(type, kernel.params[i].type)) {
      return refused(name + ": the parameter `" + kernel.params[i].name + "` is declared as " +
                     dsl::to_string(kernel.params[i].type, kernel.expr_names()) + ", and is " + text_of(type) +
                     " in the code");
    }
  }
  return {};
}

// LLVM's code generator would end the process.
bool is_of_another_target(const llvm::Function& intrinsic, const llvm::Triple& triple) {
  if (!intrinsic.isTargetIntrinsic()) return false;
  const llvm::StringRef family = intrinsic.getName().split('.').second.split('.').first;
  if (triple.isX86()) return family != "x86";
  if (triple.isAArch64()) return family != "aarch64";
  if (triple.isNVPTX()) return family != "nvvm";
  return !triple.isAMDGCN() || (family != "amdgcn" && family != "r600");
}

}  // namespace

std::string file_of(const dsl::CustomRequest& request, const char* suffix) {
  return request.code.file.empty() ? request.declaration.name + suffix : request.code.file;
}

Result<std::unique_ptr<llvm::Module>> read_ir(const dsl::CustomRequest& request, llvm::TargetMachine& machine,
                                              llvm::LLVMContext& context) {
  llvm::SMDiagnostic said;
  const std::string file = file_of(request, ".ll");
  auto module = llvm::parseAssembly(llvm::MemoryBufferRef(request.code.text, file), said, context);
  if (!module) {
    return refused(file + ":" + std::to_string(said.getLineNo()) + ":" + std::to_string(said.getColumnNo() + 1) + ": " +
                   said.getMessage().str());
  }
  const llvm::Triple& triple = machine.getTargetTriple();
  if (!module->getTargetTriple().empty() && module->getTargetTriple().getArch() != triple.getArch()) {
    return refused(file + " is for " + module->getTargetTriple().str() + ", and the target is " + request.target);
  }
  if (!module->getModuleInlineAsm().empty()) return refused(file + " has assembly of the module's");
  module->setTargetTriple(triple);
  module->setDataLayout(machine.createDataLayout());
  std::string wrong;
  llvm::raw_string_ostream stream(wrong);
  if (llvm::verifyModule(*module, &stream)) return refused(file + ": " + wrong);
  return module;
}

Result<llvm::Function*> find_entry(llvm::Module& module, const dsl::CustomRequest& request, size_t program_ids) {
  llvm::Function* entry = module.getFunction(request.entry());
  if (entry == nullptr || entry->isDeclaration()) {
    return refused(module.getModuleIdentifier() + " has no function `" + request.entry() + "`");
  }
  for (const llvm::Function& function : module) {
    if (!function.isDeclaration() || function.use_empty()) continue;
    const std::string called = module.getModuleIdentifier() + " calls `" + function.getName().str() + "`, ";
    if (!function.isIntrinsic()) return refused(called + "which it does not have");
    if (is_of_another_target(function, module.getTargetTriple())) {
      return refused(called + "which " + request.target + " has no instruction for");
    }
  }
  for (const llvm::GlobalVariable& global : module.globals()) {
    if (global.isDeclaration() && !global.use_empty() && global.getAddressSpace() <= 1) {
      return refused(module.getModuleIdentifier() + " refers to `" + global.getName().str() +
                     "`, which it does not have");
    }
    if (global.hasAppendingLinkage() && global.getName().starts_with("llvm.global_")) {
      return refused(module.getModuleIdentifier() + " has `" + global.getName().str() + "`, which nothing would run");
    }
  }
  if (auto fine = check_parameters(*entry, request, program_ids); !fine) return fine.error();
  return entry;
}

void optimise_ir(llvm::Module& module, llvm::TargetMachine& machine, llvm::StringRef entry) {
  llvm::internalizeModule(module, [&](const llvm::GlobalValue& value) { return value.getName() == entry; });
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager call_graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(call_graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, call_graph, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

// All passes of LLVM's: what ours leave out is what our code never has.
Result<std::string> emit_ir(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type)) {
    return internal_error("LLVM cannot emit this file type for " + machine.getTargetTriple().str());
  }
  passes.run(module);
  return std::string(buffer.begin(), buffer.end());
}

}  // namespace kiln::codegen
