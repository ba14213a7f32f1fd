// Products in two launches (the schedule options split_k and stream_k) and long tiles in several, as NVIDIA's artifacts
// have them, and as the launcher reads them.
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/launch_plan.h"
#include "harness.h"
#include "kiln/abi/metadata_json.h"
#include "kiln/dsl/kernels.h"
#include "launches/launch_harness.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;
using client::gpu::LaunchPlan;

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

LaunchPlan plan_of(const Artifact& artifact, const dsl::Kernel& kernel) {
  auto plan = client::gpu::parse_launch_plan(kernel, *abi::metadata_of(artifact.metadata));
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan ? *plan : LaunchPlan();
}

TEST(NvptxSplit, IsAPlanOfTwoLaunchesOverAWorkspace) {
  const Artifact artifact = compiled(matmul(), {{"split_k", 4}}, "cuda:sm_90a");
  const LaunchPlan plan = plan_of(artifact, matmul());
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].entry, "kiln_stage_0");
  EXPECT_EQ(plan.stages[0].chunks, 4u);
  EXPECT_EQ(plan.stages[0].threads, 256u);
  EXPECT_EQ(plan.stages[1].entry, "kiln_entry");
  EXPECT_EQ(plan.stages[1].chunks, 16u);  // 8 of 128 rows each
  EXPECT_EQ(plan.stages[1].threads, 128u);
  EXPECT_EQ(plan.stages[1].shared_bytes, 0u);
  EXPECT_EQ(plan.workspace_bytes, 4u * 128 * 256 * 4);
  // The operands' maps, behind the arguments and the workspace.
  ASSERT_EQ(plan.tensor_maps.size(), 2u);
  EXPECT_EQ(plan.tensor_maps[0].param + plan.tensor_maps[1].param, 0u + 1);
  EXPECT_EQ(plan.offsets.size(), matmul().params.size() + 1 + 2);
  EXPECT_TRUE(std::ranges::is_sorted(plan.offsets));
  EXPECT_TRUE(plan.waits);
}

// Programs that the workers have are many blocks; within the loop over them operands come by maps as ever.
TEST(NvptxSplit, WorkersCopyInBulkToo) {
  for (const bool batched : {false, true}) {
    const dsl::Kernel& kernel = batched ? *kernels::batched_matmul<lang::bf16>().ir() : matmul();
    const Artifact artifact = compiled(kernel, {{"split_k", 2}, {"stream_k", 132}}, "cuda:sm_90a");
    const LaunchPlan plan = plan_of(artifact, kernel);
    ASSERT_EQ(plan.stages.size(), 2u);
    EXPECT_EQ(plan.stages[0].chunks, 2u);
    EXPECT_EQ(plan.stages[0].threads, 256u);
    EXPECT_EQ(plan.stages[1].chunks, 16u);
    EXPECT_EQ(plan.workspace_bytes, 3u * 128 * 256 * 4);
    EXPECT_EQ(plan.tensor_maps.size(), 2u);
  }
}

// Blocks that stay are of one launch; warps that copy are of any.
TEST(NvptxSplit, HasNoPersistentBlocks) {
  const dsl::ConstexprValues specialised = {{"warp_specialise", 2}};
  EXPECT_GT(plan_of(compiled(matmul(), specialised, "cuda:sm_90a"), matmul()).persistent, 0u);
  const dsl::ConstexprValues both = {{"warp_specialise", 2}, {"split_k", 2}};
  const LaunchPlan plan = plan_of(compiled(matmul(), both, "cuda:sm_90a"), matmul());
  EXPECT_EQ(plan.persistent, 0u);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_GT(plan.stages[0].threads, 256u);
}

TEST(NvptxSplit, IsNoneWithoutALoopOfProducts) {
  const dsl::Kernel& softmax = *kernels::softmax<lang::bf16>().ir();
  const LaunchPlan plan = plan_of(compiled(softmax, {{"split_k", 4}}, "cuda:sm_80"), softmax);
  EXPECT_EQ(plan.stages.size(), 1u);
  EXPECT_FALSE(plan.workspace_offset.has_value());
  EXPECT_FALSE(plan.waits);  // before sm_90 no kernel can
}

std::vector<uint32_t> chunks_of(const LaunchPlan& plan) {
  std::vector<uint32_t> out;
  for (const auto& stage : plan.stages) out.push_back(static_cast<uint32_t>(stage.chunks));
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
      const LaunchPlan plan = plan_of(compiled(kernel, {}, target), kernel);
      EXPECT_EQ(chunks_of(plan), chunks) << text;
      EXPECT_GT(plan.workspace_bytes, 0u);
      EXPECT_TRUE(plan.tensor_maps.empty());
      EXPECT_TRUE(plan.workspace_offset.has_value());
    }
  }
}

}  // namespace
}  // namespace kiln::test
