// Static counts of real kernels against closed formulas.
#include <gtest/gtest.h>

#include "kiln/autotune/model.h"
#include "kiln/dsl/kernels.h"
#include "kiln/dsl/text.h"

namespace kiln::autotune {
namespace {

Work count(const Result<dsl::Kernel>& kernel, const nlohmann::json& scalars, const Config& config = {}) {
  auto workload = make_workload(*kernel, scalars, {}, config);
  EXPECT_TRUE(workload) << workload.error().message;
  if (!workload) return {};
  auto work = count_work(*kernel, config, *workload);
  EXPECT_TRUE(work) << work.error().message;
  return work ? *work : Work();
}

TEST(CountWork, OfVectorAddStopsAtTheEnd) {
  const Work work = count(kernels::vector_add<lang::f32>().ir(), {{"n", 10000}}, {{"BLOCK", 4096}});
  EXPECT_EQ(work.programs, 3);
  EXPECT_EQ(work.loaded, 2 * 4 * 10000);
  EXPECT_EQ(work.stored, 4 * 10000);
  EXPECT_EQ(work.compulsory, 3 * 4 * 10000);
  EXPECT_EQ(work.flops, 3 * 4096);
  EXPECT_FALSE(work.estimated);
}

TEST(CountWork, OfLoopsOverAllOfAType) {
  const auto kernel = dsl::parse(R"(kernel k(%x: ptr<i64>, %n: i64) {
    array x = 1
    %step = constant {value = 3, type = i64}
    %first = constant {value = -9223372036854775808, type = i64}
    for %i = %first to %n step %step { store %x, %i yield }
  })",
                                 "k.kiln");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  EXPECT_EQ(count(*kernel, {{"n", INT64_MAX}}).steps, 6148914691236517205.0 + 1);
  EXPECT_EQ(count(*kernel, {{"n", INT64_MIN}}).steps, 1);
  EXPECT_EQ(count(*kernel, {{"n", INT64_MIN + 4}}).steps, 3);
}

TEST(CountWork, OfAMatrixProductIsThatOfItsTiles) {
  const Config config = {{"BM", 128}, {"BN", 256}, {"BK", 64}};
  const Work work = count(kernels::matmul<lang::bf16>().ir(), {{"M", 512}, {"N", 512}, {"K", 512}}, config);
  const double programs = 4 * 2, trips = 512 / 64;
  EXPECT_EQ(work.dot_flops, 2.0 * 512 * 512 * 512);
  EXPECT_EQ(work.dot_type, dsl::ElementType::kBF16);
  EXPECT_EQ(work.programs, programs);
  EXPECT_EQ(work.steps, programs * trips + programs);
  EXPECT_EQ(work.loaded, programs * trips * 2 * (128 * 64 + 64 * 256));
  EXPECT_EQ(work.stored, 2 * 512 * 512);
  EXPECT_EQ(work.compulsory, 3 * 2 * 512 * 512);
  EXPECT_EQ(work.dot_bytes, programs * trips * (2 * (128 * 64 + 64 * 256) + 2 * 4 * 128 * 256));
  EXPECT_GE(work.tile_bytes, 2 * (128 * 64 + 64 * 256) + 4 * 128 * 256);
}

// Parts of its loop are programs of their own, whose sums are stored and loaded again by a second launch.
TEST(CountWork, OfASplitProductHasItsPartialSums) {
  Config config = {{"BM", 128}, {"BN", 256}, {"BK", 64}};
  const nlohmann::json shape = {{"M", 512}, {"N", 512}, {"K", 4096}};
  const Work whole = count(kernels::matmul<lang::bf16>().ir(), shape, config);
  config["split_k"] = 4;
  const Work split = count(kernels::matmul<lang::bf16>().ir(), shape, config);
  EXPECT_EQ(whole.launches, 1);
  EXPECT_EQ(split.launches, 2);
  EXPECT_EQ(split.programs, 4 * whole.programs);
  EXPECT_EQ(split.stored - whole.stored, 4 * 4.0 * 512 * 512);
  EXPECT_EQ(split.loaded - whole.loaded, 4 * 4.0 * 512 * 512);
  EXPECT_EQ(split.compulsory, whole.compulsory);
  EXPECT_EQ(split.dot_flops, whole.dot_flops);
  // Workers that share iterations store once for each begin of their own or of a program.
  config["stream_k"] = 10;
  config["split_k"] = 2;
  const Work dealt = count(kernels::matmul<lang::bf16>().ir(), shape, config);
  EXPECT_EQ(dealt.launches, 2);
  EXPECT_EQ(dealt.programs, 10);
  EXPECT_EQ(dealt.stored - whole.stored, (10 + 8) * 4.0 * 128 * 256);
  // A loop that adds up no products stays as it is.
  const nlohmann::json rows = {{"rows", 8}, {"cols", 3000}, {"stride", 3000}, {"eps", 1e-5}};
  EXPECT_EQ(count(kernels::layer_norm<lang::bf16>().ir(), rows, {{"BLOCK", 4096}, {"split_k", 4}}).launches, 1);
}

