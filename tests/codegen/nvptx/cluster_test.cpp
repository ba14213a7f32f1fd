// Which kernels are launched as clusters (the schedule option cluster), and how the launcher reads them. What they
// compute is checked on a device (gpu/pipeline_test.cpp).
#include <gtest/gtest.h>

#include "gpu/launch_sequence.h"
#include "harness.h"
#include "kiln/dsl/kernel.h"
#include "kiln/dsl/kernels.h"
#include "nvptx/aligned_facts.h"
#include "triangle.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;
using client::gpu::LaunchSequence;
using lang::i32;
using lang::Ptr;
using lang::Value;

LaunchSequence launches_of(const dsl::Kernel& kernel, const dsl::ConstexprValues& config) {
  const auto artifact = compile(kernel, config, aligned_facts(kernel), "cuda:sm_90a", "ptx");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact) return {};
  auto sequence = client::gpu::parse_launches(kernel, artifact->metadata);
  EXPECT_TRUE(sequence.ok()) << sequence.error().message;
  return sequence ? *sequence : LaunchSequence();
}

constexpr std::array<uint32_t, 3> kPair = {2, 1, 1}, kNone = {1, 1, 1};
const dsl::ConstexprValues kClusters = {{"warp_specialise", 2}, {"cluster", 2}};

TEST(NvptxCluster, IsOfPersistentBlocks) {
  const dsl::Kernel& matmul = *kernels::matmul<lang::bf16>().ir();
  const LaunchSequence pairs = launches_of(matmul, kClusters);
  EXPECT_EQ(pairs.cluster, kPair);
  EXPECT_EQ(pairs.persistent, 1u);
  for (const dsl::ConstexprValues& config :
       {dsl::ConstexprValues{{"warp_specialise", 2}}, dsl::ConstexprValues{{"warp_specialise", 1}, {"cluster", 2}},
        dsl::ConstexprValues{{"cluster", 2}}, dsl::ConstexprValues{{"warp_specialise", 2}, {"cluster", 1}}}) {
    EXPECT_EQ(launches_of(matmul, config).cluster, kNone);
  }
}

// Each block sends half of what both want, so a tile of one box becomes two; B comes in four.
TEST(NvptxCluster, HasTilesOfTwoBoxes) {
  using Box = std::pair<int64_t, int64_t>;
  const dsl::Kernel& matmul = *kernels::matmul<lang::bf16>().ir();
  const auto box_of = [&](const dsl::ConstexprValues& config, uint32_t param) {
    const LaunchSequence sequence = launches_of(matmul, config);
    for (const auto& map : sequence.tensor_maps) {
      if (map.param == param) return Box(map.box[0], map.box[1]);
    }
    return Box(0, 0);
  };
  EXPECT_EQ(box_of({{"warp_specialise", 2}}, 0), Box(64, 128));
  EXPECT_EQ(box_of({{"warp_specialise", 2}}, 1), Box(64, 64));
  EXPECT_EQ(box_of(kClusters, 0), Box(64, 64));
  EXPECT_EQ(box_of(kClusters, 1), Box(64, 64));
}

// C += A·B: a block without a program of its own would add twice.
TEST(NvptxCluster, IsNoneWhereWhatIsWrittenIsRead) {
  const auto sum =
      lang::kernel("sum", {"A", "B", "C", "M", "N", "K"},
                   [](Ptr<const lang::bf16> A, Ptr<const lang::bf16> B, Ptr<lang::f32> C, i32 M, i32 N, i32 K) {
                     lang::grid(lang::cdiv(M, 128), lang::cdiv(N, 128));
                     const Value m = lang::program_id(0) * 128, n = lang::program_id(1) * 128;
                     lang::Var acc = lang::zeros(lang::f32_t, {128, 128});
                     for (Value k : lang::range(0, K, 64).stages(3)) {
                       acc = lang::dot(lang::tile(A, {M, K}).load({m, k}, {128, 64}),
                                       lang::tile(B, {K, N}).load({k, n}, {64, 128}), acc);
                     }
                     const lang::Tile to = lang::tile(C, {M, N});
                     to.store({m, n}, to.load({m, n}, {128, 128}) + acc);
                   });
  const LaunchSequence sequence = launches_of(*sum.ir(), kClusters);
  EXPECT_GT(sequence.persistent, 0u);
  EXPECT_EQ(sequence.cluster, kNone);
}

// Neighbours would wait for copies that the other one never makes.
TEST(NvptxCluster, IsNoneWhereLoopsDiffer) {
  const LaunchSequence sequence = launches_of(triangle(), kClusters);
  EXPECT_GT(sequence.persistent, 0u);
  EXPECT_EQ(sequence.cluster, kNone);
}

}  // namespace
}  // namespace kiln::test
