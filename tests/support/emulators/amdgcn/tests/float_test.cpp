// Floating-point instructions by hand: modifiers, MODE, special cases, conversions, packed and mixed math, SDWA, VOPD.
#include <cmath>

#include "lanes.h"

namespace kiln::amdgcn_emulator {
namespace {

const float kNan = std::nanf("");
constexpr uint32_t kDefaultNan = 0x7fc00000;
constexpr uint32_t kSubnormal = 0x00000123;

// The outputs of lane 0 with the same inputs v2, v3, v4, v5 everywhere.
LaneOutput outputs(const std::string& processor, const std::string& body, LaneInput in) {
  return run_lanes(processor, body, uniform_lanes(processor, in))[0];
}
LaneInput floats(float a, float b = 0, float c = 0, float d = 0) {
  return {bits_of(a), bits_of(b), bits_of(c), bits_of(d)};
}

TEST(Modifiers, NegateTakeMagnitudesScaleAndClamp) {
  // Scaling needs f32 results without subnormals, and before gfx12 IEEE mode off.
  for (std::string gfx : {"gfx942", "gfx1100", "gfx1200"}) {
    auto out = outputs(gfx, (gfx == "gfx1200" ? "" : "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 9, 1), 0") + std::string(R"(
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0
v_add_f32 v10, -v2, |v3|
v_add_f32 v11, v2, v3 mul:2
v_mul_f32 v12, v2, -|v3| div:2
v_add_f32 v13, v2, |v3| clamp
v_mul_f32 v14, v2, v3 clamp
v_max_f32 v15, v4, v4 clamp
v_add_f32 v16, v2, v3 clamp mul:4
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3
v_add_f32 v17, v2, v3 mul:2)"),
                       floats(0.75f, -3, kNan));
    EXPECT_EQ(float_of(out[0]), 2.25f);
    EXPECT_EQ(float_of(out[1]), -4.5f);
    EXPECT_EQ(float_of(out[2]), -1.125f);
    EXPECT_EQ(float_of(out[3]), 1.0f);
    EXPECT_EQ(float_of(out[4]), 0.0f);
    EXPECT_EQ(out[5], 0u) << "DX10_CLAMP makes NaN zero";
    EXPECT_EQ(float_of(out[6]), 0.0f);
    EXPECT_EQ(float_of(out[7]), -2.25f) << "not scaled where subnormal results are kept";
  }
}

TEST(PseudoScalars, AreTheVectorUnitsFunctionsWithItsModifiers) {
  auto out = outputs("gfx1200", R"(
v_readfirstlane_b32 s20, v2
v_readfirstlane_b32 s21, v3
v_readfirstlane_b32 s22, v4
v_s_exp_f32 s23, -s20
v_s_rcp_f32 s24, |s21|
v_s_sqrt_f32 s25, s21
v_s_rsq_f32 s26, s22
v_s_log_f16 s27, s20 clamp
v_mov_b32 v10, s23
v_mov_b32 v11, s24
v_mov_b32 v12, s25
v_mov_b32 v13, s26
v_mov_b32 v14, s27)",
                     {bits_of(-3.0f) | 0x5400, bits_of(-4.0f), kSubnormal});
  EXPECT_NEAR(float_of(out[0]), 8.0f, 0.1f);
  EXPECT_EQ(float_of(out[1]), 0.25f);
  EXPECT_EQ(out[2], kDefaultNan);
  EXPECT_EQ(float_of(out[3]), std::numeric_limits<float>::infinity()) << "a subnormal is taken for zero";
  EXPECT_EQ(out[4] & 0xffff, 0x3c00u) << "the logarithm of 64 is clamped to 1";
}

TEST(Constants, MeanWhatTheOperandsTypeSays) {
  auto out = outputs("gfx942", R"(
v_add_f32 v10, 1.0, v2
v_add_u32 v11, 1.0, v3
v_add_f16 v12, 1.0, v4
v_add_f64 v[14:15], 1.0, 0
v_mul_f32 v13, 0.15915494, v2
v_add_f32 v16, 0x40490fdb, v2
v_pk_add_u16 v17, 3, v5)",
                     {bits_of(1), 0, 0, 0x00010001});
  EXPECT_EQ(float_of(out[0]), 2.0f);
  EXPECT_EQ(out[1], bits_of(1.0f));
  EXPECT_EQ(out[2], 0x3c00u);
  EXPECT_EQ(out[5], 0x3ff00000u);
  EXPECT_EQ(out[3], 0x3e22f983u);
  EXPECT_EQ(float_of(out[6]), float_of(0x40490fdb) + 1);
  EXPECT_EQ(out[7], 0x00010004u) << "a small integer stands in the low half";
}

