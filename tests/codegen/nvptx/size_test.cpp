// Kernels of great depth, length and width for NVIDIA: they compile, or are refused at once, and the error says what
// would do.
#include <gmock/gmock.h>

#include "gpu/block/launch_shape.h"
#include "kiln/dsl/kernels.h"
#include "sized_kernels.h"

namespace kiln::test {
namespace {

constexpr char kHopper[] = "cuda:sm_90a";

using testing::HasSubstr;

// Each level of a nest is looked at a bounded number of times: 64 levels would take for ever if each took twice as
// long as the one inside.
TEST(SizeOnNvidia, NestsAreAsDeepAsTheLanguageAllows) {
  for (const char* loop : {"for", "while"}) {
    EXPECT_NE(code_of(parse_kernel(nest_of(loop, 64)), {}, kHopper), "") << loop;
  }
}

TEST(SizeOnGpu, NestsComputeWhatTheyShould) {
  for (const char* loop : {"for", "while"}) {
    for (int64_t n : {0, 1}) {
      expect_same(nest_of(loop, 12), {{random_buffer(dsl::ElementType::kF32, 64, 1), int_scalar(n)}, {0, 0, true}});
    }
  }
}

TEST(SizeOnNvidia, ATileThatNoThreadsHoldIsRefused) {
  const std::string refusal = refusal_of(normalised(64, 8192), {}, kHopper);
  EXPECT_THAT(refusal, HasSubstr(".kiln:")) << "the op's place";
  EXPECT_THAT(refusal, HasSubstr("registers of tiles, and has 128 in a block of 16 warps"));
  EXPECT_THAT(refusal, HasSubstr("the tiles of a program must be smaller"));
  // What a block leaves a thread counts: half as much in each of twice as many is no better.
  EXPECT_THAT(refusal_of(normalised(64, 8192), {{"num_warps", 32}}, kHopper),
              HasSubstr("and has 64 in a block of 32 warps"));
  const std::string product =
      refusal_of(*dsl::lang::kernels::matmul<>().ir(), {{"BM", 256}, {"BN", 256}, {"num_warps", 4}}, kHopper);
  EXPECT_THAT(product, HasSubstr("would hold 512 registers of tiles, and has 255 in a block of 4 warps"));
  EXPECT_THAT(product, HasSubstr("the tiles of a program must be smaller")) << "16 warps have none beside them";
}

TEST(SizeOnNvidia, ATileThatMoreWarpsHoldIsRefusedWithTheirNumber) {
  const dsl::Kernel kernel = normalised(32, 1024);
  EXPECT_THAT(refusal_of(kernel, {{"num_warps", 1}}, kHopper), HasSubstr("`num_warps = 8` would do"));
  EXPECT_EQ(refusal_of(kernel, {{"num_warps", 8}}, kHopper), "");
  EXPECT_EQ(refusal_of(kernel, {}, kHopper), "");
}

dsl::Kernel square_product(int64_t extent) {
  TextKernel k("%p: ptr<f32>, %x: bf16, %z: f32");
  const std::string a = k.splat("%x", {extent, 64}), b = k.splat("%x", {64, extent}),
                    c = k.splat("%z", {extent, extent});
  k.line("store " + k.splat("%p", {extent, extent}) + ", " + k.op("dot " + a + ", " + b + ", " + c));
  return parse_kernel(k.text());
}

// ptxas cannot spill the sums of a product of several warps.
TEST(SizeOnNvidia, AProductGetsTheWarpsThatHaveRegistersForItsSums) {
  const dsl::Kernel kernel = square_product(256);
  const auto artifact = compile(kernel, {}, {}, kHopper, "ptx");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  EXPECT_EQ(artifact->metadata.device->threads, 8 * 32);
  EXPECT_THAT(refusal_of(kernel, {{"num_warps", 16}}, kHopper), HasSubstr("`num_warps = 8` would do"));
}

// Of a long filter no more is loaded ahead than a thread has registers for.
TEST(SizeOnNvidia, SumsOfManyLoadsDoNotWaitForAllOfThem) {
  const std::string code = code_of(filter(400, 512), {{"num_warps", 4}}, kHopper, "ptx");
  size_t loads = 0, most = 0;
  for (size_t at = 0; at < code.size();) {
    const size_t end = std::min(code.find('\n', at), code.size());
    const std::string_view line(code.data() + at, end - at);
    if (line.find("ld.global") != std::string_view::npos) most = std::max(most, ++loads);
    if (line.find("add.rn.f32") != std::string_view::npos || line.find("add.f32") != std::string_view::npos) loads = 0;
    at = end + 1;
  }
  EXPECT_GT(most, 0u);
  EXPECT_LE(most, 256u);
}

}  // namespace
}  // namespace kiln::test