TEST(CountWork, KnowsWhatRegistersHold) {
  const Config product = {{"BM", 128}, {"BN", 256}, {"BK", 64}};
  EXPECT_EQ(count(kernels::matmul<lang::bf16>().ir(), {{"M", 512}, {"N", 512}, {"K", 512}}, product).register_bytes,
            4 * 128 * 256);
  const nlohmann::json rows = {{"rows", 8}, {"cols", 3000}, {"stride", 3000}, {"eps", 1e-5}};
  const Work norm = count(kernels::layer_norm<lang::bf16>().ir(), rows, {{"BLOCK", 4096}});
  EXPECT_EQ(norm.register_bytes, 4 * 4096);
  Machine machine;
  machine.target = "cuda:sm_90a";
  EXPECT_EQ(register_bytes_a_thread(machine, norm, {{"BLOCK", 4096}, {"num_warps", 2}}), 256);
  EXPECT_EQ(register_bytes_a_thread(machine, norm, {{"BLOCK", 4096}}), 0);
  machine.target = "cpu:x86-64-v3";
  EXPECT_EQ(register_bytes_a_thread(machine, norm, {{"BLOCK", 4096}, {"num_warps", 2}}), 0);
}

TEST(CountWork, OfPartialTilesCountsWhatLiesInside) {
  const Config config = {{"BM", 128}, {"BN", 256}, {"BK", 64}};
  const Work work = count(kernels::matmul<lang::f32>().ir(), {{"M", 500}, {"N", 500}, {"K", 500}}, config);
  EXPECT_EQ(work.dot_flops, 2.0 * 512 * 512 * 512);
  EXPECT_NEAR(work.loaded, 4.0 * (2 * 500 * 500 + 4 * 500 * 500), 0.03 * work.loaded);
  EXPECT_NEAR(work.stored, 4.0 * 500 * 500, 0.03 * work.stored);
}

TEST(CountWork, OfRowsAndLoops) {
  const Work sums =
      count(kernels::row_sum<lang::f32>().ir(), {{"rows", 32}, {"cols", 3000}, {"stride", 3008}}, {{"BLOCK", 1024}});
  EXPECT_EQ(sums.loaded, 32 * 3000 * 4);
  EXPECT_EQ(sums.stored, 32 * 4);
  EXPECT_EQ(sums.steps, 32 * 3 + 32);
  const Work softmax =
      count(kernels::softmax<lang::f32>().ir(), {{"rows", 64}, {"cols", 1000}, {"stride", 1000}}, {{"BLOCK", 1024}});
  EXPECT_EQ(softmax.loaded, 64 * 1000 * 4);
  EXPECT_EQ(softmax.stored, 64 * 1000 * 4);
  EXPECT_EQ(softmax.math, 64 * 1024);
}

// A scan along one row gives that row.
TEST(CountWork, OfWhatLoopsCarryAndScansGive) {
  auto scratch = [](int64_t rows) {
    return count(kernels::cumsum_columns<lang::f32>().ir(), {{"rows", 64}, {"cols", 256}},
                 {{"ROWS", rows}, {"BLOCK", 256}})
        .scratch_bytes;
  };
  EXPECT_EQ(scratch(1), 2 * 64 * 256 * 4);
  EXPECT_EQ(scratch(16), 2 * 4 * 256 * 4 + 2 * (2 * 64 * 256 * 4));
  // What a dot adds to is counted with the dot.
  const Config config = {{"BM", 64}, {"BN", 64}, {"BK", 64}};
  EXPECT_EQ(count(kernels::matmul<lang::f32>().ir(), {{"M", 64}, {"N", 64}, {"K", 256}}, config).scratch_bytes, 0);
}

