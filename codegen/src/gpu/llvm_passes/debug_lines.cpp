#include "gpu/llvm_passes/debug_lines.h"

#include <llvm/IR/Module.h>

namespace kiln::codegen::gpu {
namespace {

// The first place that is known, for the function itself.
dsl::Location first_place(const dsl::Region& region) {
  for (const dsl::Op& op : region.ops) {
    if (op.loc.file > 0) return op.loc;
  }
  return {};
}

}  // namespace

DebugLines::DebugLines(const dsl::Kernel& kernel, llvm::Function& function) : builder_(*function.getParent()) {
  llvm::Module& module = *function.getParent();
  if (!module.getModuleFlag("Debug Info Version")) {
    module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  }
  for (const std::string& name : kernel.files) files_.push_back(builder_.createFile(name, ""));
  if (files_.empty()) files_.push_back(builder_.createFile(kernel.name, ""));
  const dsl::Location place = first_place(kernel.body);
  llvm::DIFile* file = files_[place.file > 0 ? place.file - 1 : 0];
  // Nothing but the lines: no tables of types and variables.
  builder_.createCompileUnit(llvm::dwarf::DW_LANG_C, file, "kiln", true, "", 0, "",
                             llvm::DICompileUnit::DebugDirectivesOnly);
  auto* type = builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
  function_ = builder_.createFunction(file, kernel.name, function.getName(), file, place.line, type, place.line,
                                      llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
  function.setSubprogram(function_);
  for (llvm::DIFile* other : files_) {
    scopes_.push_back(other == file ? static_cast<llvm::DIScope*>(function_)
                                    : builder_.createLexicalBlockFile(function_, other));
  }
}

void DebugLines::set(llvm::IRBuilderBase& ir, const dsl::Location& loc) {
  llvm::DIScope* scope = loc.file > 0 ? scopes_[loc.file - 1] : function_;
  ir.SetCurrentDebugLocation(llvm::DILocation::get(function_->getContext(), loc.line, loc.column, scope));
}

}  // namespace kiln::codegen::gpu
