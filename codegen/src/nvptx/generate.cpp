#include "nvptx/generate.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/LCSSA.h>
#include <llvm/Transforms/Utils/LoopSimplify.h>
#include <llvm/Transforms/Utils/Mem2Reg.h>

#include "gpu/supported.h"
#include "nvptx/target_info.h"

namespace kiln::codegen::nvptx {
namespace {

// What the lowering leaves to LLVM: registers in allocas, common address arithmetic, invariants of loops.
void optimise(llvm::Module& module, llvm::TargetMachine& machine) {
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
  llvm::FunctionPassManager cleanup;
  cleanup.addPass(llvm::PromotePass());
  cleanup.addPass(llvm::EarlyCSEPass());
  cleanup.addPass(llvm::InstCombinePass(llvm::InstCombineOptions().setVerifyFixpoint(false)));
  cleanup.addPass(llvm::SimplifyCFGPass());
  cleanup.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) cleanup.run(function, functions);
  }
}

std::string print(const llvm::Module& module) {
  std::string out;
  llvm::raw_string_ostream stream(out);
  module.print(stream, nullptr);
  return out;
}

Result<std::string> emit_ptx(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) {
    return internal_error("LLVM's NVPTX target cannot emit assembly");
  }
  passes.run(module);
  return std::string(buffer.begin(), buffer.end());
}

std::vector<std::byte> to_bytes(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

}  // namespace

Result<Generated> generate(const dsl::Kernel& kernel, const CudaTarget& target, const gpu::LaunchShape& launch,
                           const std::string& emit, const std::function<void(std::string_view)>& begin) {
  if (auto fine = gpu::check_supported(kernel, target.processor); !fine) return fine.error();
  begin("lower");
  llvm::LLVMContext context;
  llvm::Module module("kiln", context);
  module.setTargetTriple(target.machine->getTargetTriple().str());
  module.setDataLayout(target.machine->createDataLayout());
  auto lowered = gpu::lower(kernel, CudaTargetInfo(target), launch, target.processor, module);
  if (!lowered) return lowered.error();
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(module, &stream)) return internal_error("the compiler made invalid LLVM IR: " + message);

  begin("optimise");
  optimise(module, *target.machine);
  Generated out{*lowered, {}, emit, {}};
  if (emit == "llvm") {
    out.code = to_bytes(print(module));
    return out;
  }
  begin("codegen");
  auto ptx = emit_ptx(module, *target.machine);
  if (!ptx) return ptx.error();
  if (emit == "cubin") {
    begin("assemble");
    auto assembled = assemble(*ptx, target.processor, kernel.options.debug);
    if (!assembled) return assembled.error();
    if (*assembled) {
      out.code = std::move((*assembled)->cubin);
      out.resources = std::move((*assembled)->resources);
      return out;
    }
  }
  out.emitted = "ptx";
  out.code = to_bytes(*ptx);
  return out;
}

}  // namespace kiln::codegen::nvptx