TEST(MinMax, PreferNumbersAndOrderZeros) {
  auto out = outputs("gfx1200", R"(
v_min_num_f32 v10, v2, v3
v_max_num_f32 v11, v2, v3
v_minimum_f32 v12, v2, v3
v_min_num_f32 v13, v4, v5
v_max_num_f32 v14, v4, v5
v_med3_num_f32 v15, v3, 1.0, 2.0)",
                     floats(kNan, 7, 0.0f, -0.0f));
  EXPECT_EQ(float_of(out[0]), 7.0f);
  EXPECT_EQ(float_of(out[1]), 7.0f);
  EXPECT_TRUE(std::isnan(float_of(out[2])));
  EXPECT_EQ(out[3], bits_of(-0.0f));
  EXPECT_EQ(out[4], bits_of(0.0f));
  EXPECT_EQ(float_of(out[5]), 2.0f);
}

TEST(Nans, AreMadePositive) {
  auto out = outputs("gfx942", "v_sub_f32 v10, v2, v2\nv_mul_f32 v11, v2, v3\nv_rcp_f32 v12, v3\nv_sqrt_f32 v13, v4",
                     floats(INFINITY, 0, -1));
  EXPECT_EQ(out[0], kDefaultNan);
  EXPECT_EQ(out[1], kDefaultNan);
  EXPECT_EQ(float_of(out[2]), INFINITY);
  EXPECT_EQ(out[3], kDefaultNan);
}

TEST(Frexp, SplitsZeroAndInfinityAsTheManualSays) {
  auto out = outputs("gfx1100", R"(
v_frexp_exp_i32_f32 v10, v2
v_frexp_mant_f32 v11, v2
v_frexp_exp_i32_f32 v12, v3
v_frexp_mant_f32 v13, v3
v_frexp_exp_i32_f32 v14, v4
v_frexp_mant_f32 v15, v4
v_frexp_exp_i32_f32 v16, v5)",
                     {0, bits_of(-INFINITY), bits_of(-6), kSubnormal});
  EXPECT_EQ(out[0], 0u);
  EXPECT_EQ(out[1], 0u);
  EXPECT_EQ(out[2], 0u);
  EXPECT_EQ(float_of(out[3]), -INFINITY);
  EXPECT_EQ(out[4], 3u);
  EXPECT_EQ(float_of(out[5]), -0.75f);
  EXPECT_EQ(static_cast<int32_t>(out[6]), std::ilogb(float_of(kSubnormal)) + 1);
}

TEST(Rounding, FollowsMode) {
  // 1 + 2^-24 lies between 1 and its successor; halves likewise with 2^-12.
  const LaneInput in = floats(1, 0x1p-24f, 1 + 0x1p-12f, -0x1p-24f);
  const std::string body = "v_add_f32 v10, v2, v3\nv_add_f32 v11, -v2, v5\nv_cvt_f16_f32 v12, v4";
  const uint32_t one = bits_of(1), next = one + 1, minus = bits_of(-1);
  auto expect = [&](unsigned mode, LaneOutput want) {
    for (const char* gfx : {"gfx942", "gfx1100"}) {
      auto out =
          outputs(gfx, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), " + std::to_string(mode * 5) + "\n" + body, in);
      for (unsigned i = 0; i < 2; ++i) EXPECT_EQ(out[i], want[i]) << gfx << " mode " << mode << " output " << i;
      EXPECT_EQ(out[2] & 0xffff, want[2]) << gfx << " mode " << mode;
    }
  };
  expect(0, {one, minus, 0x3c00});
  expect(1, {next, minus, 0x3c01});
  expect(2, {one, minus + 1, 0x3c00});
  expect(3, {one, minus, 0x3c00});
}

