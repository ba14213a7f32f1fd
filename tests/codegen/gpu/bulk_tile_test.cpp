// Which group of warps stores which box of a tile (owners_of_boxes): each box must lie within one group.
#include "gpu/pipeline/bulk_tile.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace kiln::codegen::gpu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kRows = 128, kColumns = 128;
constexpr int kRow = 0, kColumn = 1;  // axes

// Boxes of a [128, 128] tile, columns innermost, column by column of boxes.
BulkTile tile_in_boxes(int64_t box_rows, int64_t box_columns) {
  BulkTile out;
  out.map.box = {box_columns, box_rows};
  out.access.dims = {{.extent = kColumns, .stride = 1, .coordinate = {}, .axis = kColumn},
                     {.extent = kRows, .stride = kColumns, .coordinate = {}, .axis = kRow}};
  for (int64_t column = 0; column < kColumns; column += box_columns) {
    for (int64_t row = 0; row < kRows; row += box_rows) out.boxes.push_back({{column, row}});
  }
  return out;
}

// 16 rows by 8 columns a warp, four warps one below the other; the bits of further warps stand for `groups`, and
// registers for the rest.
Layout products_of(const std::vector<std::vector<int64_t>>& groups) {
  Layout out({kRows, kColumns});
  const auto add = [&](Dim dim, int64_t row, int64_t column) { out.add(dim, out.element({row, column})); };
  for (const int64_t column : {2, 4}) add(Dim::kLane, 0, column);
  for (const int64_t row : {1, 2, 4}) add(Dim::kLane, row, 0);
  for (const int64_t row : {16, 32}) add(Dim::kWarp, row, 0);
  for (const auto& at : groups) add(Dim::kWarp, at[0], at[1]);
  add(Dim::kRegister, 0, 1);
  for (const int64_t row : {8, 64}) {
    if (!std::ranges::any_of(groups, [&](const auto& at) { return at[0] == row; })) add(Dim::kRegister, row, 0);
  }
  for (const int64_t column : {8, 16, 32, 64}) {
    if (!std::ranges::any_of(groups, [&](const auto& at) { return at[1] == column; })) add(Dim::kRegister, 0, column);
  }
  return out;
}

TEST(BulkOwners, GroupsBelowOneAnotherStoreTheirRows) {
  EXPECT_THAT(owners_of_boxes(tile_in_boxes(64, 64), products_of({{64, 0}})), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(owners_of_boxes(tile_in_boxes(32, 128), products_of({{64, 0}})), ElementsAre(0, 0, 1, 1));
}

TEST(BulkOwners, GroupsBesideOneAnotherStoreTheirColumns) {
  EXPECT_THAT(owners_of_boxes(tile_in_boxes(64, 64), products_of({{0, 64}})), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(owners_of_boxes(tile_in_boxes(128, 32), products_of({{0, 32}})), ElementsAre(0, 1, 0, 1));
}

TEST(BulkOwners, FourGroupsHaveAQuarterEach) {
  EXPECT_THAT(owners_of_boxes(tile_in_boxes(64, 64), products_of({{64, 0}, {0, 64}})), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(owners_of_boxes(tile_in_boxes(64, 64), products_of({{0, 64}, {64, 0}})), ElementsAre(0, 2, 1, 3));
}

TEST(BulkOwners, OneGroupStoresAll) {
  EXPECT_THAT(owners_of_boxes(tile_in_boxes(128, 64), products_of({})), ElementsAre(0, 0));
}

TEST(BulkOwners, ABoxThatSeveralGroupsHoldHasNoOwner) {
  EXPECT_THAT(owners_of_boxes(tile_in_boxes(128, 64), products_of({{64, 0}})), IsEmpty());
  EXPECT_THAT(owners_of_boxes(tile_in_boxes(64, 64), products_of({{64, 0}, {0, 32}})), IsEmpty());
}

TEST(BulkOwners, GroupsThatAreNoPartsOfTheTileOwnNothing) {
  EXPECT_THAT(owners_of_boxes(tile_in_boxes(64, 64), products_of({{0, 0}})), IsEmpty());    // copies
  EXPECT_THAT(owners_of_boxes(tile_in_boxes(64, 64), products_of({{64, 64}})), IsEmpty());  // two corners each
  // The rows of a group depend on a register too.
  Layout mixed = products_of({{64, 0}});
  mixed.add(Dim::kRegister, mixed.element({64, 0}));
  EXPECT_THAT(owners_of_boxes(tile_in_boxes(64, 64), mixed), IsEmpty());
}

// Of arrays with more axes than the tile has, boxes are one element wide along these.
TEST(BulkOwners, DimensionsWithoutAnAxisDoNotCount) {
  BulkTile tile = tile_in_boxes(64, 64);
  tile.access.dims.push_back({.extent = 8, .stride = kRows * kColumns, .coordinate = {}});
  tile.map.box.push_back(1);
  for (TileBox& box : tile.boxes) box.start.push_back(0);
  EXPECT_THAT(owners_of_boxes(tile, products_of({{64, 0}})), ElementsAre(0, 1, 0, 1));
}

}  // namespace
}  // namespace kiln::codegen::gpu
