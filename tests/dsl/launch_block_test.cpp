// How the parameters of a kernel lie in memory, against docs/reference/artifact.md, "The parameters of a kernel".
#include "kiln/abi/launch_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text_helpers.h"

namespace kiln::abi {
namespace {

using enum LaunchField;
using testing::ElementsAre;

std::vector<uint32_t> offsets_of(const LaunchBlock& block) {
  std::vector<uint32_t> out;
  for (const LaunchParam& param : block.tail) out.push_back(param.slot.offset);
  return out;
}

LaunchCounts counts_of(std::initializer_list<std::pair<LaunchField, uint32_t>> counts) {
  LaunchCounts out;
  for (const auto& [field, count] : counts) out[field] = count;
  return out;
}

TEST(LaunchBlock, ArgumentsLieAtTheirNaturalAlignment) {
  const dsl::Kernel kernel =
      dsl::testing::parsed("kernel k(%a: i1, %b: ptr<i8>, %c: bf16, %d: i32, %e: u8, %f: f64, %g: i1) {\n}\n");
  const ParamLayout layout = lay_out_params(kernel);
  std::vector<std::pair<uint32_t, uint32_t>> slots;
  for (const ParamSlot& slot : layout.slots) slots.emplace_back(slot.offset, slot.size);
  EXPECT_THAT(slots, ElementsAre(std::pair(0, 1), std::pair(8, 8), std::pair(16, 2), std::pair(20, 4), std::pair(24, 1),
                                 std::pair(32, 8), std::pair(40, 1)));
  EXPECT_EQ(layout.bytes, 41u);
  EXPECT_EQ(pointer_count(kernel), 1u);
  EXPECT_EQ(lay_out_params(dsl::testing::parsed("kernel k() {\n}\n")).bytes, 0u);
}

TEST(LaunchBlock, AKernelWithoutMoreHasItsArgumentsAlone) {
  const LaunchBlock block = lay_out_launch_block(13, {});
  EXPECT_TRUE(block.tail.empty());
  EXPECT_EQ(block.bytes, 13u);
  EXPECT_EQ(block.offset(kFailure), std::nullopt);
}

TEST(LaunchBlock, FieldsFollowInOrderEachAtEightBytes) {
  const LaunchBlock block = lay_out_launch_block(
      20,
      counts_of({{kQueue, 1}, {kGrid, 3}, {kPrograms, 1}, {kPrint, 1}, {kExtents, 2}, {kFailure, 1}, {kWorkspace, 1}}));
  EXPECT_THAT(offsets_of(block), ElementsAre(24, 32, 40, 48, 56, 64, 72, 76, 80, 88));
  EXPECT_EQ(block.bytes, 96u);
  EXPECT_EQ(block.offset(kWorkspace), 24u);
  EXPECT_EQ(block.offset(kFailure), 32u);
  EXPECT_EQ(block.offset(kExtents), 40u);
  EXPECT_EQ(block.offset(kPrint), 56u);
  EXPECT_EQ(block.offset(kPrograms), 64u);
  EXPECT_EQ(block.offset(kGrid), 72u);
  EXPECT_EQ(block.offset(kQueue), 88u);
  EXPECT_EQ(block.tail[3].index, 1u);
}

TEST(LaunchBlock, TensorMapsAreAtMultiplesOf64) {
  const LaunchBlock block = lay_out_launch_block(36, counts_of({{kTensorMaps, 2}, {kGrid, 3}}));
  EXPECT_THAT(offsets_of(block), ElementsAre(64, 192, 320, 324, 328));
  EXPECT_EQ(block.bytes, 332u);
  EXPECT_THAT(offsets_of(lay_out_launch_block(56, counts_of({{kWorkspace, 1}, {kTensorMaps, 1}}))),
              ElementsAre(56, 64));
}

}  // namespace
}  // namespace kiln::abi