TEST(Denormals, FollowMode) {
  const LaneInput in = {kSubnormal, bits_of(1), 0x0001, 0x00800000};
  const std::string body = "v_mul_f32 v10, v2, v3\nv_add_f16 v11, v4, 0\nv_mul_f32 v12, 0.5, v5\nv_max_f32 v13, v2, v2";
  for (const char* gfx : {"gfx942", "gfx1100"}) {
    auto kept = outputs(gfx, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15\n" + body, in);
    EXPECT_EQ(kept[0], kSubnormal);
    EXPECT_EQ(kept[1] & 0xffff, 1u);
    EXPECT_EQ(kept[2], 0x00400000u);
    auto flushed = outputs(gfx, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 0\n" + body, in);
    for (unsigned i : {0u, 2u, 3u}) EXPECT_EQ(flushed[i], 0u) << i;
    EXPECT_EQ(flushed[1] & 0xffff, 0u);
    // Only the f32 bits.
    auto mixed = outputs(gfx, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\n" + body, in);
    EXPECT_EQ(mixed[0], 0u);
    EXPECT_EQ(mixed[1] & 0xffff, 1u);
  }
}

TEST(Conversions, TruncatePairsOfHalves) {
  auto out = outputs("gfx1100", "v_cvt_pkrtz_f16_f32 v10, v2, v3\nv_cvt_pkrtz_f16_f32 v11, v4, v5",
                     floats(2049.5f, -2051.9f, 70000, -INFINITY));
  EXPECT_EQ(out[0], 0x6800u | 0xe801u << 16) << "2049 and -2050 need eleven bits";
  EXPECT_EQ(out[1], 0x7bffu | 0xfc00u << 16) << "too large is the largest number";
}

TEST(Conversions, SaturateToIntegers) {
  auto out = outputs("gfx942", R"(
v_cvt_i32_f32 v10, v2
v_cvt_u32_f32 v11, v2
v_cvt_i32_f32 v12, v3
v_cvt_u32_f32 v13, v3
v_cvt_i32_f32 v14, v4
v_cvt_flr_i32_f32 v15, v5
v_cvt_rpi_i32_f32 v16, v5)",
                     floats(1e20f, -1e20f, kNan, -2.5f));
  EXPECT_EQ(out[0], 0x7fffffffu);
  EXPECT_EQ(out[1], 0xffffffffu);
  EXPECT_EQ(out[2], 0x80000000u);
  EXPECT_EQ(out[3], 0u);
  EXPECT_EQ(out[4], 0u);
  EXPECT_EQ(static_cast<int32_t>(out[5]), -3);
  EXPECT_EQ(static_cast<int32_t>(out[6]), -2);
}

TEST(Conversions, KnowFnuzOnGfx942AndOcpOnGfx1200) {
  // 1.0 is 0x40 of E4M3FNUZ, 0x38 of OCP's E4M3; 240 and 448 are the largest.
  auto fnuz = outputs("gfx942", R"(
v_cvt_pk_fp8_f32 v10, v2, v3
v_cvt_pk_fp8_f32 v11, v2, v3 op_sel:[0,0,1]
v_cvt_pk_fp8_f32 v12, v4, v5
v_cvt_pk_f32_fp8 v[14:15], v10
v_cvt_f32_fp8_sdwa v16, v10 src0_sel:BYTE_1)",
                      floats(1, -0.0f, 240, 1000));
  EXPECT_EQ(fnuz[0], 0xaaaa0000u | 0x0040) << "there is one zero";
  EXPECT_EQ(fnuz[1], 0x00400000u);
  EXPECT_EQ(fnuz[2], 0xaaaa0000u | 0x807f) << "what is too large is NaN";
  EXPECT_EQ(float_of(fnuz[4]), 1.0f);
  EXPECT_EQ(float_of(fnuz[6]), 0.0f);
  auto ocp =
      outputs("gfx1200", "v_cvt_pk_fp8_f32 v10, v2, v3\nv_cvt_pk_fp8_f32 v11, v4, v5", floats(1, -0.0f, 448, 1000));
  EXPECT_EQ(ocp[0], 0xaaaa0000u | 0x8038);
  EXPECT_EQ(ocp[1], 0xaaaa0000u | 0x7f7e);
}

TEST(Division, FixesUpHalves) {
  // quotient, denominator, numerator
  auto out = outputs("gfx942", R"(
v_div_fixup_f16 v10, v2, v3, v4
v_div_fixup_f16 v11, v2, 0, v4
v_div_fixup_f16 v12, v2, v3, 0
v_div_fixup_f16 v13, v2, 0, 0
v_div_fixup_f16 v14, v2, v5, v4
v_div_fixup_f16 v15, v2, v3, v5)",
                     {0x4000, 0xbc00, 0x4200, 0x7c00});
  EXPECT_EQ(out[0], 0xaaaac000u) << "the sign follows the operands";
  EXPECT_EQ(out[1], 0xaaaa7c00u);
  EXPECT_EQ(out[2], 0xaaaa8000u);
  EXPECT_EQ(out[3], 0xaaaafe00u);
  EXPECT_EQ(out[4], 0xaaaa0000u);
  EXPECT_EQ(out[5], 0xaaaafc00u);
}

