// Parts of floats' bits are taken by instructions without a type.
#include "nvptx/low_parts.h"

#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

namespace kiln::codegen::nvptx {
namespace {

// A function that takes %x of a type and returns part of the bits of it after the pass.
std::string after(const std::string& type, const std::string& bits, const std::string& part) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  const auto module =
      llvm::parseAssemblyString("define " + part + " @f(" + type + " %x) {\n  %b = bitcast " + type + " %x to " + bits +
                                    "\n  %t = trunc " + bits + " %b to " + part + "\n  ret " + part + " %t\n}\n",
                                diagnostic, context);
  EXPECT_NE(module, nullptr) << diagnostic.getMessage().str();
  if (!module) return "";
  take_low_parts(*module->getFunction("f"));
  EXPECT_FALSE(llvm::verifyModule(*module, &llvm::errs()));
  std::string out;
  llvm::raw_string_ostream stream(out);
  stream << *module->getFunction("f");
  return out;
}

TEST(LowParts, OfFloatsAreTakenWithoutAType) {
  EXPECT_NE(after("double", "i64", "i32").find("mov.b64 {$0, high}, $1;"), std::string::npos);
  EXPECT_NE(after("double", "i64", "i8").find("mov.b64 {$0, high}, $1;"), std::string::npos);
  EXPECT_NE(after("float", "i32", "i16").find("mov.b32 {$0, high}, $1;"), std::string::npos);
  EXPECT_NE(after("<2 x half>", "i32", "i16").find("mov.b32 {$0, high}, $1;"), std::string::npos);
}

TEST(LowParts, OfIntsAreLeft) {
  EXPECT_EQ(after("<2 x i32>", "i64", "i32").find("asm"), std::string::npos);
  EXPECT_EQ(after("half", "i16", "i8").find("asm"), std::string::npos);
}

}  // namespace
}  // namespace kiln::codegen::nvptx
