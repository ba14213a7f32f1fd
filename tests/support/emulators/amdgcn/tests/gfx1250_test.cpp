// What gfx1250 has beside gfx12: registers from 256 on, integers and constants of 64 bits, offsets that have signs and
// count elements, large buffers.
#include "lanes.h"

namespace kiln::amdgcn_emulator {
namespace {

TEST(Gfx1250, HasRegistersFrom256On) {
  const auto out = run_lanes("gfx1250", R"(
v_mov_b32 v10, 1
s_set_vgpr_msb 0x40
v_mov_b32 v10, 2
s_set_vgpr_msb 0x85
v_add_nc_u32 v11, v10, v10
s_set_vgpr_msb 0x00
v_add_nc_u32 v11, v10, v2
s_set_vgpr_msb 0x02
v_mov_b32 v12, v11
s_set_vgpr_msb 0x41
v_dual_mov_b32 v20, v10 :: v_dual_mov_b32 v21, v10
s_set_vgpr_msb 0x01
v_mov_b32 v13, v20
v_cmp_eq_u32 vcc_lo, 2, v10
s_set_vgpr_msb 0x04
v_cmp_eq_u32 s20, 2, v10
s_set_vgpr_msb 0
v_mov_b32 v14, s20
v_mov_b32 v15, vcc_lo
s_set_vgpr_msb 0x81
global_load_b32 v30, v20, s[8:9] scale_offset
s_set_vgpr_msb 0x08
global_store_b32 v1, v30, s[8:9]
s_set_vgpr_msb 0
global_load_b32 v16, v1, s[8:9])",
                             uniform_lanes("gfx1250", {5}));
  EXPECT_EQ(out[3][0], 1u);
  EXPECT_EQ(out[3][1], 6u);   // 1 of v10, and 5
  EXPECT_EQ(out[3][2], 4u);   // v523
  EXPECT_EQ(out[3][3], 2u);   // v276
  EXPECT_EQ(out[3][4], ~0u);  // the second source is v266
  EXPECT_EQ(out[3][5], 0u);   // it is v10
  EXPECT_EQ(out[3][6], 2u);
}

TEST(Gfx1250, WantsNoJumpWhileHighRegistersAreChosen) {
  const auto jump = [](const std::string& body) {
    Launch launch;
    launch.threads = 32;
    return run(assemble("gfx1250", body), "kernel", launch);
  };
  EXPECT_TRUE(jump("s_set_vgpr_msb 1\ns_set_vgpr_msb 0\ns_branch next\ns_nop 0\nnext:\ns_nop 0").ok());
  EXPECT_FALSE(jump("s_set_vgpr_msb 1\ns_branch next\ns_nop 0\nnext:\ns_nop 0").ok());
}

TEST(Gfx1250, ComputesIntegersOf64Bits) {
  const auto out = run_lanes("gfx1250", R"(
v_add_nc_u64 v[10:11], v[2:3], v[4:5]
v_mul_u64 v[12:13], v[2:3], v[4:5]
v_mad_nc_u64_u32 v[14:15], v2, v3, v[4:5]
v_sub_nc_u64 v[16:17], 0x123456789abcdef0, v[2:3])",
                             uniform_lanes("gfx1250", {0xfffffffe, 1, 3, 4}));
  const LaneOutput expected = {1,          6,                 // 0x1fffffffe + 0x400000003
                               0xfffffffa, 0xfffffffd, 1, 5,  // 0xfffffffe + 0x400000003
                               0x9abcdef2, 0x12345676};
  EXPECT_EQ(out[7], expected);
}

TEST(Gfx1250, ComparesSumsAndIntegersOf64Bits) {
  const auto out = run_lanes("gfx1250", R"(
v_max_i64 v[10:11], v[2:3], v[4:5]
v_max_u64 v[12:13], v[2:3], v[4:5]
v_add_max_i32 v14, v2, v4, -7
v_add_min_u32 v15, v2, v4, 2
v_mad_u32 v16, v2, v4, v5
v_bitop3_b32 v17, v2, v4, v5 bitop3:0x80)",
                             uniform_lanes("gfx1250", {6, ~0u, 7, 1}));
  const LaneOutput expected = {7, 1, 6, ~0u, 13, 2, 43, 0};
  EXPECT_EQ(out[7], expected);
}

TEST(Gfx1250, ReadsConstantsOf64Bits) {
  const auto out = run_lanes("gfx1250", R"(
v_mov_b64 v[10:11], 0x123456789abcdef0
v_mov_b64 v[12:13], lit64(0x12345678)
v_add_f64 v[14:15], 0x3ff80000, 1.0
s_mov_b64 s[20:21], 0xffffffff00000001
v_mov_b32 v16, s20
v_mov_b32 v17, s21)",
                             uniform_lanes("gfx1250", {}));
  const LaneOutput expected = {0x9abcdef0, 0x12345678, 0x12345678, 0, 0, 0x40040000, 1, 0xffffffff};
  EXPECT_EQ(out[0], expected);
}