TEST(IntegerClamp, Saturates) {
  for (const char* gfx : {"gfx942", "gfx1100"}) {
    std::string add = is_wave64(gfx) ? "v_add_u32" : "v_add_nc_u32",
                sub = is_wave64(gfx) ? "v_sub_u32" : "v_sub_nc_u32";
    std::string add_signed = is_wave64(gfx) ? "v_add_i32" : "v_add_nc_i32";
    auto out = outputs(gfx,
                       add + " v10, v2, v3 clamp\n" + sub + " v11, v3, v2 clamp\n" + add_signed +
                           " v12, v4, v4 clamp\n" + "v_mad_i32_i24 v13, v5, v5, v4 clamp\n" + add_signed +
                           " v14, v5, v5 clamp\nv_pk_add_i16 v15, v4, v4 clamp",
                       {0xfffffff0, 0x20, 0x7fffffff, 0x80000000});
    EXPECT_EQ(out[0], 0xffffffffu);
    EXPECT_EQ(out[1], 0u);
    EXPECT_EQ(out[2], 0x7fffffffu);
    EXPECT_EQ(out[3], 0x7fffffffu);
    EXPECT_EQ(out[4], 0x80000000u);
    EXPECT_EQ(out[5], 0x7ffffffeu) << "halves saturate on their own: 0x7fff and -1 twice";
  }
}

TEST(Packed, ChoosesAndNegatesHalves) {
  // 1, 2 in v2; 4, 8 in v3.
  auto out = outputs("gfx1100", R"(
v_pk_add_f16 v10, v2, v3
v_pk_add_f16 v11, v2, v3 op_sel:[1,0] op_sel_hi:[0,1]
v_pk_mul_f16 v12, v2, v3 neg_lo:[1,0] neg_hi:[0,1]
v_pk_fma_f16 v13, v2, v3, v2 op_sel_hi:[1,0,1]
v_pk_add_f16 v14, v2, 1.0 op_sel_hi:[1,0])",
                     {0x40003c00, 0x48004400, 0, 0});
  EXPECT_EQ(out[0], 0x49004500u);
  EXPECT_EQ(out[1], 0x48804600u) << "2 + 4 and 1 + 8";
  EXPECT_EQ(out[2], 0xcc00c400u);
  EXPECT_EQ(out[3], 0x49004500u) << "1 * 4 + 1 and 2 * 4 + 2";
  EXPECT_EQ(out[4], 0x42004000u);
}

