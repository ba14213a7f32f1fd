// Kernels of great depth, length and width for AMD: they compile, or are refused at once, and the error says what would
// do.
#include <gmock/gmock.h>

#include "sized_kernels.h"

namespace kiln::test {
namespace {

constexpr const char* kProcessors[] = {"amd:gfx942", "amd:gfx1100"};

using testing::HasSubstr;

TEST(SizeOnAmd, NestsAreAsDeepAsTheLanguageAllows) {
  for (const char* target : kProcessors) {
    for (const char* loop : {"for", "while"}) {
      EXPECT_NE(code_of(parse_kernel(nest_of(loop, 64)), {}, target), "") << target << ' ' << loop;
    }
  }
}

// 4096 bytes, with what a launch puts behind the arguments.
TEST(SizeOnAmd, ParametersAreAsManyAsALaunchTakes) {
  for (const char* target : kProcessors) {
    EXPECT_EQ(refusal_of(of_pointers(512), {}, target), "");
    EXPECT_EQ(refusal_of(of_pointers(513), {}, target),
              "kernel `test` takes 4104 bytes of parameters; a GPU takes at most 4096");
  }
}

TEST(SizeOnAmd, ATileThatNoThreadsHoldIsRefused) {
  for (const char* target : kProcessors) {
    EXPECT_THAT(refusal_of(normalised(1024, 1024), {}, target), HasSubstr("the tiles of a program must be smaller"));
  }
}

TEST(SizeOnAmd, ATileThatMoreWarpsHoldIsRefusedWithTheirNumber) {
  const dsl::Kernel kernel = normalised(64, 1024);
  EXPECT_THAT(refusal_of(kernel, {{"num_warps", 1}}, "amd:gfx942"), HasSubstr("`num_warps = 4` would do"));
  EXPECT_EQ(refusal_of(kernel, {{"num_warps", 4}}, "amd:gfx942"), "");
}

// Of 2^20 elements a thread of few warps would hold thousands: whatever is computed of them, it is refused before any
// code is made, which would take minutes.
TEST(SizeOnAmd, ATileOfAMillionElementsIsRefusedBeforeAnyCodeIsMade) {
  for (const auto& [name, kernel] : of_one_tile(1024, 1024)) {
    for (int64_t warps : {1, 4}) {
      SCOPED_TRACE(name + " by " + std::to_string(warps));
      const Tried made = tried(kernel, {{"num_warps", warps}}, "amd:gfx942");
      EXPECT_THAT(made.refusal, HasSubstr("registers of tiles, and has "));
      EXPECT_THAT(made.refusal, HasSubstr("the tiles of a program must be smaller"));
      EXPECT_THAT(made.phases, testing::Contains("lower"));
      EXPECT_THAT(made.phases, testing::Not(testing::Contains("optimise")));
    }
  }
}

// What sums of many loads take grows as they do, not with the registers that all of them would take at once.
TEST(SizeOnAmd, SumsOfManyLoadsSpillNothing) {
  const auto artifact = compile(filter(400, 512), {{"num_warps", 2}}, {}, "amd:gfx942", "so");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  EXPECT_EQ(artifact->metadata.device->spill_bytes, 0);
}

}  // namespace
}  // namespace kiln::test
