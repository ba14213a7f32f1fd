// NVIDIA's assembler as a program, and what its words mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "nvptx/assemble.h"
#include "nvptx/occupancy.h"
#include "nvptx/ptxas.h"

namespace kiln::codegen::nvptx {
namespace {

constexpr const char* kPtx =
    ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
    ".reg .b64 %a;\nld.param.u64 %a, [p];\nst.global.b32 [%a], 1;\nret;\n}\n";

// An executable of the test's own in place of ptxas.
class FakeProgram {
 public:
  explicit FakeProgram(const std::string& script) {
    char pattern[] = "/tmp/kiln-ptxas-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    std::ofstream(path()) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(path(), std::filesystem::perms::owner_all);
  }
  ~FakeProgram() { std::filesystem::remove_all(folder_); }
  FakeProgram(const FakeProgram&) = delete;
  FakeProgram& operator=(const FakeProgram&) = delete;
  std::string path() const { return folder_ + "/ptxas"; }
  std::string folder() const { return folder_; }

 private:
  std::string folder_;
};

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Ptxas, MakesACubinAndSaysWhatItCosts) {
  const std::string program = find_ptxas().value();
  if (program.empty()) GTEST_SKIP() << "no ptxas on this machine";
  auto process = AssemblerProcess::start(program);
  ASSERT_TRUE(process.ok()) << process.error().message;
  for (bool line_tables : {false, true}) {
    const auto out = (*process)->assemble(kPtx, "sm_80", line_tables);
    ASSERT_TRUE(out.ok()) << out.error().message;
    EXPECT_EQ(text_of(out->cubin).substr(1, 3), "ELF");
    EXPECT_GT(read_resources(out->log).registers, 0) << out->log;
  }
}

TEST(Ptxas, ItsWordsAreInTheError) {
  const std::string program = find_ptxas().value();
  if (program.empty()) GTEST_SKIP() << "no ptxas on this machine";
  auto process = AssemblerProcess::start(program);
  ASSERT_TRUE(process.ok()) << process.error().message;
  const auto out = (*process)->assemble(std::string(kPtx) + "nonsense", "sm_80", false);
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.error().message.find("refused the code (" + program + ", exit code 255)"), std::string::npos)
      << out.error().message;
  EXPECT_NE(out.error().message.find("error"), std::string::npos) << out.error().message;
  EXPECT_TRUE((*process)->assemble(kPtx, "sm_80", false).ok()) << "one refusal is no end";
}

TEST(Ptxas, GetsTheArchitectureAndTheFilesAndNothingElse) {
  const FakeProgram program(
      "for last; do :; done\necho \"$@\"\nls /proc/self/fd | wc -l\ncat /proc/self/fd/3 > /proc/self/fd/4\n");
  auto process = AssemblerProcess::start(program.path());
  ASSERT_TRUE(process.ok()) << process.error().message;
  const auto out = (*process)->assemble("the PTX", "sm_90a", true);
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ(text_of(out->cubin), "the PTX");
  EXPECT_NE(out->log.find("-arch=sm_90a"), std::string::npos) << out->log;
  EXPECT_NE(out->log.find("-lineinfo"), std::string::npos) << out->log;
}

// Who has taken over a worker could ask for a file to be written, by an option in the place of the processor.
TEST(Ptxas, TakesAProcessorsNameAndNoOtherWord) {
  const FakeProgram program("cat /proc/self/fd/3 > /proc/self/fd/4\n");
  auto process = AssemblerProcess::start(program.path());
  ASSERT_TRUE(process.ok()) << process.error().message;
  EXPECT_TRUE((*process)->assemble("the PTX", "sm_90a", false).ok());
  for (const char* word : {"sm_90 -o", "sm_90=x", "sm_90/../x", "sm_90,-o"}) {
    EXPECT_FALSE((*process)->assemble("the PTX", word, false).ok()) << word;
  }
  EXPECT_TRUE((*process)->assemble("the PTX", "sm_120f", false).ok()) << "one refusal is no end";
}

