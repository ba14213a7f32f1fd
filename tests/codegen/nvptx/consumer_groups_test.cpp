// Which kernels are run by consumer groups (the schedule ping_pong), and what their code has for it. What they
// compute is compared in gpu/pipeline_test.cpp.
#include <gtest/gtest.h>

#include <regex>

#include "harness.h"
#include "kiln/dsl/kernel.h"
#include "kiln/dsl/kernels.h"
#include "nvptx/aligned_facts.h"
#include "triangle.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;
namespace kernels = lang::kernels;
using lang::i32, lang::Ptr, lang::Value;

struct Code {
  int64_t threads = 0, shared_bytes = 0;
  bool persistent = false;
  std::string text;

  // Transaction barriers for turns, beside two for each slot.
  bool has_consumer_groups(int stages) const {
    const std::regex made("mbarrier\\.init");
    return std::distance(std::sregex_iterator(text.begin(), text.end(), made), {}) == 2 * stages + 2;
  }
};

Code code_of(const dsl::Kernel& kernel, const dsl::ConstexprValues& config) {
  const auto artifact = compile(kernel, config, aligned_facts(kernel), "cuda:sm_90a", "ptx");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact) return {};
  const abi::Device& device = *artifact->metadata.device;
  return {device.threads.value(), device.shared_bytes.value(), device.persistent.has_value(),
          std::string(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size())};
}

const dsl::ConstexprValues kConsumerGroups = {{"BM", 128},      {"BN", 128},       {"BK", 64},
                                              {"num_warps", 4}, {"num_stages", 4}, {"warp_specialise", 4}};

TEST(NvptxConsumerGroups, AreTwoWhereABlockHadOne) {
  const dsl::Kernel& matmul = *kernels::matmul<lang::bf16>().ir();
  const Code two = code_of(matmul, kConsumerGroups);
  EXPECT_TRUE(two.persistent);
  EXPECT_TRUE(two.has_consumer_groups(4));
  EXPECT_EQ(two.threads, 128 + 128 + 128);
  dsl::ConstexprValues alone = kConsumerGroups;
  alone["warp_specialise"] = 2;
  const Code one = code_of(matmul, alone);
  EXPECT_TRUE(one.persistent);
  EXPECT_FALSE(one.has_consumer_groups(4));
  // They share the ring of 128 KiB, and each has two buffers of 16 KiB for what it stores.
  EXPECT_GE(two.shared_bytes, one.shared_bytes + 2 * 16 * 1024);
  EXPECT_LT(two.shared_bytes, one.shared_bytes + 2 * 16 * 1024 + 2048);
}

TEST(NvptxConsumerGroups, AreOfOneGroupOfWarps) {
  const dsl::Kernel& matmul = *kernels::matmul<lang::bf16>().ir();
  dsl::ConstexprValues wide = kConsumerGroups;
  wide["num_warps"] = 8;
  const Code code = code_of(matmul, wide);
  EXPECT_TRUE(code.persistent);
  EXPECT_FALSE(code.has_consumer_groups(4));
}

// A consumer group could not tell how many stages the other's program takes.
TEST(NvptxConsumerGroups, AreNoneWhereLoopsDiffer) {
  const Code code = code_of(triangle(), {{"num_warps", 4}, {"warp_specialise", 4}});
  EXPECT_TRUE(code.persistent);
  EXPECT_FALSE(code.has_consumer_groups(3));
}

// Two products an iteration, of which one runs into the next: the loop is turned round (pipelined_dot.h).
TEST(NvptxConsumerGroups, AreNoneWhereOneProductWantsTheOther) {
  const auto twice = lang::kernel("twice", {"A", "B", "C", "N"},
                                  [](Ptr<const lang::bf16> A, Ptr<const lang::bf16> B, Ptr<lang::bf16> C, i32 N) {
                                    lang::grid(lang::cdiv(N, 64));
                                    const Value m = lang::program_id(0) * 64;
                                    lang::Var acc = lang::zeros(lang::f32_t, {64, 64});
                                    for (Value k : lang::range(0, N, 64).stages(3)) {
                                      const Value a = lang::tile(A, {N, N}).load({m, k}, {64, 64});
                                      const Value b = lang::tile(B, {N, 64}).load({k, 0}, {64, 64});
                                      const Value first = lang::dot(a, b, lang::zeros(lang::f32_t, {64, 64}));
                                      acc = lang::dot(lang::cast(first, lang::bf16_t), b, acc);
                                    }
                                    lang::tile(C, {N, 64}).store({m, 0}, lang::cast(acc, lang::bf16_t));
                                  });
  const Code code = code_of(*twice.ir(), {{"num_warps", 4}, {"warp_specialise", 4}});
  EXPECT_FALSE(code.has_consumer_groups(3));
}

}  // namespace
}  // namespace kiln::test