TEST(Packed, ComputesPairsOfF32) {
  auto out = outputs("gfx90a", R"(
v_pk_mul_f32 v[10:11], v[2:3], v[4:5]
v_pk_add_f32 v[12:13], v[2:3], v[4:5] op_sel:[1,0] op_sel_hi:[0,1]
v_pk_fma_f32 v[14:15], v[2:3], v[4:5], v[2:3] neg_lo:[1,0,0]
v_pk_mov_b32 v[16:17], v[2:3], v[4:5] op_sel:[1,0])",
                     floats(2, 3, 5, 7));
  EXPECT_EQ(float_of(out[0]), 10.0f);
  EXPECT_EQ(float_of(out[1]), 21.0f);
  EXPECT_EQ(float_of(out[2]), 8.0f);
  EXPECT_EQ(float_of(out[3]), 9.0f);
  EXPECT_EQ(float_of(out[4]), -8.0f);
  EXPECT_EQ(float_of(out[5]), 24.0f);
  EXPECT_EQ(float_of(out[6]), 3.0f);
  EXPECT_EQ(float_of(out[7]), 5.0f);
}

TEST(Mixed, TakesHalvesAndFloatsTogether) {
  // v2: halves 1 and 2; v3 and v4: floats 3 and 10.
  for (const char* gfx : {"gfx942", "gfx1100"}) {
    auto out = outputs(gfx, R"(
v_fma_mix_f32 v10, v2, v3, v4 op_sel:[1,0,0] op_sel_hi:[1,0,0]
v_fma_mix_f32 v11, v2, v3, -v4 op_sel_hi:[1,0,0]
v_fma_mixlo_f16 v12, v2, v3, v4 op_sel_hi:[1,0,0]
v_fma_mixhi_f16 v13, v2, v3, v4 op_sel:[1,0,0] op_sel_hi:[1,0,0])",
                       {0x40003c00, bits_of(3), bits_of(10), 0});
    EXPECT_EQ(float_of(out[0]), 16.0f);
    EXPECT_EQ(float_of(out[1]), -7.0f);
    EXPECT_EQ(out[2], 0xaaaa0000u | 0x4a80);
    EXPECT_EQ(out[3], 0x4c000000u);
  }
}

TEST(Mixed, RoundsToF32BeforeF16) {
  // 1 + 2^-11 + 2^-40: above the tie, but not in f32.
  const LaneInput in = {bits_of(1.00048828125f), bits_of(1), bits_of(9.094947017729282e-13f), 0};
  for (const char* gfx : {"gfx906", "gfx942", "gfx1100"}) {
    EXPECT_EQ(outputs(gfx, "v_fma_mixlo_f16 v10, v2, v3, v4", in)[0], 0xaaaa0000u | 0x3c00) << gfx;
  }
}

TEST(HalfResults, ClearTheUpperHalfOnGfx9AndKeepItOnRdna) {
  const LaneInput in = {0x3c00, 0x4000, 0, 0};
  EXPECT_EQ(outputs("gfx942", "v_add_f16 v10, v2, v3", in)[0], 0x4200u);
  EXPECT_EQ(outputs("gfx1100", "v_add_f16 v10, v2, v3", in)[0], 0xaaaa4200u);
  EXPECT_EQ(outputs("gfx1100", "v_add_nc_u16 v10, v2, v3 op_sel:[0,0,1]", in)[0], 0x7c000000u);
}

