#include "debug_lines.h"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>

namespace kiln::codegen {
namespace {

// The first place that is known, for the function itself.
dsl::Location first_place(const dsl::Region& region) {
  for (const dsl::Op& op : region.ops) {
    if (op.loc.file > 0) return op.loc;
  }
  return {};
}

}  // namespace

DebugLines::DebugLines(const dsl::Kernel& kernel, llvm::Function& function, Form form)
    : builder_(*function.getParent()), function_(function), place_(first_place(kernel.body)) {
  llvm::Module& module = *function.getParent();
  if (!module.getModuleFlag("Debug Info Version")) {
    module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  }
  for (const std::string& name : kernel.files) files_.push_back(builder_.createFile(name, ""));
  if (files_.empty()) files_.push_back(builder_.createFile(kernel.name, ""));
  llvm::DIFile* file = files_[place_.file > 0 ? place_.file - 1 : 0];
  // Nothing but the lines: no tables of types and variables.
  builder_.createCompileUnit(
      llvm::dwarf::DW_LANG_C, file, "kiln", true, "", 0, "",
      form == Form::kTables ? llvm::DICompileUnit::LineTablesOnly : llvm::DICompileUnit::DebugDirectivesOnly);
  describe(function, file, place_.line, kernel.name);
}

llvm::DISubprogram* DebugLines::describe(llvm::Function& function, llvm::DIFile* file, uint32_t line,
                                         llvm::StringRef name) {
  auto* type = builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
  llvm::DISubprogram* out = builder_.createFunction(file, name, function.getName(), file, line, type, line,
                                                    llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
  function.setSubprogram(out);
  return out;
}

llvm::DIScope* DebugLines::seen_from(llvm::DISubprogram* function, llvm::DIFile* file) {
  if (file == function->getFile()) return function;
  llvm::DIScope*& scope = scopes_[{function, file}];
  if (!scope) scope = builder_.createLexicalBlockFile(function, file);
  return scope;
}

void DebugLines::set(llvm::IRBuilderBase& ir, const dsl::Location& loc) {
  llvm::DISubprogram* function = function_.getSubprogram();
  llvm::DIScope* scope = loc.file > 0 ? seen_from(function, files_[loc.file - 1]) : function;
  ir.SetCurrentDebugLocation(llvm::DILocation::get(function->getContext(), loc.line, loc.column, scope));
}

void DebugLines::cover(llvm::Function& callee, const llvm::DebugLoc& call) {
  llvm::DISubprogram* function = describe(callee, call->getFile(), call.getLine(), callee.getName());
  for (llvm::Instruction& instruction : llvm::instructions(callee)) {
    const llvm::DebugLoc at = instruction.getDebugLoc() ? instruction.getDebugLoc() : call;
    instruction.setDebugLoc(
        llvm::DILocation::get(callee.getContext(), at.getLine(), at.getCol(), seen_from(function, at->getFile())));
  }
}

// LLVM wants a place of each call between functions that have lines, be it an unknown one.
void DebugLines::cover_calls() {
  std::vector<llvm::Function*> callers = {&function_};
  while (!callers.empty()) {
    llvm::Function& caller = *callers.back();
    callers.pop_back();
    for (llvm::Instruction& instruction : llvm::instructions(caller)) {
      auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
      llvm::Function* callee = call ? call->getCalledFunction() : nullptr;
      if (!callee || callee->isDeclaration()) continue;
      if (!call->getDebugLoc()) {
        call->setDebugLoc(llvm::DILocation::get(caller.getContext(), 0, 0, caller.getSubprogram()));
      }
      if (callee->getSubprogram()) continue;
      cover(*callee, call->getDebugLoc());
      callers.push_back(callee);
    }
  }
}

}  // namespace kiln::codegen
