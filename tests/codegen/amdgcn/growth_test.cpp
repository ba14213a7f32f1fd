// Kernels of very many ops for AMD: in parts (gpu/llvm_passes/parts.h), with calls (elementwise/calls.h), they compute
// what they say.
#include "grown.h"

namespace kiln::test {
namespace {

struct Case {
  const char* family;
  int count;
};

class GrowthOnAmd : public testing::TestWithParam<Case> {};

TEST_P(GrowthOnAmd, ComputesWhatItSays) {
  const auto [name, count] = GetParam();
  expect_grown_computes(*growth::find_family(name), count, "amd:gfx942");
}

INSTANTIATE_TEST_SUITE_P(Families, GrowthOnAmd,
                         testing::Values(Case{"adds_f32", 20000}, Case{"tanhs", 1000}, Case{"divisions", 1000},
                                         Case{"reductions", 800}, Case{"sums", 500}, Case{"scans", 300},
                                         Case{"stores", 1000}, Case{"loads", 1000}, Case{"updates", 1000},
                                         Case{"branches", 800}, Case{"loops", 500}, Case{"taps", 500},
                                         Case{"dots", 300}),
                         [](const auto& info) { return std::string(info.param.family); });

}  // namespace
}  // namespace kiln::test