// The words of ptxas 12.2 and 11.8.
TEST(Ptxas, OneThatIsTooOldSaysWhichVersionTheProcessorNeeds) {
  const FakeProgram no_version(
      "echo \"ptxas application ptx input, line 5; fatal   : Unsupported .version 8.7; current version is '8.2'\"\n"
      "exit 255\n");
  const FakeProgram no_processor(
      "echo \"ptxas fatal   : Value 'sm_103a' is not defined for option 'gpu-name'\"\nexit 255\n");
  const auto words = [](const FakeProgram& program, const char* processor) {
    auto process = AssemblerProcess::start(program.path());
    const auto out = (*process)->assemble("the PTX", processor, false);
    return out.ok() ? "" : out.error().message.substr(0, out.error().message.find(": ptxas"));
  };
  EXPECT_EQ(words(no_version, "sm_120"), "NVIDIA's assembler " + no_version.path() +
                                             " is too old for sm_120, which needs that of CUDA 12.8 or later");
  EXPECT_EQ(words(no_processor, "sm_103a"), "NVIDIA's assembler " + no_processor.path() +
                                                " is too old for sm_103a, which needs that of CUDA 12.9 or later");
}

TEST(Ptxas, ADeathIsAnError) {
  const FakeProgram program("kill -9 $$\n");
  auto process = AssemblerProcess::start(program.path());
  ASSERT_TRUE(process.ok()) << process.error().message;
  const auto out = (*process)->assemble(kPtx, "sm_80", false);
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.error().message.find("signal 9"), std::string::npos) << out.error().message;
}

TEST(Ptxas, AProgramThatCannotRunIsAnError) {
  auto process = AssemblerProcess::start("/nowhere/ptxas");
  ASSERT_TRUE(process.ok()) << process.error().message;
  const auto out = (*process)->assemble(kPtx, "sm_80", false);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().message, "/nowhere/ptxas cannot be run");
}

TEST(Ptxas, IsFoundByItsVariableOrInThePath) {
  const FakeProgram program("true\n");
  const std::string path = std::getenv("PATH");
  ::setenv("KILN_PTXAS", program.path().c_str(), 1);
  EXPECT_EQ(find_ptxas().value(), program.path());
  ::setenv("KILN_PTXAS", "/nowhere/ptxas", 1);
  EXPECT_EQ(find_ptxas().value(), "");
  ::unsetenv("KILN_PTXAS");
  ::setenv("PATH", (program.folder() + ":" + path).c_str(), 1);
  EXPECT_EQ(find_ptxas().value(), program.path());
  ::setenv("PATH", path.c_str(), 1);
}

// A process that is confined takes jobs still; where it cannot be, there is none.
TEST(Ptxas, IsConfinedBeforeItTakesAJob) {
  const FakeProgram program("echo \"$KILN_CONFINED\" > /proc/self/fd/4\n");
  const auto mark = [](const char* word) {
    return [word]() -> Result<void> {
      const char* before = std::getenv("KILN_CONFINED");
      ::setenv("KILN_CONFINED", ((before ? before : "") + std::string(word)).c_str(), 1);
      return {};
    };
  };
  auto process =
      AssemblerProcess::start(program.path(), {.confine_helper = mark("helper,"), .confine_program = mark("program")});
  ASSERT_TRUE(process.ok()) << process.error().message;
  for (int job = 0; job < 2; ++job) {
    const auto out = (*process)->assemble("the PTX", "sm_80", false);
    ASSERT_TRUE(out.ok()) << out.error().message;
    EXPECT_EQ(text_of(out->cubin), "helper,program\n");
  }
  const auto fails = []() -> Result<void> { return internal_error("no filter"); };
  for (const Outside& outside : {Outside{.confine_helper = fails}, Outside{.confine_program = fails}}) {
    auto unconfined = AssemblerProcess::start(program.path(), outside);
    ASSERT_TRUE(unconfined.ok()) << unconfined.error().message;
    EXPECT_FALSE((*unconfined)->assemble("the PTX", "sm_80", false).ok());
  }
}