TEST(Gfx1250, PairsInstructionsOfF64AndOfThreeSources) {
  const auto out = run_lanes("gfx1250", R"(
v_dual_fma_f32 v10, v2, v3, v4 :: v_dual_bitop2_b32 v11, v5, v2 bitop3:0x40
v_mov_b64 v[24:25], 1.0
v_mov_b64 v[26:27], 1.0
v_dual_add_f64 v[12:13], v[24:25], v[26:27] :: v_dual_mov_b32 v29, v3)",
                             uniform_lanes("gfx1250", {bits_of(3), bits_of(5), bits_of(7), 0x40ffffff}));
  EXPECT_EQ(out[1][0], bits_of(22));
  EXPECT_EQ(out[1][1], bits_of(3) & 0x40ffffff);
  EXPECT_EQ(out[1][2], 0u);
  EXPECT_EQ(out[1][3], 0x40000000u);
}

TEST(Gfx1250, OffsetsHaveSignsAndCountElements) {
  const auto out = run_lanes("gfx1250", R"(
v_mov_b32 v24, -4
global_load_b32 v10, v24, s[8:9] offset:12
v_mov_b32 v24, 3
global_load_b32 v11, v24, s[8:9] scale_offset
global_load_b64 v[12:13], v24, s[8:9] scale_offset
global_load_u16 v14, v24, s[8:9] offset:2 scale_offset
s_mov_b32 s20, 5
s_load_b32 s21, s[8:9], s20 scale_offset
s_load_b64 s[22:23], s[8:9], s20 offset:4 scale_offset
v_mov_b32 v15, s21
v_mov_b32 v16, s22
v_mov_b32 v25, 100
global_atomic_add_u32 v17, v24, v25, s[8:9] scale_offset th:TH_ATOMIC_RETURN)",
                             uniform_lanes("gfx1250", {}));
  EXPECT_EQ(out[0], (LaneOutput{2, 3, 6, 7, 2, 5, 11, 3}));
}

// A base of 57 bits, 45 bits of records behind it, and bounds by the offset.
TEST(Gfx1250, BuffersAreLarge) {
  const auto out = run_lanes("gfx1250", R"(
s_mov_b64 s[20:21], s[8:9]
s_bitset1_b32 s21, 30
s_mov_b32 s22, 0
s_mov_b32 s23, 0x30000000
v_mov_b32 v24, 12
buffer_load_b32 v10, v24, s[20:23], null offen
buffer_load_b32 v11, v24, s[20:23], null offen offset:20
buffer_load_b32 v12, v24, s[20:23], null offen offset:16)",
                             uniform_lanes("gfx1250", {}));
  EXPECT_EQ(out[0][0], 3u);
  EXPECT_EQ(out[0][1], 0u);  // there are 32 bytes
  EXPECT_EQ(out[0][2], 7u);
}

TEST(Gfx1250, MixesBf16IntoF32) {
  const auto out = run_lanes("gfx1250", R"(
v_fma_mix_f32_bf16 v10, v2, v3, v4 op_sel:[1,0,0] op_sel_hi:[1,0,0]
v_cvt_f32_bf16 v11, v2)",
                             uniform_lanes("gfx1250", {0x40004040, bits_of(5), bits_of(0.5f)}));
  EXPECT_EQ(out[0][0], bits_of(10.5f));
  EXPECT_EQ(out[0][1], bits_of(3));
}

// Of A and B one number of f8 each, in a word of the second 32 along k, in both lanes of each row and column.
TEST(Gfx1250, ScalesAreTheBytesOfTheirBlocks) {
  std::string text;
  for (int i = 0; i < 16; ++i)
    for (int first : {40, 60}) text += "v_mov_b32 v" + std::to_string(first + i) + ", " + (i == 5 ? "v2" : "0") + "\n";
  for (int i = 10; i < 18; ++i) text += "v_mov_b32 v" + std::to_string(i) + ", 1.0\n";
  const auto scaled = [&](const std::string& modifiers, LaneInput input) {
    std::vector<LaneInput> inputs = uniform_lanes("gfx1250", input);
    for (size_t lane = 16; lane < inputs.size(); ++lane) inputs[lane][1] = 0x7f7f7f7f;
    return run_lanes(
        "gfx1250",
        text + "v_wmma_scale_f32_16x16x128_f8f6f4 v[10:17], v[40:55], v[60:75], v[10:17], v3, v4" + modifiers, inputs);
  };
  const uint32_t one = 0x38, plain = 0x7f7f7f7f;
  EXPECT_EQ(scaled("", {one, 0x7f7f807f, plain})[20][3], bits_of(5));  // 1 + 2 · 2
  EXPECT_EQ(scaled("", {one, plain, 0x7f7f817f})[20][3], bits_of(9));
  EXPECT_EQ(scaled("", {one, 0x807f7f80, plain})[20][3], bits_of(3));
  EXPECT_EQ(scaled(" matrix_a_scale:MATRIX_SCALE_ROW1", {one, 0x7f7f807f, plain})[20][3], bits_of(3));
}

}  // namespace
}  // namespace kiln::amdgcn_emulator
