// Parameters that are selected are read before.
#include "nvptx/frozen_parameters.h"

#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SourceMgr.h>

namespace kiln::codegen::nvptx {
namespace {

// The freezes in a function that takes `head`, selects and returns one of %x and %y.
size_t freezes(const std::string& head) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  const auto module = llvm::parseAssemblyString("define " + head +
                                                    " @f(i1 %c, float %x, float %y, float %unused) {\n"
                                                    "  %s = select i1 %c, float %x, float %y\n"
                                                    "  %t = fadd float %s, %x\n"
                                                    "  ret float %t\n}\n",
                                                diagnostic, context);
  EXPECT_NE(module, nullptr) << diagnostic.getMessage().str();
  if (!module) return 0;
  llvm::Function& function = *module->getFunction("f");
  freeze_parameters(function);
  const auto* select =
      llvm::cast<llvm::SelectInst>(&*std::find_if(inst_begin(function), inst_end(function), [](auto& instruction) {
        return llvm::isa<llvm::SelectInst>(instruction);
      }));
  for (const llvm::Value* choice : {select->getTrueValue(), select->getFalseValue()}) {
    EXPECT_EQ(llvm::isa<llvm::FreezeInst>(choice), !llvm::isa<llvm::Argument>(choice));
  }
  return static_cast<size_t>(std::count_if(inst_begin(function), inst_end(function),
                                           [](auto& instruction) { return llvm::isa<llvm::FreezeInst>(instruction); }));
}

// The condition is a choice's, and not chosen.
TEST(FrozenParameters, AreThoseThatAreSelected) { EXPECT_EQ(freezes("internal float"), 3u); }
TEST(FrozenParameters, AreNotAKernels) { EXPECT_EQ(freezes("ptx_kernel float"), 0u); }

}  // namespace
}  // namespace kiln::codegen::nvptx