// So whoever takes over what reads it can start nothing.
TEST(Ptxas, NobodyReadsTheWorkersWordBeforeItIsConfined) {
  const FakeProgram program("echo \"$KILN_WORD\" > /proc/self/fd/4\n");
  const auto look = []() -> Result<void> {
    constexpr int kSocket = 3;
    char byte = 0;
    ::setenv("KILN_WORD", ::recv(kSocket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0 ? "waits" : "is read", 1);
    return {};
  };
  auto process = AssemblerProcess::start(program.path(), {.confine_program = look});
  ASSERT_TRUE(process.ok()) << process.error().message;
  for (int job = 0; job < 3; ++job) {
    const auto out = (*process)->assemble("the PTX", "sm_80", false);
    ASSERT_TRUE(out.ok()) << out.error().message;
    EXPECT_EQ(text_of(out->cubin), "waits\n");
  }
}

TEST(Ptxas, IsPassedOverWhereOthersCouldHaveChangedItAndAnErrorWhereItIsNamed) {
  const FakeProgram evil("true\n"), good("true\n");
  const std::string path = std::getenv("PATH");
  const Outside outside{.check_program = [&](const std::string& program) -> Result<void> {
    if (program == evil.path()) return error(ErrorCode::kPermissionDenied, program + " is not used");
    return {};
  }};
  ::setenv("PATH", (evil.folder() + ":" + good.folder() + ":" + path).c_str(), 1);
  EXPECT_EQ(find_ptxas().value(), evil.path());
  EXPECT_EQ(find_ptxas(outside).value(), good.path());
  ::setenv("KILN_PTXAS", evil.path().c_str(), 1);
  const auto named = find_ptxas(outside);
  ASSERT_FALSE(named.ok());
  EXPECT_EQ(named.error().message, "KILN_PTXAS: " + evil.path() + " is not used");
  ::unsetenv("KILN_PTXAS");
  ::setenv("PATH", path.c_str(), 1);
}

TEST(Resources, AreReadFromTheLog) {
  const Resources out = read_resources(
      "ptxas info    : Compiling entry function 'kiln_entry' for 'sm_90a'\n"
      "ptxas info    : Function properties for kiln_entry\n"
      "    24 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers, 24 bytes cumulative stack size, 1024 bytes smem\n"
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to …\n");
  EXPECT_EQ(out.registers, 255);
  EXPECT_EQ(out.stack_bytes, 24);
  EXPECT_EQ(out.spill_store_bytes, 16);
  EXPECT_EQ(out.spill_load_bytes, 20);
  EXPECT_EQ(out.static_shared_bytes, 1024);
  ASSERT_EQ(out.warnings.size(), 1u);
  EXPECT_NE(out.warnings[0].find("C7510"), std::string::npos);
}

TEST(Occupancy, OneMoreBlockIsInReachForFewRegisters) {
  const auto blocks = [](int registers, const BlockNeeds& needs) {
    Resources resources;
    resources.registers = registers;
    return blocks_in_reach(resources, needs, target::nvidia_gpu(90));
  };
  EXPECT_EQ(blocks(180, {128, 72 * 1024}), 3);
  EXPECT_EQ(blocks(216, {128, 72 * 1024}), std::nullopt);  // too many to give up
  EXPECT_EQ(blocks(180, {128, 76 * 1024}), std::nullopt);  // no shared memory for it
  EXPECT_EQ(blocks(68, {128, 0}), std::nullopt);           // there are many already
  EXPECT_EQ(blocks(0, {128, 0}), std::nullopt);            // not known
}

// What the assembler may say of a kernel.
Resources assembled(int registers, int64_t spilled_bytes = 0, std::vector<std::string> warnings = {}) {
  Resources out;
  out.registers = registers;
  out.spill_store_bytes = spilled_bytes;
  out.warnings = std::move(warnings);
  return out;
}

TEST(Occupancy, AThirdBlockOfProductsByGroupsIsAskedForWhateverItsRegisters) {
  const auto blocks = [](const Resources& resources, const BlockNeeds& needs, bool by_groups = true) {
    return blocks_of_products(resources, needs, target::nvidia_gpu(90), by_groups);
  };
  const BlockNeeds needs = {128, 72 * 1024};
  EXPECT_EQ(blocks(assembled(216), needs), 3);
  EXPECT_EQ(blocks(assembled(255), needs), 3);
  EXPECT_EQ(blocks(assembled(216), needs, false), std::nullopt);
  EXPECT_EQ(blocks(assembled(180), needs, false), 3);                 // in reach
  EXPECT_EQ(blocks(assembled(216, 4), needs), std::nullopt);          // spills as it is
  EXPECT_EQ(blocks(assembled(216), {128, 76 * 1024}), std::nullopt);  // no shared memory for it
  EXPECT_EQ(blocks(assembled(128), {256, 72 * 1024}), std::nullopt);  // eight warps
  EXPECT_EQ(blocks(assembled(168), needs), std::nullopt);             // there are three
}

TEST(Occupancy, AThirdBlockIsWorthSomeSpilledBytesOrProductsThatWait) {
  const std::vector<std::string> waits = {"(C7512) wgmma.mma_async instructions are serialized"};
  const auto worth = [](const Resources& after, int blocks = 3, bool by_groups = true,
                        const Resources& before = assembled(216)) {
    return are_worth_it(before, after, 128, blocks, by_groups, target::nvidia_gpu(90));
  };
  EXPECT_TRUE(worth(assembled(168)));
  EXPECT_TRUE(worth(assembled(168, 128)));
  EXPECT_FALSE(worth(assembled(168, 132)));
  EXPECT_TRUE(worth(assembled(168, 0, waits)));
  EXPECT_FALSE(worth(assembled(168, 4, waits)));                                      // not both
  EXPECT_TRUE(worth(assembled(168, 128, waits), 3, true, assembled(216, 0, waits)));  // they waited before
  EXPECT_FALSE(worth(assembled(176)));                                                // two blocks all the same
  // Others are worth neither.
  EXPECT_TRUE(worth(assembled(168), 3, false));
  EXPECT_FALSE(worth(assembled(168, 4), 3, false));
  EXPECT_FALSE(worth(assembled(168, 0, waits), 3, false));
  EXPECT_TRUE(worth(assembled(128), 4));
  EXPECT_FALSE(worth(assembled(128, 4), 4));
  EXPECT_FALSE(worth(assembled(128, 0, waits), 4));
}

TEST(Occupancy, BlocksAreWorthwhileUntilMemoryIsBusy) {
  using testing::ElementsAre;
  const auto blocks = [](int registers, const BlockNeeds& needs, int capability = 90) {
    Resources resources;
    resources.registers = registers;
    return worthwhile_blocks(resources, needs, target::nvidia_gpu(capability));
  };
  EXPECT_THAT(blocks(56, {256, 0, 8192}), ElementsAre(6, 5));      // 4 now: 1024 threads, but 32 KiB
  EXPECT_THAT(blocks(106, {128, 0, 8192}), ElementsAre(8, 6, 5));  // 4 now: 512 threads
  EXPECT_THAT(blocks(106, {128, 0, 8192}, 80), ElementsAre(8));    // enough for a slower memory
  EXPECT_THAT(blocks(56, {256, 0, 16384}), ElementsAre());         // 64 KiB
  EXPECT_THAT(blocks(56, {256, 48 * 1024, 8192}), ElementsAre());  // no shared memory for more
  EXPECT_THAT(blocks(56, {256, 0, 1024}), ElementsAre(6));         // 8 would be of 32 registers: too few
  EXPECT_THAT(blocks(100, {512, 0, 0}), ElementsAre(2));
}

}  // namespace
}  // namespace kiln::codegen::nvptx
