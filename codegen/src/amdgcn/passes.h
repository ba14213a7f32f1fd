// LLVM's code generator for AMD GPUs, without the passes that find nothing in our code.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Support/CodeGen.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>

namespace kiln::codegen::amdgcn {

// Takes the passes of TargetMachine::addPassesToEmitFile, and leaves out some of them.
class CodeGenerationPasses : public llvm::legacy::PassManager {
 public:
  void add(llvm::Pass* pass) override;
};

// The passes that lead to a file of one type, put together once: for a small kernel that takes a fifth of the time of
// generating its code. What they keep of a module goes with it, or they are made anew. One at a time.
class CodeGenerator {
 public:
  // Null where the machine cannot emit such files. `machine` outlives it.
  static std::unique_ptr<CodeGenerator> create(llvm::TargetMachine& machine, llvm::CodeGenFileType type);

  // Changes the module. After an error, which the module's context hears of, the generator is not to be used again.
  llvm::SmallVector<char, 0> emit(llvm::Module& module);

 private:
  CodeGenerator() : stream_(buffer_) {}

  llvm::SmallVector<char, 0> buffer_;
  llvm::raw_svector_ostream stream_;
  CodeGenerationPasses passes_;
};

}  // namespace kiln::codegen::amdgcn
