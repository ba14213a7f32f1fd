// Which of NVIDIA's assemblers is asked, with a library and a program of the test's own in their place. A process
// chooses once: tests of the choice are processes.
#include "nvptx/jit_link.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "nvptx/assemble.h"

namespace kiln::codegen::nvptx {
namespace {

class JitLinkLibrary : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    char pattern[] = "/tmp/kiln-jit-link-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    const std::string program = folder_ + "/ptxas";
    std::ofstream(program) << "#!/bin/sh\nprintf \"the program's cubin\" > /proc/self/fd/4\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    ::setenv("KILN_NVJITLINK", FAKE_JIT_LINK, 1);
    ::setenv("KILN_PTXAS", program.c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    for (const char* name : {"KILN_NVJITLINK", "KILN_PTXAS", "FAKE_JIT_LINK_REFUSES", "FAKE_JIT_LINK_HAS_NO_CACHE"}) {
      ::unsetenv(name);
    }
  }

  // Says what came of it, and exits: 0 with a cubin, 1 without an assembler, 2 with an error.
  [[noreturn]] void assemble_and_exit() const {
    start_assembler();
    const auto out = assemble("the PTX", "sm_80", false);
    std::filesystem::remove_all(folder_);  // the child's own: it does not come to TearDown
    if (!out) {
      std::fprintf(stderr, "%s\n", out.error().message.c_str());
      std::exit(2);
    }
    if (!*out) std::exit(1);
    const auto& cubin = (*out)->cubin;
    std::fprintf(stderr, "%.*s\n", static_cast<int>(cubin.size()), reinterpret_cast<const char*>(cubin.data()));
    std::exit(0);
  }

 private:
  std::string folder_;
};

TEST_F(JitLinkLibrary, ThatIsNamedComesFirst) {
  EXPECT_EXIT(assemble_and_exit(), testing::ExitedWithCode(0), "the library's cubin");
}

// Whose answers have no log, so that the second of two compiles of a kernel would be another one.
TEST_F(JitLinkLibrary, IsNotAskedForWhatItsCacheHas) {
  EXPECT_EXIT(assemble_and_exit(), testing::ExitedWithCode(0), "the library's cubin");
  ::setenv("FAKE_JIT_LINK_HAS_NO_CACHE", "1", 1);
  EXPECT_EXIT(assemble_and_exit(), testing::ExitedWithCode(0), "the library's cubin");
}

TEST_F(JitLinkLibrary, ThatIsTooOldLeavesTheCodeToTheProgram) {
  ::setenv("FAKE_JIT_LINK_REFUSES", "fatal   : Unsupported .version 8.4; current version is '8.3'", 1);
  EXPECT_EXIT(assemble_and_exit(), testing::ExitedWithCode(0), "the program's cubin");
}

TEST_F(JitLinkLibrary, ThatIsTooOldLeavesTheCodeToTheDriverWithoutAProgram) {
  ::setenv("FAKE_JIT_LINK_REFUSES", "fatal   : Unsupported .version 8.4; current version is '8.3'", 1);
  ::setenv("KILN_PTXAS", "/nowhere/ptxas", 1);
  EXPECT_EXIT(assemble_and_exit(), testing::ExitedWithCode(1), "");
}

TEST_F(JitLinkLibrary, ThatRefusesTheCodeIsAnErrorInItsWords) {
  ::setenv("FAKE_JIT_LINK_REFUSES", "error   : Not a name of any known instruction: 'nonsense'", 1);
  EXPECT_EXIT(assemble_and_exit(), testing::ExitedWithCode(2),
              "refused the code .nvJitLink's result 4.: error .* 'nonsense'");
}

TEST_F(JitLinkLibrary, ThatIsNotThereIsAnErrorThatNamesIt) {
  ::setenv("KILN_NVJITLINK", "/nowhere/libnvJitLink.so", 1);
  const auto found = find_jit_link();
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().message.find("KILN_NVJITLINK names /nowhere/libnvJitLink.so, which cannot be loaded: "), 0u)
      << found.error().message;
  EXPECT_EXIT(assemble_and_exit(), testing::ExitedWithCode(2), "KILN_NVJITLINK names /nowhere/libnvJitLink.so");
  ::setenv("KILN_NVJITLINK", "libm.so.6", 1);
  const auto other = find_jit_link();
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().message, "KILN_NVJITLINK names libm.so.6, which has no function nvJitLinkCreate");
}

// By the process that it is loaded into.
TEST_F(JitLinkLibrary, ThatIsRefusedIsAnErrorWhereItIsNamedAndPassedOverElse) {
  std::vector<std::string> asked;
  const Outside outside{.open_library = [&](const std::string& library) -> Result<void*> {
    asked.push_back(library);
    return error(ErrorCode::kPermissionDenied, library + " is not used");
  }};
  const auto named = find_jit_link(outside);
  ASSERT_FALSE(named.ok());
  EXPECT_EQ(named.error().message,
            "KILN_NVJITLINK names " FAKE_JIT_LINK ", which cannot be loaded: " FAKE_JIT_LINK " is not used");
  ::unsetenv("KILN_NVJITLINK");
  ::unsetenv("KILN_PTXAS");
  asked.clear();
  const auto found = find_jit_link(outside);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_FALSE(found->has_value());
  EXPECT_EQ(asked.size(), 4u);
}

TEST_F(JitLinkLibrary, ThatIsOnlyFoundIsNotAskedWhereAProgramIsNamed) {
  ::unsetenv("KILN_NVJITLINK");
  const auto found = find_jit_link();
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_FALSE(found->has_value());
}

}  // namespace
}  // namespace kiln::codegen::nvptx
