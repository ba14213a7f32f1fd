// The cost model's bounds, its use of resources, and the description of a machine.
#include "kiln/autotune/model.h"

#include <gtest/gtest.h>

#include "kiln/abi/metadata_json.h"
#include "kiln/dsl/kernels.h"

namespace kiln::autotune {
namespace {

Machine gpu() {
  return {.read_bytes_per_us = 4e6,
          .copy_bytes_per_us = 4e6,
          .cache_bytes_per_us = 8e6,
          .f32_flops_per_us = 5e7,
          .dot_flops_per_us = {{"bf16", 6e8}, {"f32", 5e7}},
          .math_per_us = 4e6,
          .launch_us = 3,
          .parallel = 132,
          .target = "cuda:sm_90a"};
}
Work product() {
  return {.dot_flops = 1.4e11,
          .dot_type = dsl::ElementType::kBF16,
          .loaded = 1.6e9,
          .stored = 3e7,
          .lines = 1.63e9,
          .compulsory = 1e8,
          .programs = 512,
          .tile_bytes = 1.5e5,
          .dot_bytes = 1e10,
          .steps = 33000};
}

// What the compiler says of code with this `device`.
abi::Metadata compiled(const nlohmann::json& device) { return *abi::metadata_of({{"device", device}}); }

TEST(Model, TheRooflineIsTheTightestBound) {
  EXPECT_STREQ(roofline(gpu(), product()).bound, "products");
  EXPECT_NEAR(roofline(gpu(), product()).us, 1.4e11 / 6e8, 1e-9);
  EXPECT_STREQ(roofline(gpu(), {.loaded = 1e9, .compulsory = 1e9}).bound, "memory");
  EXPECT_STREQ(roofline(gpu(), {.math = 1e9}).bound, "arithmetic");
  EXPECT_STREQ(roofline(gpu(), {}).bound, "launch");
}

TEST(Model, WhatIsPossibleIsHalfOfTheRoofUnlessTheWorkIsEstimated) {
  Work work = product();
  EXPECT_NEAR(possible_us(gpu(), work), 1.4e11 / 6e8 / 2, 1e-9);
  EXPECT_LT(possible_us(gpu(), work), predict_us(gpu(), work, {}));
  work.estimated = true;
  EXPECT_EQ(possible_us(gpu(), work), 0);
}

// Products of f8 are faster than those of any type that was calibrated, and those of f64 have a bound all the same.
TEST(Model, ATypeThatWasNotCalibratedIsNotTakenForF32) {
  Work work = product();
  const double of_bf16 = possible_us(gpu(), work);
  work.dot_type = dsl::ElementType::kF8E4M3;
  EXPECT_NEAR(possible_us(gpu(), work), of_bf16 / 2, 1e-9);
  work.dot_type = dsl::ElementType::kF64;
  EXPECT_NEAR(possible_us(gpu(), work), of_bf16, 1e-9);
  EXPECT_GT(possible_us(gpu(), work), 0);
}

// A product of 16 blocks is worth two launches where its loop is long, and not where it is short.
TEST(Model, ProductsOfFewBlocksAreSplit) {
  const auto predicted = [](int64_t k, int64_t parts) {
    const auto& kernel = *kernels::matmul<lang::bf16>().ir();
    auto workload = make_workload(kernel, {{"M", 512}, {"N", 512}, {"K", k}});
    EXPECT_TRUE(workload);
    const Config config = {{"BM", 128}, {"BN", 128}, {"BK", 64}, {"num_stages", 4}, {"split_k", parts}};
    auto work = count_work(kernel, config, *workload);
    EXPECT_TRUE(work);
    return predict_us(gpu(), *work, config);
  };
  EXPECT_LT(predicted(16384, 8), predicted(16384, 1) / 2);
  EXPECT_GT(predicted(256, 8), predicted(256, 1));
}

TEST(Model, FewProgramsLeaveTheMachineIdle) {
  Work full = product(), partial = product();
  full.programs = 264;
  partial.programs = 265;
  EXPECT_GT(predict_us(gpu(), partial, {}), 1.3 * predict_us(gpu(), full, {}));
}

// A CPU passes over a large tile for one op after the other; over a few registers it looks ahead, as into the next
// iteration of a loop.
TEST(Model, ACpuMovesLargeTilesAndMemoryOneAfterTheOther) {
  const Machine cpu = {.read_bytes_per_us = 1e4,
                       .copy_bytes_per_us = 1e4,
                       .cache_bytes_per_us = 1e5,
                       .f32_flops_per_us = 1e5,
                       .math_per_us = 1e4,
                       .launch_us = 1,
                       .parallel = 2,
                       .target = "cpu:simulated"};
  const Work plain = {.loaded = 1e6, .lines = 1e6, .compulsory = 1e6, .programs = 8, .tile_bytes = 1024};
  Work small = plain, large = plain, steps = plain;
  small.scratch_bytes = large.scratch_bytes = 5e6;
  large.tile_bytes = 16 << 10;
  steps.steps = 40000;
  const double us = predict_us(cpu, plain, {});
  EXPECT_NEAR(predict_us(cpu, large, {}), us + 50, 1e-9);
  EXPECT_LT(predict_us(cpu, small, {}), us + 25);
  EXPECT_LT(predict_us(cpu, steps, {}), us + 20);
  large.tile_bytes = 256 << 10;
  EXPECT_GT(predict_us(cpu, large, {}), us + 60);
}

TEST(Model, SpillsAndLowOccupancyCost) {
  const abi::Metadata good = compiled({{"threads", 256}, {"registers", 128}, {"shared_bytes", 50000}});
  abi::Metadata spills = good, alone = good;
  spills.device->spill_bytes = 400;
  alone.device->shared_bytes = 200000;
  const Work work = {.loaded = 4e8, .stored = 4e8, .lines = 8e8, .compulsory = 8e8, .programs = 10000, .steps = 20000};
  const double us = predict_us(gpu(), work, {}, &good);
  EXPECT_GT(predict_us(gpu(), work, {}, &spills), us);
  Work small_steps = work;
  small_steps.steps = 800000;
  EXPECT_GT(predict_us(gpu(), small_steps, {}, &alone), predict_us(gpu(), small_steps, {}, &good));
}

// Of blocks with 72 KiB of shared memory an A100's multiprocessor holds two, an L40S's one.
TEST(Model, BlocksShareTheMemoryThatTheDeviceHas) {
  const abi::Metadata blocks = compiled({{"threads", 256}, {"registers", 128}, {"shared_bytes", 72 << 10}});
  const Work work = {.loaded = 4e8, .stored = 4e8, .lines = 8e8, .compulsory = 8e8, .programs = 10000, .steps = 800000};
  const auto predicted = [&](const char* target) {
    Machine machine = gpu();
    machine.target = target;
    return predict_us(machine, work, {}, &blocks);
  };
  EXPECT_LT(predicted("cuda:sm_80"), predicted("cuda:sm_89"));
  EXPECT_LE(predicted("cuda:sm_90a"), predicted("cuda:sm_80"));
}

// What the model takes for the time of compiled blocks that hold little and wait often.
double waiting_us(const char* target, const nlohmann::json& device) {
  const Work work = {.loaded = 4e8, .stored = 4e8, .lines = 8e8, .compulsory = 8e8, .programs = 10000, .steps = 800000};
  Machine machine = gpu();
  machine.target = target;
  const abi::Metadata metadata = compiled(device);
  return predict_us(machine, work, {}, &metadata);
}

// Of 1024 threads an A100's multiprocessor holds two blocks, an L40S's one: it has 1536 threads.
TEST(Model, BlocksShareTheThreadsThatTheDeviceHas) {
  const auto of = [](const char* target, int threads) {
    return waiting_us(target, {{"threads", threads}, {"registers", 16}, {"shared_bytes", 0}});
  };
  EXPECT_EQ(of("cuda:sm_80", 1024), of("cuda:sm_80", 768));
  EXPECT_GT(of("cuda:sm_89", 1024), of("cuda:sm_89", 768));
}

// Kilobytes are of 1024 bytes, and the system keeps one of each block: 49 KiB are half of 100, 50 are not.
TEST(Model, SharedMemoryIsCountedAsTheCompilerDoes) {
  const auto of = [](const char* target, int kib) {
    return waiting_us(target, {{"threads", 256}, {"registers", 64}, {"shared_bytes", kib << 10}});
  };
  EXPECT_EQ(of("cuda:sm_89", 49), of("cuda:sm_89", 40));
  EXPECT_GT(of("cuda:sm_89", 50), of("cuda:sm_89", 49));
  EXPECT_EQ(of("cuda:sm_80", 81), of("cuda:sm_80", 60));
  EXPECT_GT(of("cuda:sm_80", 82), of("cuda:sm_80", 81));
  EXPECT_EQ(of("cuda:sm_90a", 113), of("cuda:sm_90a", 80));
  EXPECT_GT(of("cuda:sm_90a", 114), of("cuda:sm_90a", 113));
}

// RDNA's waves have 32 lanes and two SIMDs a compute unit, CDNA's 64 and four.
TEST(Model, WavesHaveTheLanesOfTheirProcessor) {
  const Work work = {.register_bytes = 32768};
  const auto bytes = [&](const char* target) {
    Machine machine = gpu();
    machine.target = target;
    return register_bytes_a_thread(machine, work, {{"num_warps", 4}});
  };
  for (const char* wide : {"amd:gfx906", "amd:gfx90a", "amd:gfx942"}) EXPECT_EQ(bytes(wide), 128) << wide;
  for (const char* narrow : {"amd:gfx1100", "amd:gfx1200", "cuda:sm_80"}) EXPECT_EQ(bytes(narrow), 256) << narrow;
  // Eight waves a SIMD are 2048 threads there, and 512 here.
  const nlohmann::json device = {{"threads", 256}, {"waves_per_simd", 8}};
  EXPECT_LT(waiting_us("amd:gfx942", device), waiting_us("amd:gfx1100", device));
}

TEST(Model, PrunesByWhatTheTargetHas) {
  const auto reason = [](const char* target, int64_t bytes) {
    abi::Metadata metadata = compiled({{"threads", 128}, {"shared_bytes", bytes}});
    metadata.target = target;
    return prune_reason(metadata);
  };
  EXPECT_EQ(reason("cuda:sm_89", 99 << 10), "");
  EXPECT_EQ(reason("cuda:sm_89", (99 << 10) + 1), "needs 101377 bytes of shared memory");
  EXPECT_EQ(reason("cuda:sm_80", 163 << 10), "");
  EXPECT_EQ(reason("cuda:sm_80", (163 << 10) + 1), "needs 166913 bytes of shared memory");
  EXPECT_EQ(reason("cuda:sm_90a", 227 << 10), "");
  EXPECT_EQ(reason("cuda:sm_90a", (227 << 10) + 1), "needs 232449 bytes of shared memory");
}

TEST(Model, PrunesWhatDoesNotFitOrSpillsFar) {
  auto reason = [](const nlohmann::json& device) { return prune_reason(compiled(device)); };
  EXPECT_EQ(reason({{"threads", 256}, {"registers", 168}, {"shared_bytes", 100000}, {"spill_bytes", 16}}), "");
  EXPECT_EQ(reason({{"threads", 1024}, {"registers", 128}}),
            "1024 threads of 128 registers do not fit on a multiprocessor");
  EXPECT_EQ(reason({{"threads", 128}, {"shared_bytes", 300000}}), "needs 300000 bytes of shared memory");
  EXPECT_EQ(reason({{"threads", 128}, {"spill_bytes", 4096}}), "spills 4096 bytes of registers a thread");
  abi::Metadata host;
  host.scratch_bytes = 1 << 20;
  EXPECT_EQ(prune_reason(host), "");
  host.scratch_bytes = int64_t{1} << 30;
  EXPECT_EQ(prune_reason(host), "needs 1073741824 bytes of scratch memory a thread");
}

TEST(Model, RanksCorrelateAsSpearmanSays) {
  const std::vector<double> up = {1, 2, 3, 4}, down = {9, 7, 5, 1}, ties = {1, 2, 2, 3}, none = {5, 5, 5, 5};
  EXPECT_DOUBLE_EQ(rank_correlation(up, up), 1);
  EXPECT_DOUBLE_EQ(rank_correlation(up, down), -1);
  EXPECT_NEAR(rank_correlation(up, ties), 0.9487, 1e-4);  // the middle ones share rank 2.5
  EXPECT_EQ(rank_correlation(up, none), 0);
  EXPECT_EQ(rank_correlation({}, {}), 0);
}

TEST(Model, AMachineReadsBackFromJson) {
  auto back = parse_machine(to_json(gpu()));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_json(*back), to_json(gpu()));
  nlohmann::json broken = to_json(gpu());
  broken["math_per_us"] = "fast";
  EXPECT_EQ(parse_machine(broken).error().message, "the description of a machine: `math_per_us` is no number");
  EXPECT_EQ(parse_machine(3).error().message, "the description of a machine: it is no JSON object");
}

}  // namespace
}  // namespace kiln::autotune
