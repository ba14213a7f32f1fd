// Kernels of very many ops through the lowering for GPUs: with calls of long ops (elementwise/calls.h), waits that
// reductions share and homes for what has none, they compute what they say. On a GPU, where there is one, with its
// parts (gpu/llvm_passes/parts.h) too.
#include "cuda_device.h"
#include "grown.h"

namespace kiln::test {
namespace {

struct Case {
  const char* family;
  int count;
};

class GrowthOnGpu : public testing::TestWithParam<Case> {};

TEST_P(GrowthOnGpu, ComputesWhatItSays) {
  if (!on_cuda() && !wants_targets("gpu")) GTEST_SKIP() << "of GPUs";
  const auto [name, count] = GetParam();
  expect_grown_computes(*growth::find_family(name), count, on_cuda() ? "" : "gpu:warps=2,copying=0");
}

INSTANTIATE_TEST_SUITE_P(Families, GrowthOnGpu,
                         testing::Values(Case{"adds_f32", 5000}, Case{"tanhs", 300}, Case{"divisions", 300},
                                         Case{"reductions", 100}, Case{"sums", 100}, Case{"row_sums", 100},
                                         Case{"scans", 50}, Case{"dots", 40}, Case{"joins", 1000},
                                         Case{"reshapes", 100}, Case{"stores", 500}, Case{"loads", 500},
                                         Case{"masked_loads", 300}, Case{"updates", 300}, Case{"taps", 150},
                                         Case{"gathers", 100}, Case{"branches", 200}, Case{"loops", 100},
                                         Case{"carried", 100}, Case{"nested_while", 20}),
                         [](const auto& info) { return std::string(info.param.family); });

}  // namespace
}  // namespace kiln::test
