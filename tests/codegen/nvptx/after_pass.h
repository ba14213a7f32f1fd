// A function as text, after a pass on LLVM IR.
#pragma once

#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

#include <string>

namespace kiln::codegen::nvptx {

// The text defines @f. "" with a failure where LLVM cannot read it.
inline std::string after_pass(const std::string& text, void (*pass)(llvm::Function&)) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  const auto module = llvm::parseAssemblyString(text, diagnostic, context);
  EXPECT_NE(module, nullptr) << diagnostic.getMessage().str();
  if (!module) return "";
  pass(*module->getFunction("f"));
  EXPECT_FALSE(llvm::verifyModule(*module, &llvm::errs()));
  std::string out;
  llvm::raw_string_ostream stream(out);
  stream << *module->getFunction("f");
  return out;
}

}  // namespace kiln::codegen::nvptx
