// Where kernels wait for earlier launches.
#include "nvptx/grid_wait.h"

#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

namespace kiln::codegen::nvptx {
namespace {

std::unique_ptr<llvm::Module> parse(llvm::LLVMContext& context, const std::string& body) {
  llvm::SMDiagnostic diagnostic;
  const std::string text =
      "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)\n@s = external addrspace(3) global i32\n"
      "define void @k(ptr addrspace(1) %p, i32 %n) {\n" +
      body + "}\n";
  auto module = llvm::parseAssemblyString(text, diagnostic, context);
  EXPECT_NE(module, nullptr) << diagnostic.getMessage().str();
  return module;
}

// The text of a function's body after the pass, a line an instruction.
std::string after(const std::string& body) {
  llvm::LLVMContext context;
  const auto module = parse(context, body);
  if (!module) return "";
  wait_for_earlier_grids(*module->getFunction("k"));
  std::string out;
  llvm::raw_string_ostream stream(out);
  stream << *module->getFunction("k");
  return out;
}

// What stands before the wait and what behind it.
void expect_between(const std::string& text, const std::string& before, const std::string& behind) {
  const size_t wait = text.find("griddepcontrol.wait"), next = text.find("griddepcontrol.launch_dependents");
  ASSERT_NE(wait, std::string::npos) << text;
  EXPECT_LT(wait, next);
  EXPECT_LT(text.find(before), wait) << text;
  ASSERT_NE(text.find(behind), std::string::npos) << text;
  EXPECT_GT(text.find(behind), next) << text;
}

TEST(GridWait, StandsBehindWhatPreparesSharedMemory) {
  const std::string text = after(
      "entry:\n"
      "  %a = add i32 %n, 1\n"
      "  br label %body\n"
      "body:\n"
      "  call void asm sideeffect \"prefetch.tensormap [$0];\", \"l,~{memory}\"(ptr addrspace(1) %p)\n"
      "  call void asm sideeffect \"mbarrier.init.shared::cta.b64 [$0], 1;\", \"r,~{memory}\"(i32 %a)\n"
      "  store i32 %a, ptr addrspace(3) @s\n"
      "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"
      "  store i32 %a, ptr addrspace(1) %p\n"
      "  ret void\n");
  expect_between(text, "call void @llvm.nvvm.barrier.cta", "store i32 %a, ptr addrspace(1)");
}

TEST(GridWait, StandsBeforeAssemblyThatIsNotKnown) {
  for (const char* assembly : {"ld.global.b32 $0, [$1];", "cp.async.bulk.tensor.2d [mbarrier.init] $0 $1;"}) {
    const std::string text = after("  %x = call i32 asm sideeffect \"" + std::string(assembly) +
                                   "\", \"=r,l,~{memory}\"(ptr addrspace(1) %p)\n  ret void\n");
    expect_between(text, "define", assembly);
  }
}

TEST(GridWait, KernelsOfTheCopyEngineAndOfConstantLoadsBeginInOrder) {
  const auto early = [](const std::string& assembly) {
    llvm::LLVMContext context;
    const auto module = parse(
        context, "  call void asm sideeffect \"" + assembly + "\", \"l,~{memory}\"(ptr addrspace(1) %p)\n  ret void\n");
    return module && may_begin_early(*module);
  };
  EXPECT_TRUE(early("st.global.b32 [$0], 1;"));
  EXPECT_TRUE(early("cp.async.cg.shared.global [$0], [$0], 16;"));
  EXPECT_FALSE(early("cp.async.bulk.tensor.2d.shared::cluster.global [$0];"));
  EXPECT_FALSE(early("cp.async.bulk.tensor.2d.global.shared::cta [$0];"));
  EXPECT_FALSE(early("ld.global.nc.b32 $0, [$0];"));
}

// In a branch or a loop some threads would not wait, or all more than once.
TEST(GridWait, StandsBeforeControlFlowDivides) {
  const std::string text = after(
      "entry:\n"
      "  %c = icmp eq i32 %n, 0\n"
      "  br i1 %c, label %out, label %in\n"
      "in:\n"
      "  store i32 %n, ptr addrspace(1) %p\n"
      "  br label %out\n"
      "out:\n"
      "  ret void\n");
  expect_between(text, "%c = icmp", "br i1 %c");
  const std::string loop = after(
      "entry:\n"
      "  br label %again\n"
      "again:\n"
      "  %i = phi i32 [0, %entry], [%j, %again]\n"
      "  %j = add i32 %i, 1\n"
      "  store i32 %i, ptr addrspace(1) %p\n"
      "  %c = icmp slt i32 %j, %n\n"
      "  br i1 %c, label %again, label %out\n"
      "out:\n"
      "  ret void\n");
  expect_between(loop, "entry:", "br label %again");
}

}  // namespace
}  // namespace kiln::codegen::nvptx
