#include "gpu/layout/shared_layout.h"

#include <gtest/gtest.h>

#include <set>

#include "gpu/layout/access.h"
#include "gpu/layout/algebra.h"

namespace kiln::codegen::gpu {
namespace {

// The offset of each element, row by row.
std::vector<int64_t> offsets(const SharedLayout& layout) {
  std::vector<int64_t> out;
  for (Bits element = 0; element < Bits{1} << layout.elements.element_bits(); ++element) {
    out.push_back(layout.offset_of(element));
  }
  return out;
}

TEST(SharedLayout, LinearFollowsTheOrder) {
  EXPECT_EQ(offsets(shared_linear({2, 4}, {1, 0})), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(offsets(shared_linear({2, 4}, {0, 1})), (std::vector<int64_t>{0, 2, 4, 6, 1, 3, 5, 7}));
}

TEST(SharedLayout, PaddingLeavesGaps) {
  const SharedLayout padded = shared_padded({4, 4}, {1, 0}, 8, 2);
  EXPECT_EQ(offsets(padded), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(padded.size(), 18);
}

TEST(SharedLayout, SwizzleMovesGroupsByTheLine) {
  for (const auto& [vector, per_phase, phases] :
       std::vector<std::array<int64_t, 3>>{{8, 1, 8}, {4, 2, 4}, {8, 2, 16}, {1, 1, 32}, {16, 4, 2}}) {
    const SharedLayout layout = shared_swizzled({32, 64}, vector, per_phase, phases, {1, 0});
    const int64_t groups = std::min<int64_t>(phases, 64 / vector);
    for (int64_t row = 0; row < 32; ++row) {
      for (int64_t column = 0; column < 64; ++column) {
        const int64_t phase = row / per_phase % phases % groups;
        const int64_t expected = row * 64 + ((column / vector) ^ phase) * vector + column % vector;
        EXPECT_EQ(layout.offset_of(static_cast<Bits>(row * 64 + column)), expected);
      }
    }
    const SharedLayout by_columns = shared_swizzled({64, 32}, vector, per_phase, phases, {0, 1});
    EXPECT_EQ(transpose(by_columns.elements, {1, 0}), layout.elements);
  }
}

// The byte address as TMA writes it: its bits 4-6 are changed by bits 7-9.
TEST(SharedLayout, PanelsAreSwizzledByAddressBits) {
  for (int element_bits : {8, 16, 32}) {
    for (int swizzle : {32, 64, 128}) {
      const int64_t width = swizzle * 8 / element_bits, rows = 32, columns = 2 * width;
      const SharedLayout layout = shared_panels({rows, columns}, element_bits, swizzle, {1, 0});
      std::set<int64_t> seen;
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          const int64_t plain = column / width * rows * swizzle + row * swizzle + column % width * element_bits / 8;
          const int64_t mask = swizzle / 16 - 1, expected = plain ^ ((plain >> 7 & mask) << 4);
          const int64_t offset = layout.offset_of(static_cast<Bits>(row * columns + column));
          EXPECT_EQ(offset * element_bits / 8, expected);
          seen.insert(offset);
        }
      }
      EXPECT_EQ(std::ssize(seen), rows * columns);
    }
  }
}

TEST(Access, WidthIsWhatThreadPointersAndTargetAllow) {
  const Layout layout = blocked({16, 64}, {1, 8}, {4, 8}, {4, 1}, {1, 0});
  EXPECT_EQ(vector_width(layout, 64, 16, 16), 8);
  EXPECT_EQ(vector_width(layout, 64, 8, 16), 4);
  EXPECT_EQ(vector_width(layout, 64, 0, 16), 8);
  EXPECT_EQ(vector_width(layout, 2, 16, 16), 2);
  EXPECT_EQ(vector_width(layout, 12, 16, 16), 4);
  EXPECT_EQ(vector_width(layout, 64, 16, 32), 4);
  EXPECT_EQ(vector_width(layout, 64, 16, 32, 8), 2);
  EXPECT_EQ(vector_width(layout, 64, 1, 8), 1);
  EXPECT_EQ(vector_width(layout, 1, 16, 8), 1);
  EXPECT_EQ(vector_width(transpose(layout, {1, 0}), 64, 16, 16), 1);
}

TEST(Access, LinesAreWhatAWarpTouches) {
  // 32 lanes of 16 bytes along a row are four lines; in four rows, one line each.
  EXPECT_EQ(lines_touched(blocked({1, 256}, {1, 8}, {1, 32}, {1, 1}, {1, 0}), 8, 16), 4);
  EXPECT_EQ(lines_touched(blocked({4, 64}, {1, 8}, {4, 8}, {1, 1}, {1, 0}), 8, 16), 4);
  EXPECT_EQ(lines_touched(blocked({32, 64}, {1, 8}, {32, 1}, {1, 1}, {1, 0}), 8, 16), 32);
  EXPECT_EQ(lines_touched(blocked({64}, {1}, {32}, {1}, {0}), 1, 32), 1);
}

}  // namespace
}  // namespace kiln::codegen::gpu