TEST(Sdwa, SelectsPartsOfSourcesAndDestination) {
  auto out = outputs("gfx906", R"(
v_add_u32_sdwa v10, v2, v3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:WORD_1
v_add_u32_sdwa v11, sext(v2), v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_3 src1_sel:DWORD
v_mov_b32_sdwa v12, v3 dst_sel:BYTE_2 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0
v_mov_b32_sdwa v13, v2 dst_sel:BYTE_1 dst_unused:UNUSED_SEXT src0_sel:BYTE_3
v_mov_b32_sdwa v14, v2 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:WORD_0)",
                     {0x81223344, 0x55667788, 0, 0});
  EXPECT_EQ(out[0], 0x33u + 0x5566);
  EXPECT_EQ(out[1], 0xffffff81u);
  EXPECT_EQ(out[2], 0xaa880000u);
  EXPECT_EQ(out[3], 0xffff8100u);
  EXPECT_EQ(out[4], 0x33440000u);
}

TEST(Vopd, ReadsBothSidesBeforeItWrites) {
  auto out = outputs("gfx1100", R"(
v_mov_b32 v10, v2
v_mov_b32 v11, v3
v_dual_mov_b32 v10, v11 :: v_dual_mov_b32 v11, v10
v_dual_add_f32 v12, v2, v3 :: v_dual_mul_f32 v13, v4, v5
v_dual_fmac_f32 v12, v4, v5 :: v_dual_add_nc_u32 v13, 1, v3)",
                     floats(1, 2, 3, 4));
  EXPECT_EQ(float_of(out[0]), 2.0f);
  EXPECT_EQ(float_of(out[1]), 1.0f);
  EXPECT_EQ(float_of(out[2]), 15.0f);
  EXPECT_EQ(out[3], bits_of(2) + 1);
}

TEST(Dot, SumsProductsOfParts) {
  auto out = outputs("gfx1100", R"(
v_dot2_f32_f16 v10, v2, v3, v4
v_dot4_i32_iu8 v11, v5, v5, 1 neg_lo:[1,1,0]
v_dot4_u32_u8 v12, v5, v5, 1
v_dot8_u32_u4 v13, v5, v5, 0)",
                     {0x40003c00, 0x48004400, bits_of(0.5f), 0xff020304});
  EXPECT_EQ(float_of(out[0]), 1 * 4 + 2 * 8 + 0.5f);
  EXPECT_EQ(out[1], 1u + 4 + 9 + 16 + 1);
  EXPECT_EQ(out[2], 255u * 255 + 4 + 9 + 16 + 1);
  EXPECT_EQ(out[3], 15u * 15 * 2 + 4 + 9 + 16);
}

TEST(ScalarFloat, ComputesOnGfx1200) {
  auto out = outputs("gfx1200", R"(
s_mov_b32 s20, 0x40400000
s_add_f32 s21, s20, 1.0
s_mul_f32 s22, s21, s20
s_fmac_f32 s22, s20, s20
s_cvt_i32_f32 s23, s22
s_cmp_lt_f32 s20, s21
s_cselect_b32 s24, 7, 9
v_mov_b32 v10, s21
v_mov_b32 v11, s22
v_mov_b32 v12, s23
v_mov_b32 v13, s24)",
                     floats(0));
  EXPECT_EQ(float_of(out[0]), 4.0f);
  EXPECT_EQ(float_of(out[1]), 21.0f);
  EXPECT_EQ(out[2], 21u);
  EXPECT_EQ(out[3], 7u);
}

TEST(Compare, ClearsInactiveLanesAndClassifies) {
  auto out = run_lanes("gfx942", R"(
s_mov_b64 vcc, -1
s_mov_b64 exec, 0xff
v_cmp_gt_u32 vcc, 4, v0
s_mov_b64 exec, -1
v_mov_b32 v10, vcc_lo
v_mov_b32 v11, vcc_hi
v_mov_b32 v6, 0x90
v_cmp_class_f32 s[20:21], v3, v6
v_cndmask_b32 v12, 1, 2, s[20:21])",
                       uniform_lanes("gfx942", {0, kSubnormal | 0x80000000, 0, 0}));
  EXPECT_EQ(out[0][0], 15u);
  EXPECT_EQ(out[0][1], 0u);
  EXPECT_EQ(out[0][2], 2u) << "a negative subnormal is of class 0x10";
}

}  // namespace
}  // namespace kiln::amdgcn_emulator
