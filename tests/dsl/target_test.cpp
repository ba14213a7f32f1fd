// The table of GPUs, and what is taken for those that are not in it.
#include <gtest/gtest.h>

#include "kiln/target/gpu.h"

namespace kiln::target {
namespace {

TEST(Targets, HaveWhatTheirGuidesSay) {
  const Multiprocessor ada = multiprocessor_of("cuda:sm_89"), hopper = multiprocessor_of("cuda:sm_90a");
  EXPECT_EQ(ada.threads, 1536);
  EXPECT_EQ(ada.block_shared_bytes, 99 * 1024);
  EXPECT_EQ(hopper.threads, 2048);
  EXPECT_EQ(hopper.block_shared_bytes, 227 * 1024);
  EXPECT_EQ(multiprocessor_of("cuda:sm_80").block_shared_bytes, 163 * 1024);
  const Multiprocessor cdna = multiprocessor_of("amd:gfx942"), rdna = multiprocessor_of("amd:gfx1100");
  EXPECT_EQ(cdna.lanes, 64);
  EXPECT_EQ(cdna.threads, 2048);
  EXPECT_EQ(rdna.lanes, 32);
  EXPECT_EQ(rdna.threads, 1024);
  EXPECT_EQ(rdna.block_shared_bytes, 65536);
  EXPECT_EQ(rdna.nvidia, nullptr);
}

TEST(Targets, AreFoundByTheirWholeName) {
  for (const NvidiaGpu& gpu : nvidia_gpus()) EXPECT_EQ(find_nvidia_gpu(gpu.name), &gpu);
  for (const AmdGpu& gpu : amd_gpus()) EXPECT_EQ(find_amd_gpu(gpu.name), &gpu);
  EXPECT_EQ(find_nvidia_gpu("sm_9"), nullptr);
  EXPECT_EQ(find_nvidia_gpu("sm_90ab"), nullptr);
  EXPECT_EQ(find_amd_gpu(""), nullptr);
}

TEST(Targets, UnknownOnesAreTakenForTheNearestThatIsKnown) {
  EXPECT_STREQ(multiprocessor_of("cuda:sm_100a").nvidia->name, "sm_90a");
  EXPECT_STREQ(multiprocessor_of("cuda:sm_87").nvidia->name, "sm_89");
  EXPECT_STREQ(multiprocessor_of("cuda").nvidia->name, "sm_90a");
  EXPECT_EQ(multiprocessor_of("amd:gfx1101").lanes, 32);
  EXPECT_EQ(multiprocessor_of("amd:gfx908").lanes, 64);
  EXPECT_EQ(nvidia_gpu(120).capability, 90);
  EXPECT_EQ(nvidia_gpu(87).capability, 86);
  EXPECT_EQ(nvidia_gpu(50).capability, 80);
}

TEST(Targets, BlocksTakeRegistersByEightsAndAKilobyteOfSharedMemoryMore) {
  const NvidiaGpu& hopper = *find_nvidia_gpu("sm_90a");
  EXPECT_EQ(blocks_by_registers(hopper, 128, 256), 2);
  EXPECT_EQ(blocks_by_registers(hopper, 129, 256), 1);
  EXPECT_EQ(blocks_by_registers(hopper, 255, 512), 0);
  EXPECT_EQ(blocks_but_for_registers(hopper, 256, 0), 8);
  EXPECT_EQ(blocks_but_for_registers(hopper, 256, 113 * 1024), 2);
  EXPECT_EQ(blocks_but_for_registers(hopper, 256, 113 * 1024 + 1), 1);
}

}  // namespace
}  // namespace kiln::target
