// Products in two launches (the schedule options split_k and stream_k) and long tiles in several, as NVIDIA's artifacts
// have them, and as the launcher reads them.
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/launch_sequence.h"
#include "harness.h"
#include "kiln/dsl/kernels.h"
#include "launches/launch_harness.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;
using client::gpu::LaunchSequence;

const dsl::Kernel& matmul() { return *kernels::matmul<lang::bf16>().ir(); }

// With aligned pointers and extents that are multiples of 16.
Artifact compiled(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, const std::string& target) {
  dsl::Facts facts;
  for (const dsl::Param& param : kernel.params) {
    facts.push_back(param.type.pointer ? dsl::ParamFact::kAlign16 : dsl::ParamFact::kMultiple16);
  }
  auto artifact = compile(kernel, config, facts, target, "ptx");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  return artifact ? *artifact : Artifact();
}

LaunchSequence launches_of(const Artifact& artifact, const dsl::Kernel& kernel) {
  auto sequence = client::gpu::parse_launches(kernel, artifact.metadata);
  EXPECT_TRUE(sequence.ok()) << sequence.error().message;
  return sequence ? *sequence : LaunchSequence();
}

TEST(NvptxSplit, IsAPlanOfTwoLaunchesOverAWorkspace) {
  const Artifact artifact = compiled(matmul(), {{"split_k", 4}}, "cuda:sm_90a");
  const LaunchSequence sequence = launches_of(artifact, matmul());
  ASSERT_EQ(sequence.steps.size(), 2u);
  EXPECT_EQ(sequence.steps[0].entry, "kiln_stage_0");
  EXPECT_EQ(sequence.steps[0].chunks, 4u);
  EXPECT_EQ(sequence.steps[0].threads, 256u);
  EXPECT_EQ(sequence.steps[1].entry, "kiln_entry");
  EXPECT_EQ(sequence.steps[1].chunks, 16u);  // 8 of 128 rows each
  EXPECT_EQ(sequence.steps[1].threads, 128u);
  EXPECT_EQ(sequence.steps[1].shared_bytes, 0u);
  EXPECT_EQ(sequence.workspace_bytes, 4u * 128 * 256 * 4);
  // The operands' maps, behind the arguments and the workspace.
  ASSERT_EQ(sequence.tensor_maps.size(), 2u);
  EXPECT_EQ(sequence.tensor_maps[0].param + sequence.tensor_maps[1].param, 0u + 1);
  EXPECT_EQ(sequence.offsets.size(), matmul().params.size() + 1 + 2);
  EXPECT_TRUE(std::ranges::is_sorted(sequence.offsets));
  EXPECT_FALSE(sequence.waits);  // its operands come in bulk (nvptx/grid_wait.h)
}

// Programs that the workers have are many blocks; within the loop over them operands come by maps as ever.
TEST(NvptxSplit, WorkersCopyInBulkToo) {
  for (const bool batched : {false, true}) {
    const dsl::Kernel& kernel = batched ? *kernels::batched_matmul<lang::bf16>().ir() : matmul();
    const Artifact artifact = compiled(kernel, {{"split_k", 2}, {"stream_k", 132}}, "cuda:sm_90a");
    const LaunchSequence sequence = launches_of(artifact, kernel);
    ASSERT_EQ(sequence.steps.size(), 2u);
    EXPECT_EQ(sequence.steps[0].chunks, 2u);
    EXPECT_EQ(sequence.steps[0].threads, 256u);
    EXPECT_EQ(sequence.steps[1].chunks, 16u);
    EXPECT_EQ(sequence.workspace_bytes, 3u * 128 * 256 * 4);
    EXPECT_EQ(sequence.tensor_maps.size(), 2u);
  }
}

// Blocks that stay are of one launch; warps that copy are of any.
TEST(NvptxSplit, HasNoPersistentBlocks) {
  const dsl::ConstexprValues specialised = {{"warp_specialise", 2}};
  EXPECT_GT(launches_of(compiled(matmul(), specialised, "cuda:sm_90a"), matmul()).persistent, 0u);
  const dsl::ConstexprValues both = {{"warp_specialise", 2}, {"split_k", 2}};
  const LaunchSequence sequence = launches_of(compiled(matmul(), both, "cuda:sm_90a"), matmul());
  EXPECT_EQ(sequence.persistent, 0u);
  ASSERT_EQ(sequence.steps.size(), 2u);
  EXPECT_GT(sequence.steps[0].threads, 256u);
}

TEST(NvptxSplit, IsNoneWithoutALoopOfProducts) {
  const dsl::Kernel& softmax = *kernels::softmax<lang::bf16>().ir();
  const LaunchSequence sequence = launches_of(compiled(softmax, {{"split_k", 4}}, "cuda:sm_80"), softmax);
  EXPECT_EQ(sequence.steps.size(), 1u);
  EXPECT_FALSE(sequence.workspace_offset.has_value());
  EXPECT_FALSE(sequence.waits);  // before sm_90 no kernel can
}

std::vector<uint32_t> chunks_of(const LaunchSequence& sequence) {
  std::vector<uint32_t> out;
  for (const auto& step : sequence.steps) out.push_back(static_cast<uint32_t>(step.chunks));
  return out;
}

// The kernel's arguments, the workspace, and nothing else.
TEST(NvptxSplit, LongTilesArePlansToo) {
  const std::string sum = reduce_text("f32", "f32", 1 << 16, "{kind = sum, axis = 0}");
  const std::vector<std::pair<std::string, std::vector<uint32_t>>> cases = {
      {sum, {8, 1}},
      {softmax_text((1 << 16) + 1), {9, 9, 9}},
      {scan_text("f32", 1 << 15, "kind = sum"), {4, 1, 4}},
      {topk_text(1 << 15, 8, true), {4, 1}},
      {sort_text("f16", (1 << 15) + 1, false, true), {5, 5, 5}}};
  for (const auto& [text, chunks] : cases) {
    const dsl::Kernel kernel = parse_kernel(text);
    for (const char* target : {"cuda:sm_80", "cuda:sm_90a"}) {
      const LaunchSequence sequence = launches_of(compiled(kernel, {}, target), kernel);
      EXPECT_EQ(chunks_of(sequence), chunks) << text;
      EXPECT_GT(sequence.workspace_bytes, 0u);
      EXPECT_TRUE(sequence.tensor_maps.empty());
      EXPECT_TRUE(sequence.workspace_offset.has_value());
    }
  }
}

}  // namespace
}  // namespace kiln::test
