#include "emit.h"

#include <lld/Common/Driver.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/InferAddressSpaces.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Mem2Reg.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "memory_file.h"

LLD_HAS_DRIVER(elf)

namespace kiln::codegen {
namespace {

// Standard output goes into a file while this lives. LLD can write to no descriptor but that one: any other output path
// makes it create a temporary file beside it. A worker is single-threaded and uses its standard output for nothing
// else.
class StandardOutputInto {
 public:
  explicit StandardOutputInto(int fd) {
    std::fflush(stdout);
    saved_ = dup(STDOUT_FILENO);
    dup2(fd, STDOUT_FILENO);
  }
  ~StandardOutputInto() {
    llvm::outs().flush();
    if (saved_ >= 0) {
      dup2(saved_, STDOUT_FILENO);
      close(saved_);
    } else {
      close(STDOUT_FILENO);
    }
  }
  StandardOutputInto(const StandardOutputInto&) = delete;
  StandardOutputInto& operator=(const StandardOutputInto&) = delete;

 private:
  int saved_ = -1;
};

// What LLVM's code generator does that our code has no use for: the IR is in its final form, addresses are computed
// once for a row, loops are few. Without it code is generated in two thirds of the time (tests/bench/compile.cpp). Kept
// are CodeGenPrepare, which sinks addresses, the hoisting of constants out of loops, and block placement.
constexpr CodeGenerationSwitch kTrimmed[] = {
    {"disable-lsr", "true"},
    {"disable-postra-machine-licm", "true"},
    {"disable-machine-cse", "true"},
    {"disable-machine-sink", "true"},
    {"disable-branch-fold", "true"},
    {"disable-tail-duplicate", "true"},
    {"disable-early-taildup", "true"},
    {"disable-copyprop", "true"},
    {"disable-constant-hoisting", "true"},
    {"disable-partial-libcall-inlining", "true"},
    {"disable-early-ifcvt", "true"},
    {"disable-ssc", "true"},
    {"disable-mergeicmps", "true"},
    {"disable-post-ra", "true"},
    {"enable-misched", "false"},
};

}  // namespace

CodeGenerationSwitches::CodeGenerationSwitches(llvm::ArrayRef<CodeGenerationSwitch> all) : all_(all) {
  auto& options = llvm::cl::getRegisteredOptions();
  for (const CodeGenerationSwitch& one : all_) {
    const auto found = options.find(one.name);
    if (found == options.end()) continue;
    found->second->reset();
    found->second->addOccurrence(0, one.name, one.value);
  }
}

CodeGenerationSwitches::~CodeGenerationSwitches() {
  auto& options = llvm::cl::getRegisteredOptions();
  for (const CodeGenerationSwitch& one : all_) {
    if (const auto found = options.find(one.name); found != options.end()) found->second->reset();
  }
}

namespace {

Result<llvm::SmallVector<char, 0>> emit(llvm::Module& module, CpuTarget& target, llvm::CodeGenFileType type) {
  const CodeGenerationSwitches switches(kTrimmed);
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  if (target.machine->addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true)) {
    return internal_error("LLVM cannot emit this file type for " + target.triple);
  }
  passes.run(module);
  return buffer;
}

}  // namespace

void clean_up(llvm::Module& module, llvm::TargetMachine& machine, Invariants invariants) {
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
  if (invariants != Invariants::kInPlace) {
    // Frames of GPUs have an address space of their own, and functions that took generic pointers are inlined by now.
    cleanup.addPass(llvm::InferAddressSpacesPass());
    cleanup.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
  } else {
    cleanup.addPass(llvm::PromotePass());
  }
  cleanup.addPass(llvm::EarlyCSEPass());
  cleanup.addPass(llvm::InstCombinePass(llvm::InstCombineOptions().setVerifyFixpoint(false)));
  cleanup.addPass(llvm::SimplifyCFGPass());
  if (invariants == Invariants::kHoist) {
    cleanup.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  }
  llvm::ModulePassManager passes;
  passes.addPass(llvm::AlwaysInlinerPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(cleanup)));
  passes.run(module, modules);
}

std::vector<std::byte> to_bytes(llvm::StringRef text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

std::string print_module(const llvm::Module& module) {
  std::string out;
  llvm::raw_string_ostream stream(out);
  module.print(stream, nullptr);
  return out;
}

Result<std::string> emit_assembly(llvm::Module& module, CpuTarget& target) {
  auto buffer = emit(module, target, llvm::CodeGenFileType::AssemblyFile);
  if (!buffer) return buffer.error();
  return std::string(buffer->begin(), buffer->end());
}

Result<std::vector<std::byte>> emit_object(llvm::Module& module, CpuTarget& target) {
  auto buffer = emit(module, target, llvm::CodeGenFileType::ObjectFile);
  if (!buffer) return buffer.error();
  return to_bytes({buffer->data(), buffer->size()});
}

Result<std::vector<std::byte>> link_shared(const std::vector<std::byte>& object) {
  const MemoryFile input, output;
  if (!input.valid() || !output.valid() || !input.write(object))
    return internal_error("cannot create memory files to link");
  const std::string in = input.path();
  const std::array<const char*, 8> arguments = {"ld.lld",          "-shared",  "--threads=1", "--hash-style=gnu",
                                                "--build-id=none", in.c_str(), "-o",          "-"};
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  lld::Result result{};
  {
    const StandardOutputInto redirected(output.fd());
    result = lld::lldMain(arguments, llvm::nulls(), stream, {{lld::Gnu, &lld::elf::link}});
  }
  if (result.retCode != 0) return internal_error("linking failed: " + messages);
  std::vector<std::byte> bytes = output.read();
  if (bytes.empty()) return internal_error("linking wrote nothing: " + messages);
  return bytes;
}

}  // namespace kiln::codegen
