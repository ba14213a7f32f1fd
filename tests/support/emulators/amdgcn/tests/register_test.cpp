// Registers chosen at run time: by hand-written assembly, and as LLVM's backend indexes vectors.
#include "elementwise.h"
#include "lanes.h"

namespace kiln::amdgcn_emulator {
namespace {

TEST(RegisterIndex, ShiftsTheOperandsOfGfx9sInstructions) {
  const auto out = run_lanes("gfx942", R"(
s_mov_b32 s20, 2
s_set_gpr_idx_on s20, gpr_idx(SRC0)
v_mov_b32 v10, v2
v_add_u32 v11, v2, v3
s_set_gpr_idx_mode gpr_idx(DST)
v_mov_b32 v10, 7
s_set_gpr_idx_idx s21
s_set_gpr_idx_off
v_mov_b32 v13, v2)",
                             uniform_lanes("gfx942", {100, 200, 300, 400}));
  EXPECT_EQ(out[3][0], 300u);
  EXPECT_EQ(out[3][1], 500u);
  EXPECT_EQ(out[3][2], 7u);
  EXPECT_EQ(out[3][3], 100u);
}

TEST(RegisterIndex, MovesOnRdna) {
  const auto out = run_lanes("gfx1100", R"(
s_mov_b32 m0, 2
v_movrels_b32 v10, v2
v_movreld_b32 v10, v3
v_movrelsd_b32 v11, v3
s_mov_b32 m0, 0x50001
v_movrelsd_2_b32 v10, v4
s_mov_b32 s20, 11
s_mov_b32 s21, 22
s_mov_b32 m0, 1
s_movrels_b32 s22, s20
s_movreld_b32 s22, s20
v_mov_b32 v16, s22
v_mov_b32 v17, s23)",
                             uniform_lanes("gfx1100", {100, 200, 300, 400}));
  EXPECT_EQ(out[3][0], 300u);
  EXPECT_EQ(out[3][2], 200u);
  EXPECT_EQ(out[3][3], 400u) << "v[11 + 2] = v[3 + 2]";
  EXPECT_EQ(out[3][5], 400u) << "v[10 + 5] = v[4 + 1]";
  EXPECT_EQ(out[3][6], 22u);
  EXPECT_EQ(out[3][7], 11u);
}

class Indexed : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Gfx, Indexed, testing::Values("gfx942", "gfx1100", "gfx90a", "gfx1200", "gfx906"),
                         [](const auto& param) { return std::string(param.param); });

// A vector in registers, read and written at places that each lane has for itself.
TEST_P(Indexed, ReadsAndWritesElementsOfVectors) {
  const std::string body = R"(
  %v0 = insertelement <8 x i32> <i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8>, i32 %a, i32 3
  %ib = and i32 %b, 7
  %ic = and i32 %c, 7
  %v1 = insertelement <8 x i32> %v0, i32 %b, i32 %ib
  %r = extractelement <8 x i32> %v1, i32 %ic)";
  expect_map<uint32_t, uint32_t>(GetParam(), map_kernel("i32", "i32", body), [](uint32_t a, uint32_t b, uint32_t c) {
    return (b & 7) == (c & 7) ? b : (c & 7) == 3 ? a : (c & 7) + 1;
  });
}

}  // namespace
}  // namespace kiln::amdgcn_emulator
