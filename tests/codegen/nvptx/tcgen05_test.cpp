// Which products are tcgen05's on sm_100a and sm_103a, and what the assembler makes of them. What they compute is
// compared in gpu/tensor_memory_test.cpp.
#include <gmock/gmock.h>

#include "harness.h"
#include "kiln/dsl/kernels.h"
#include "nvptx/aligned_facts.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;
namespace kernels = lang::kernels;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string ptx_of(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, const std::string& target) {
  const auto artifact = compile(kernel, config, aligned_facts(kernel), target, "ptx");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact) return "";
  return {reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()};
}

dsl::Kernel attention() { return *kernels::attention<lang::bf16>().ir(); }

TEST(Tcgen05, MultipliesInTheLibrarysDefaults) {
  for (const char* target : {"cuda:sm_100a", "cuda:sm_103a"}) {
    SCOPED_TRACE(target);
    for (const dsl::Kernel& kernel :
         {*kernels::matmul<lang::bf16>().ir(), *kernels::matmul<lang::f16>().ir(), attention()}) {
      SCOPED_TRACE(kernel.name);
      const std::string text = ptx_of(kernel, {}, target);
      EXPECT_THAT(text, HasSubstr("tcgen05.mma.cta_group::1.kind::f16"));
      EXPECT_THAT(text, Not(HasSubstr("mma.sync")));
    }
  }
}

TEST(Tcgen05, MultipliesBytesOnOneOfThem) {
  const dsl::Kernel bytes = *kernels::matmul<lang::i8>().ir();
  EXPECT_THAT(ptx_of(bytes, {}, "cuda:sm_100a"), HasSubstr("tcgen05.mma.cta_group::1.kind::i8"));
  const std::string other = ptx_of(bytes, {}, "cuda:sm_103a");
  EXPECT_THAT(other, Not(HasSubstr("tcgen05")));
  EXPECT_THAT(other, HasSubstr("mma.sync"));
}

TEST(Tcgen05, LeavesSmallTilesToOthers) {
  const dsl::ConstexprValues small = {{"BM", 64}, {"BN", 64}, {"BK", 64}, {"num_warps", 4}};
  EXPECT_THAT(ptx_of(*kernels::matmul<lang::bf16>().ir(), small, "cuda:sm_100a"), Not(HasSubstr("tcgen05")));
}

// What is allocated is released, on each way out.
TEST(Tcgen05, ReleasesWhereItEnds) {
  dsl::Kernel checked = *kernels::matmul<lang::bf16>().ir();
  checked.options.check_bounds = true;
  for (const dsl::Kernel& kernel : {*kernels::matmul<lang::bf16>().ir(), checked}) {
    const std::string text = ptx_of(kernel, {}, "cuda:sm_100a");
    const auto count = [&](const std::string& what) {
      size_t out = 0;
      for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++out;
      return out;
    };
    EXPECT_EQ(count("tcgen05.alloc"), 1u);
    EXPECT_GE(count("tcgen05.dealloc"), 1u);
  }
}

TEST(Tcgen05, SpillsNothingAndIsNotSerialised) {
  std::vector<std::pair<dsl::Kernel, dsl::ConstexprValues>> cases = {{*kernels::matmul<lang::bf16>().ir(), {}},
                                                                     {*kernels::matmul<lang::i8>().ir(), {}},
                                                                     {attention(), {}},
                                                                     {attention(), {{"D", 128}}}};
  for (int64_t specialised : {2, 4}) {
    const int64_t warps = specialised == 4 ? 4 : 8, columns = specialised == 4 ? 128 : 256;
    cases.emplace_back(*kernels::matmul<lang::bf16>().ir(),
                       dsl::ConstexprValues{{"warp_specialise", specialised}, {"num_warps", warps}, {"BN", columns}});
  }
  for (const auto& [kernel, config] : cases) {
    SCOPED_TRACE(kernel.name);
    const auto artifact = compile(kernel, config, aligned_facts(kernel), "cuda:sm_100a");
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    const abi::Device& device = *artifact->metadata.device;
    if (!device.spill_bytes) GTEST_SKIP() << "no assembler of NVIDIA's on this machine: PTX only";
    EXPECT_EQ(*device.spill_bytes, 0);
    EXPECT_THAT(device.warnings.value_or(std::vector<std::string>()), IsEmpty());
  }
}

}  // namespace
}  // namespace kiln::test
