// Code for another CPU is refused with the reason, before it is loaded.
#include "host_cpu.h"

#include <gtest/gtest.h>

namespace kiln::client {
namespace {

#if defined(__x86_64__)
constexpr const char* kHere = "x86_64";
#else
constexpr const char* kHere = "aarch64";
#endif

TEST(HostCpu, NothingNeededIsFine) {
  EXPECT_TRUE(check_host({}).ok());
  EXPECT_TRUE(check_host({kHere, {}}).ok());
}

TEST(HostCpu, AnotherArchitectureIsNamed) {
  const auto checked = check_host({"riscv64", {}});
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().message, std::string("this machine is ") + kHere + ", the kernel was compiled for riscv64");
}

#if defined(__x86_64__)
TEST(HostCpu, AMissingFeatureIsNamed) {
  __builtin_cpu_init();
  const auto checked = check_host({kHere, {"sse3", "avx512fp16"}});
  EXPECT_EQ(checked.ok(), __builtin_cpu_supports("avx512fp16") != 0);
  if (!checked.ok()) {
    EXPECT_EQ(checked.error().message, "this machine lacks `avx512fp16`, which the kernel was compiled for");
  }
}
#endif

TEST(HostCpu, AFeatureThatThisClientDoesNotKnowIsTakenToBeThere) {
  EXPECT_TRUE(check_host({"", {"a feature of the future"}}).ok());
}

}  // namespace
}  // namespace kiln::client
