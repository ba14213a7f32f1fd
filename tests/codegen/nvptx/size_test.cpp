// Kernels of great depth, length and width for NVIDIA: they compile, or are refused at once, and the error says what
// would do.
#include <gmock/gmock.h>

#include "gpu/block/launch_shape.h"
#include "kiln/dsl/kernels.h"
#include "kiln/dsl/library_names.h"
#include "nvptx/aligned_facts.h"
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

// 4096 bytes, with what a launch puts behind the arguments: here the number of programs, of which a block has several.
TEST(SizeOnNvidia, ParametersAreAsManyAsALaunchTakes) {
  EXPECT_EQ(refusal_of(of_pointers(511), {}, kHopper), "");
  EXPECT_EQ(refusal_of(of_pointers(513), {}, kHopper),
            "kernel `test` takes 4104 bytes of parameters, and its launch 8 behind them; a GPU takes at most 4096");
  EXPECT_EQ(refusal_of(of_pointers(300, true), {}, kHopper),
            "kernel `test` takes 2400 bytes of parameters, and its launch 2416 behind them; a GPU takes at most 4096");
}

// Beside so many the maps of arrays have no room.
TEST(SizeOnNvidia, ManyParametersLeaveNoRoomForMaps) {
  const dsl::Kernel& product = **dsl::find_library_kernel("matmul");
  std::string more;
  for (int i = 0; i < 500; ++i) more += "%more" + std::to_string(i) + ": i32, ";
  std::string text = dsl::print(product);
  text.insert(text.find('(') + 1, more);
  for (const auto& [kernel, maps] : {std::pair(product, 3u), {parse_kernel(text), 0u}}) {
    const auto artifact = compile(kernel, {}, aligned_facts(kernel), kHopper, "asm");
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    EXPECT_EQ(artifact->metadata.device->tensor_maps.size(), maps);
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

// At once: no code is made, which would take minutes.
TEST(SizeOnNvidia, ATileOfAMillionElementsIsRefusedBeforeAnyCodeIsMade) {
  for (const auto& [name, kernel] : of_one_tile(1024, 1024)) {
    SCOPED_TRACE(name);
    const Tried made = tried(kernel, {{"num_warps", 4}}, kHopper);
    EXPECT_THAT(made.refusal, HasSubstr("the tiles of a program must be smaller"));
    EXPECT_THAT(made.phases, testing::Contains("lower"));
    EXPECT_THAT(made.phases, testing::Not(testing::Contains("optimise")));
  }
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

// Of a long sum no more is loaded ahead than a thread has registers for: the most loads between two ops that add.
size_t loads_ahead(const std::string& code) {
  size_t loads = 0, most = 0;
  for (size_t at = 0; at < code.size();) {
    const size_t end = std::min(code.find('\n', at), code.size());
    const std::string_view line(code.data() + at, end - at);
    if (line.find("ld.global") != std::string_view::npos) most = std::max(most, ++loads);
    for (const char* adds : {"add.rn.f32", "add.f32", "fma.rn.f32"}) {
      if (line.find(adds) != std::string_view::npos) loads = 0;
    }
    at = end + 1;
  }
  return most;
}

TEST(SizeOnNvidia, SumsOfManyLoadsDoNotWaitForAllOfThem) {
  const size_t most = loads_ahead(code_of(filter(400, 512), {{"num_warps", 4}}, kHopper, "ptx"));
  EXPECT_GT(most, 0u);
  EXPECT_LE(most, 256u);
}

// In canonical order the last product of such a sum stands first.
TEST(SizeOnNvidia, SumsOfManyProductsDoNotWaitForAllOfThem) {
  for (const int warps : {1, 4}) {
    const size_t most = loads_ahead(code_of(weighted_filter(100, 512), {{"num_warps", warps}}, kHopper, "ptx"));
    EXPECT_GT(most, 0u) << warps;
    EXPECT_LE(most, 256u) << warps;
  }
}

// Where nobody says how many warps, there are as many as hold its tiles.
TEST(SizeOnNvidia, ATileThatMoreWarpsHoldGetsThemWhereNobodySaysHowMany) {
  const dsl::Kernel kernel = column_sums(64, 1, 512);
  EXPECT_THAT(refusal_of(kernel, {{"num_warps", 1}}, kHopper), HasSubstr("`num_warps = 8` would do"));
  const auto artifact = compile(kernel, {}, {}, kHopper, "ptx");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  EXPECT_EQ(artifact->metadata.device->threads, 8 * 32);
}

// What follows a product goes element by element: each result in many steps, of which all but one are over.
TEST(SizeOnNvidia, WhatIsComputedByElementNeedsNoPlaceForEachTile) {
  TextKernel k("%p: ptr<f32>, %x: bf16, %z: f32");
  const std::string a = k.splat("%x", {128, 64}), b = k.splat("%x", {64, 256}), c = k.splat("%z", {128, 256});
  std::string y = k.op("dot " + a + ", " + b + ", " + c);
  std::vector<std::string> terms = {y};
  for (int i = 0; i < 8; ++i) terms.push_back(k.op("math " + terms.back() + " {fn = tanh}"));
  for (const std::string& term : terms) y = k.op("mul " + y + ", " + term);
  k.line("store " + k.pointers("%p", {128, 256}) + ", " + y);
  EXPECT_EQ(refusal_of(parse_kernel(k.text()), {{"num_warps", 8}}, kHopper), "");
  const auto copy = [](int64_t elements) {
    TextKernel copied("%p: ptr<f32>, %q: ptr<f32>");
    copied.line("store " + copied.pointers("%q", {elements}) + ", " +
                copied.op("neg " + copied.op("load " + copied.pointers("%p", {elements}))));
    return parse_kernel(copied.text());
  };
  EXPECT_EQ(refusal_of(copy(1 << 14), {{"num_warps", 1}}, kHopper), "") << "512 of a thread";
  EXPECT_THAT(refusal_of(copy(1 << 16), {{"num_warps", 1}}, kHopper), HasSubstr("hold 2048 registers of tiles"));
}

// Reductions stand beside each other to share their waits, as far as a thread has registers for what they reduce.
TEST(SizeOnNvidia, ManySumsOfOneLoopAreNotAllReadBeforeTheFirst) {
  EXPECT_EQ(refusal_of(column_sums(24, 16, 256), {{"num_warps", 4}}, kHopper), "");
}

}  // namespace
}  // namespace kiln::test
