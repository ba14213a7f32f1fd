// Line tables: which line of the kernel's source each instruction comes from, for profilers, debuggers and sanitizers.
#pragma once

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/IRBuilder.h>

#include <map>

#include "kiln/dsl/ir.h"

namespace kiln::codegen {

class DebugLines {
 public:
  // A GPU's assembler wants directives alone; who reads a CPU's code finds the table by its unit.
  enum class Form : uint8_t { kDirectives, kTables };
  // `function`: the kernel's.
  DebugLines(const dsl::Kernel& kernel, llvm::Function& function, Form form);

  // Instructions from here on come from this place.
  void set(llvm::IRBuilderBase& ir, const dsl::Location& loc);
  // Those before the first op come from where the kernel begins.
  void begin(llvm::IRBuilderBase& ir) { set(ir, place_); }
  // A part of the kernel that became a function of its own keeps its lines, and what ops call has those of the call.
  void cover_calls();
  // When the function is complete.
  void finish() { builder_.finalize(); }

 private:
  llvm::DISubprogram* describe(llvm::Function& function, llvm::DIFile* file, uint32_t line, llvm::StringRef name);
  llvm::DIScope* seen_from(llvm::DISubprogram* function, llvm::DIFile* file);
  void cover(llvm::Function& callee, const llvm::DebugLoc& call);

  llvm::DIBuilder builder_;
  llvm::Function& function_;
  const dsl::Location place_;  // of the kernel
  std::vector<llvm::DIFile*> files_;
  std::map<std::pair<llvm::DISubprogram*, llvm::DIFile*>, llvm::DIScope*> scopes_;
};

// What is emitted until the end of the block comes from this place; an unknown one changes nothing.
class AtLine {
 public:
  // `lines`: null where nobody wants them.
  AtLine(DebugLines* lines, llvm::IRBuilderBase& ir, const dsl::Location& loc)
      : ir_(lines && loc.file > 0 ? &ir : nullptr) {
    if (!ir_) return;
    before_ = ir.getCurrentDebugLocation();
    lines->set(ir, loc);
  }
  ~AtLine() {
    if (ir_) ir_->SetCurrentDebugLocation(before_);
  }
  AtLine(const AtLine&) = delete;
  AtLine& operator=(const AtLine&) = delete;

 private:
  llvm::IRBuilderBase* ir_;
  llvm::DebugLoc before_;
};

}  // namespace kiln::codegen