// `lengths` is data, of which the kernel says that it is `seq`.
TEST(CountWork, OfAttentionFollowsTheLengths) {
  const nlohmann::json shape = {{"batch", 2}, {"heads", 4}, {"kv_heads", 4}, {"seq", 1024}, {"scale", 0.1}};
  const Config config = {{"BM", 64}, {"BN", 128}, {"D", 64}, {"CAUSAL", 0}};
  const Work all = count(kernels::attention<lang::f32>().ir(), shape, config);
  EXPECT_NEAR(all.dot_flops, 4.0 * 8 * 1024 * 1024 * 64, 1);
  EXPECT_GE(all.math, 8.0 * 1024 * 1024);
  EXPECT_FALSE(all.estimated);
  Config causal = config;
  causal["CAUSAL"] = 1;
  double pairs = 0;
  for (int i = 0; i < 16; ++i) pairs += 64 * 128 * ((i + 2) / 2);
  EXPECT_NEAR(count(kernels::attention<lang::f32>().ir(), shape, causal).dot_flops, 4 * 8 * 64 * pairs,
              0.1 * all.dot_flops);
}

// Rows of the pages of a cache are looked up; what is in them lies side by side.
TEST(CountWork, OfRowsThatAreLookedUpReadsWholeLines) {
  const nlohmann::json shape = {{"batch", 4},      {"tokens", 1}, {"heads", 32}, {"kv_heads", 8},
                                {"max_pages", 64}, {"splits", 2}, {"scale", 0.1}};
  const Work work =
      count(kernels::attention_decode<lang::bf16>().ir(), shape, {{"D", 128}, {"PAGE", 16}, {"ROWS", 16}, {"BN", 32}});
  const double cache = 2.0 * 4 * 64 * 16 * 8 * 128 * 2;  // keys and values
  EXPECT_GE(work.loaded, cache);
  EXPECT_LT(work.lines, 1.3 * cache);
}

// Blocks of several heads together: which one a program has comes round again with its head's number.
TEST(CountWork, OfCausalAttentionDoesNotDependOnTheOrderOfBlocks) {
  for (const int64_t seq : {512, 2048, 4096, 16384}) {
    const nlohmann::json shape = {{"batch", 2}, {"heads", 32}, {"kv_heads", 32}, {"seq", seq}, {"scale", 0.1}};
    for (const int64_t width : {64, 128}) {
      Config config = {{"BM", 64}, {"BN", 128}, {"D", width}, {"CAUSAL", 1}, {"TOGETHER", 0}};
      const Work alone = count(kernels::attention<lang::bf16>().ir(), shape, config);
      config["TOGETHER"] = 8;
      const Work together = count(kernels::attention<lang::bf16>().ir(), shape, config);
      EXPECT_NEAR(together.dot_flops, alone.dot_flops, 0.1 * alone.dot_flops) << seq << " " << width;
      EXPECT_NEAR(together.loaded, alone.loaded, 0.1 * alone.loaded) << seq << " " << width;
    }
  }
}

TEST(CountWork, SaysWhereItDependsOnData) {
  const Work work = count(kernels::embedding<lang::f32>().ir(), {{"tokens", 100}, {"cols", 512}}, {{"BLOCK", 256}});
  EXPECT_TRUE(work.estimated);
  EXPECT_GE(work.loaded, 100 * 512 * 4);
  EXPECT_EQ(work.stored, 100 * 512 * 4);
}

TEST(CountWork, OfEveryLibraryKernelFindsWork) {
  for (const dsl::LibraryKernel& kernel : dsl::library_kernels()) {
    ASSERT_TRUE(*kernel.ir) << kernel.name;
    nlohmann::json scalars = nlohmann::json::object();
    for (const dsl::Param& param : (*kernel.ir)->params) {
      if (param.type.pointer) continue;
      if (dsl::is_float(param.type.element))
        scalars[param.name] = 0.5;
      else
        scalars[param.name] = param.name == "R" || param.name == "S" ? 3 : 64;
    }
    const Work work = count(*kernel.ir, scalars);
    EXPECT_GT(work.programs, 0) << kernel.name;
    EXPECT_GT(work.compulsory, 0) << kernel.name;
    EXPECT_LE(work.compulsory, work.loaded + work.stored) << kernel.name;
    EXPECT_GE(work.lines, 0.99 * (work.loaded + work.stored)) << kernel.name;
  }
}

}  // namespace
}  // namespace kiln::autotune
