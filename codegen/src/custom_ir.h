// LLVM IR that somebody else wrote: read, held against the kernel that declares it, optimised.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "kiln/dsl/custom_kernel.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen {

// For the machine, whatever triple the text has as long as its architecture is the same. Error: the text's line.
Result<std::unique_ptr<llvm::Module>> read_ir(const dsl::CustomRequest& request, llvm::TargetMachine& machine,
                                              llvm::LLVMContext& context);

// The function that the request names. Error: it is not there, or takes other parameters than the declaration's and
// `program_ids` numbers of 32 bits, or the module calls what neither it nor LLVM has.
Result<llvm::Function*> find_entry(llvm::Module& module, const dsl::CustomRequest& request, size_t program_ids);

// As a compiler does at -O2. Nothing but `entry` is seen outside of the module.
void optimise_ir(llvm::Module& module, llvm::TargetMachine& machine, llvm::StringRef entry);

Result<std::string> emit_ir(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type);

// "softshrink.ll", where the text is from.
std::string file_of(const dsl::CustomRequest& request, const char* suffix);

}  // namespace kiln::codegen
