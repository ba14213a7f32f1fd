// LLVM's side of the pipeline: clean-up passes, object code, linking.
#pragma once

#include <llvm/IR/Module.h>

#include <string>
#include <vector>

#include "kiln/dsl/result.h"
#include "target.h"

namespace kiln::codegen {

// A pass pipeline chosen for latency, for all targets: the IR is already vectorised and unrolled, so a few scalar
// clean-ups are enough. The nests of CPUs have their invariants outside by construction; elsewhere they are hoisted, or
// left to an assembler that hoists as many as it has registers for.
enum class Invariants : uint8_t { kInPlace, kHoist, kLeave };
void clean_up(llvm::Module& module, llvm::TargetMachine& machine, Invariants invariants);

std::vector<std::byte> to_bytes(llvm::StringRef text);
std::string print_module(const llvm::Module& module);
Result<std::string> emit_assembly(llvm::Module& module, CpuTarget& target);
Result<std::vector<std::byte>> emit_object(llvm::Module& module, CpuTarget& target);

// What LLVM's code generator is told while this lives. It knows that by options of its command line alone, which are
// the whole process's, and which LLD resets at each link.
struct CodeGenerationSwitch {
  const char* name;
  const char* value;
};
class CodeGenerationSwitches {
 public:
  explicit CodeGenerationSwitches(llvm::ArrayRef<CodeGenerationSwitch> all);
  ~CodeGenerationSwitches();
  CodeGenerationSwitches(const CodeGenerationSwitches&) = delete;
  CodeGenerationSwitches& operator=(const CodeGenerationSwitches&) = delete;

 private:
  llvm::ArrayRef<CodeGenerationSwitch> all_;
};

// Links one relocatable object into a shared object, in-process by LLD, without touching the disk.
Result<std::vector<std::byte>> link_shared(const std::vector<std::byte>& object);

}  // namespace kiln::codegen
