// What is decided of a block before there is code: the passes that know it, and what is tried where it was too large.
#include "gpu/block/shape.h"

#include <gmock/gmock.h>

#include "emulated_target.h"
#include "gpu/passes/block_passes.h"
#include "kiln/dsl/verify.h"
#include "random/generator.h"

namespace kiln::test {
namespace {

using testing::HasSubstr;

// The passes that know the block leave what the verifier takes, whatever the block.
TEST(BlockPasses, LeaveSoundKernels) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const random_kernel::Case test = random_kernel::generate(seed);
    auto kernel = random_kernel::instantiated(test);
    ASSERT_TRUE(kernel.ok());
    *kernel = codegen::run_passes(std::move(*kernel));
    const EmulatedTarget target(32, seed % 2 == 0);
    codegen::gpu::BlockShape block;
    block.warps = 1 << seed % 4;
    const codegen::gpu::BlockFacts facts{target, block};
    for (const auto& pass : codegen::gpu::block_passes()) {
      *kernel = pass.run(std::move(*kernel), facts);
      auto sound = dsl::verify(*kernel);
      ASSERT_TRUE(sound.ok()) << "seed " << seed << " after " << pass.name << ": " << sound.error().message;
    }
  }
}

// Step by step down to what nothing smaller is of.
TEST(SmallerShape, GivesUpWhatCostsSharedMemory) {
  const EmulatedTarget target(32);
  const int64_t most = target.lane_facts().shared_bytes;
  codegen::gpu::ShapedKernel shaped;
  shaped.kernel = std::make_shared<const dsl::Kernel>();
  shaped.block.programs = shaped.launch.programs = 4;
  auto next = smaller_shape(shaped, most / 4 + 1, target, "gpu");
  ASSERT_TRUE(next.ok() && next->has_value());
  EXPECT_EQ((*next)->programs, 1);

  shaped.block.programs = 1;
  shaped.block.persistent = shaped.launch.persistent = shaped.launch.queued = true;
  next = smaller_shape(shaped, most + 1, target, "gpu");
  ASSERT_TRUE(next.ok() && next->has_value());
  EXPECT_FALSE((*next)->persistent || (*next)->queued);

  const dsl::Op loop{};
  shaped.block.persistent = false;
  shaped.placement.pipelines[&loop].stages = 4;
  next = smaller_shape(shaped, most + 1, target, "gpu");
  ASSERT_TRUE(next.ok() && next->has_value());
  EXPECT_EQ((*next)->most_stages, 3);

  next = smaller_shape(shaped, most, target, "gpu");
  EXPECT_TRUE(next.ok() && !next->has_value()) << "it fits";

  shaped.placement.pipelines.clear();
  next = smaller_shape(shaped, most + 1, target, "gpu");
  ASSERT_FALSE(next.ok());
  EXPECT_THAT(next.error().message, HasSubstr("bytes of shared memory a block; gpu has " + std::to_string(most)));
}

}  // namespace
}  // namespace kiln::test
