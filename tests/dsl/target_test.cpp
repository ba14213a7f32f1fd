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
  EXPECT_EQ(multiprocessor_of("cuda:sm_100a").block_shared_bytes, 227 * 1024);
  EXPECT_EQ(multiprocessor_of("cuda:sm_103").block_shared_bytes, 227 * 1024);
  EXPECT_EQ(multiprocessor_of("cuda:sm_120").block_shared_bytes, 99 * 1024);
  EXPECT_EQ(multiprocessor_of("cuda:sm_121a").threads, 1536);
}

TEST(Targets, AreFoundByTheirWholeName) {
  for (const NvidiaGpu& gpu : nvidia_gpus()) EXPECT_EQ(find_nvidia_gpu(gpu.name), &gpu);
  for (const AmdGpu& gpu : amd_gpus()) EXPECT_EQ(find_amd_gpu(gpu.name), &gpu);
  EXPECT_EQ(find_nvidia_gpu("sm_9"), nullptr);
  EXPECT_EQ(find_nvidia_gpu("sm_90ab"), nullptr);
  EXPECT_EQ(find_amd_gpu(""), nullptr);
  // PTX of a plain one, for what is newer.
  EXPECT_EQ(find_nvidia_gpu("compute_120"), find_nvidia_gpu("sm_120"));
  EXPECT_EQ(find_nvidia_gpu("compute_120a"), nullptr);
  EXPECT_EQ(find_nvidia_gpu("compute_"), nullptr);
}

TEST(Targets, TheBestOfADeviceIsItsOwnOrOneWhoseCodeItRuns) {
  EXPECT_EQ(best_nvidia_name(80), "sm_80");
  EXPECT_EQ(best_nvidia_name(87), "sm_86");
  EXPECT_EQ(best_nvidia_name(90), "sm_90a");
  EXPECT_EQ(best_nvidia_name(100), "sm_100a");
  EXPECT_EQ(best_nvidia_name(103), "sm_103a");
  EXPECT_EQ(best_nvidia_name(110), "compute_103");
  EXPECT_EQ(best_nvidia_name(120), "sm_120a");
  EXPECT_EQ(best_nvidia_name(121), "sm_121a");
  EXPECT_EQ(best_nvidia_name(122), "sm_121");
  EXPECT_EQ(best_nvidia_name(130), "compute_121");
  EXPECT_EQ(best_nvidia_name(75), "sm_75");
  EXPECT_FALSE(check_gpu_target("cuda:sm_75").ok());
}

TEST(Targets, NeedACudaThatKnowsThem) {
  for (const NvidiaGpu& gpu : nvidia_gpus()) EXPECT_GE(gpu.least_cuda(), 11080) << gpu.name;
  EXPECT_EQ(cuda_version_text(find_nvidia_gpu("sm_80")->least_cuda()), "11.8");
  EXPECT_EQ(cuda_version_text(find_nvidia_gpu("sm_120a")->least_cuda()), "12.8");
  EXPECT_EQ(cuda_version_text(find_nvidia_gpu("sm_121")->least_cuda()), "12.9");
}

TEST(Targets, AnUnknownOneIsRefusedWithTheNearestThatAreKnown) {
  const auto nearest = [](const char* target) {
    const Result<void> known = check_gpu_target(target);
    if (known) return std::string();
    const std::string& words = known.error().message;
    const size_t begin = words.find("the nearest ") + 12;
    return words.substr(begin, words.find(", and `", begin) - begin);
  };
  EXPECT_EQ(nearest("cuda:sm_95"), "are sm_90 and sm_100");
  EXPECT_EQ(nearest("cuda:sm_95a"), "are sm_90a and sm_100a");
  EXPECT_EQ(nearest("cuda:sm_75"), "is sm_80");
  EXPECT_EQ(nearest("cuda:sm_130a"), "is sm_121a");
  EXPECT_EQ(nearest("cuda:sm_80a"), "is sm_80");
  EXPECT_EQ(nearest("cuda:sm90a"), "is sm_90a");
  EXPECT_EQ(nearest("amd:gfx941"), "is gfx942");
  EXPECT_EQ(nearest("amd:gfx1101"), "is gfx1100");
  EXPECT_EQ(nearest("amd:MI300X").find("are gfx906, gfx90a, "), 0u);
  for (const char* known :
       {"cuda", "cuda:sm_103a", "cuda:compute_90", "amd:gfx942", "cpu:znver4", "interp", "nonsense"}) {
    EXPECT_TRUE(check_gpu_target(known).ok()) << known;
  }
  EXPECT_EQ(check_gpu_target("cuda:sm_95").error().message,
            "target `cuda:sm_95`: no processor of NVIDIA that is known has the name `sm_95`; the nearest are sm_90 and "
            "sm_100, and `cuda` alone is the device of this machine");
  EXPECT_LT(check_gpu_target("cuda:" + std::string(100000, 'x')).error().message.size(), 500u);
}

TEST(Targets, UnknownOnesAreTakenForTheNearestThatIsKnown) {
  EXPECT_STREQ(multiprocessor_of("cuda:sm_110a").nvidia->name, "sm_103a");
  EXPECT_STREQ(multiprocessor_of("cuda:sm_87").nvidia->name, "sm_86");
  EXPECT_STREQ(multiprocessor_of("cuda:compute_120").nvidia->name, "sm_120");
  EXPECT_STREQ(multiprocessor_of("cuda").nvidia->name, "sm_121a");
  EXPECT_EQ(multiprocessor_of("amd:gfx1101").lanes, 32);
  EXPECT_EQ(multiprocessor_of("amd:gfx908").lanes, 64);
  EXPECT_EQ(nvidia_gpu(130).capability, 121);
  EXPECT_EQ(nvidia_gpu(110).capability, 103);
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
