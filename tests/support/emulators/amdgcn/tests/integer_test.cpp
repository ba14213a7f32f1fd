// Integer and bit instructions one by one: results worked out by hand from AMD's ISA guides (Vega, CDNA3, RDNA3).
#include <cmath>

#include "lanes.h"

namespace kiln::amdgcn_emulator {
namespace {

// A line of assembly on v[2:5] of every lane; what it leaves in v10 (and v11).
struct Case {
  const char* text;
  LaneInput in;
  std::vector<uint32_t> expected;
};

void expect_results(const std::string& processor, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const auto out = run_lanes(processor, c.text, uniform_lanes(processor, c.in));
    for (size_t i = 0; i < c.expected.size(); ++i)
      EXPECT_EQ(out[5][i], c.expected[i])
          << processor << ": " << c.text << " dword " << i << std::hex << " is 0x" << out[5][i];
  }
}

void expect_on_both(const std::vector<Case>& cases) {
  for (const char* processor : {"gfx942", "gfx1100"}) expect_results(processor, cases);
}

TEST(VectorInteger, ExtractsAndInsertsFields) {
  expect_on_both({
      {"v_bfe_u32 v10, v2, 8, 12", {0x89abcdef}, {0xbcd}},
      {"v_bfe_i32 v10, v2, 8, 12", {0x89abcdef}, {0xfffffbcd}},
      {"v_bfe_u32 v10, v2, v3, 0", {0x89abcdef, 4}, {0}},
      {"v_bfe_i32 v10, v2, 28, 31", {0x89abcdef}, {0xfffffff8}},
      {"v_bfi_b32 v10, v2, v3, v4", {0x0000ffff, 0x12345678, 0x9abcdef0}, {0x9abc5678}},
      {"v_bfm_b32 v10, v2, v3", {8, 4}, {0xff0}},
      {"v_alignbit_b32 v10, v2, v3, 8", {0x11223344, 0x55667788}, {0x44556677}},
      {"v_alignbyte_b32 v10, v2, v3, 3", {0x11223344, 0x55667788}, {0x22334455}},
      {"v_perm_b32 v10, v2, v3, v4", {0x8899aabb, 0xccddeeff, 0x000c0704}, {0xff0088bb}},
      {"v_perm_b32 v10, v2, v3, v4", {0x8899aabb, 0x4cddeeff, 0x0d0b0a08}, {0xffffffff}},
      {"v_perm_b32 v10, v2, v3, v4", {0x0899aabb, 0x4cddeeff, 0x0b0a0908}, {0x00ff00ff}},
      {"v_and_or_b32 v10, v2, v3, v4", {0xff00ff, 0x123456, 0xf0000000}, {0xf0120056}},
      {"v_xad_u32 v10, v2, v3, v4", {0xf0, 0xff, 1}, {0x10}},
      {"v_lshl_add_u32 v10, v2, 4, v3", {0x11, 5}, {0x115}},
      {"v_add_lshl_u32 v10, v2, v3, 2", {7, 8}, {60}},
      {"v_lshl_or_b32 v10, v2, v3, v4", {3, 36, 1}, {0x31}},
      {"v_or3_b32 v10, v2, v3, v4", {1, 2, 4}, {7}},
      {"v_add3_u32 v10, v2, v3, v4", {0xffffffff, 2, 3}, {4}},
  });
}

// CDNA 4: each bit by a table of eight, of which the first source numbers the upper half.
TEST(VectorInteger, ChoosesBitsByATable) {
  const std::array<uint32_t, 4> in = {0xff00f0f0, 0xf0f0cccc, 0xccccaaaa};
  expect_results("gfx950",
                 {
                     {"v_bitop3_b32 v10, v2, v3, v4 bitop3:0x80", in, {in[0] & in[1] & in[2]}},
                     {"v_bitop3_b32 v10, v2, v3, v4 bitop3:0xf0", in, {in[0]}},
                     {"v_bitop3_b32 v10, v2, v3, v4 bitop3:0x6c", in, {(in[0] & in[2]) ^ in[1]}},
                     {"v_bitop3_b32 v10, v2, v3, v4 bitop3:0xca", in, {(in[0] & in[1]) | (~in[0] & in[2])}},
                     {"v_bitop3_b32 v10, v2, v3, v4", in, {0}},
                     {"v_cvt_pk_f16_f32 v10, v2, v3", {bits_of(1), bits_of(-2)}, {0xc0003c00}},
                     {"v_cvt_pk_bf16_f32 v10, v2, v3", {bits_of(1), bits_of(-2)}, {0xc0003f80}},
                     {"v_pk_maximum3_f16 v10, v2, v3, v4", {0x3c004000, 0x42003c00, 0x40007e00}, {0x42007e00}},
                 });
}

TEST(VectorInteger, CountsAndReverses) {
  expect_on_both({
      {"v_bfrev_b32 v10, v2", {0x80000003}, {0xc0000001}},
      {"v_bcnt_u32_b32 v10, v2, v3", {0xf0f0, 100}, {108}},
      {"v_min3_i32 v10, v2, v3, v4", {5, 0xfffffff0, 7}, {0xfffffff0}},
      {"v_max3_u32 v10, v2, v3, v4", {5, 0xfffffff0, 7}, {0xfffffff0}},
      {"v_med3_i32 v10, v2, v3, v4", {5, 0xfffffff0, 7}, {5}},
      {"v_med3_u32 v10, v2, v3, v4", {5, 0xfffffff0, 7}, {7}},
      {"v_mul_hi_u32 v10, v2, v3", {0x80000000, 6}, {3}},
      {"v_mul_hi_i32 v10, v2, v3", {0x80000000, 6}, {0xfffffffd}},
      {"v_mul_i32_i24 v10, v2, v3", {0x01ffffff, 5}, {0xfffffffb}},
      {"v_mad_u32_u24 v10, v2, v3, v4", {0xff000003, 5, 2}, {17}},
      {"v_cvt_f32_ubyte2 v10, v2", {0x00640000}, {bits_of(100)}},
  });
  expect_results("gfx942", {{"v_ffbh_u32 v10, v2\nv_ffbl_b32 v11, v2", {0x00010100}, {15, 8}},
                            {"v_ffbh_u32 v10, v2\nv_ffbh_i32 v11, v2", {0}, {0xffffffff, 0xffffffff}},
                            {"v_ffbh_i32 v10, v2", {0xfff00000}, {12}}});
  expect_results("gfx1100", {{"v_clz_i32_u32 v10, v2\nv_ctz_i32_b32 v11, v2", {0x00010100}, {15, 8}},
                             {"v_minmax_i32 v10, v2, v3, v4", {9, 4, 6}, {6}},
                             {"v_maxmin_u32 v10, v2, v3, v4", {9, 4, 6}, {6}}});
}

TEST(VectorInteger, SumsDifferences) {
  expect_on_both({
      {"v_sad_u8 v10, v2, v3, v4", {0x01020304, 0x04030201, 10}, {18}},
      {"v_sad_hi_u8 v10, v2, v3, v4", {0x01020304, 0x04030201, 10}, {0x8000a}},
      {"v_sad_u16 v10, v2, v3, v4", {0x00010005, 0x00040003, 1}, {6}},
      {"v_sad_u32 v10, v2, v3, v4", {3, 10, 1}, {8}},
      {"v_msad_u8 v10, v2, v3, v4", {0x01020304, 0x04000201, 10}, {10 + 3 + 1 + 3}},
      {"v_lerp_u8 v10, v2, v3, v4", {0x00ff0203, 0x00ff0300, 0x00000101}, {0x00ff0302}},
  });
  // Windows 04030201, 05040302, 06050403, 07060504 of eight bytes.
  const char* windows = "v_mov_b32 v12, 0x10001\nv_mov_b32 v13, 0x20002\n";
  for (const char* processor : {"gfx942", "gfx1100"}) {
    const std::string plain = std::string(windows) + "v_qsad_pk_u16_u8 v[10:11], v[2:3], v4, v[12:13]";
    const std::string masked = std::string(windows) + "v_mqsad_pk_u16_u8 v[10:11], v[2:3], v4, v[12:13]";
    expect_results(processor, {{plain.c_str(), {0x04030201, 0x08070605, 0x01010101}, {0x000b0007, 0x0014'0010}},
                               {masked.c_str(), {0x04030201, 0x08070605, 0x00000001}, {0x00020001, 0x00050004}}});
    const char* dwords =
        "v_mov_b32 v12, 5\nv_mov_b32 v13, 6\nv_mov_b32 v14, 7\nv_mov_b32 v15, 8\n"
        "v_mqsad_u32_u8 v[10:13], v[2:3], v4, v[12:15]";
    expect_results(processor, {{dwords, {0x04030201, 0x08070605, 0x00000001}, {5, 7, 9, 11}}});
  }
}

TEST(VectorInteger, MultipliesTo64BitsWithCarries) {
  for (const char* processor : {"gfx942", "gfx1100"}) {
    const std::string mask = is_wave64(processor) ? "s[20:21]" : "s20";
    const std::string text = "v_mad_u64_u32 v[10:11], " + mask + ", v2, v3, v[4:5]\nv_mov_b32 v12, s20";
    expect_results(processor,
                   {{text.c_str(), {0xffffffff, 0xffffffff, 2, 1}, {3, 0xffffffff, 0}},
                    {text.c_str(), {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0, 0xfffffffe, 0xffffffff}}});
    const std::string carry = "v_add_co_u32 v10, " + mask + ", v2, v3\nv_mov_b32 v11, s20";
    expect_results(processor, {{carry.c_str(), {0xffffffff, 1}, {0, 0xffffffff}}, {carry.c_str(), {1, 1}, {2, 0}}});
  }
  expect_results(
      "gfx942",
      {{"v_lshl_add_u64 v[10:11], v[2:3], 3, v[4:5]", {0x80000000, 1, 5, 1}, {5, 13}},
       {"v_mad_i64_i32 v[10:11], s[20:21], v2, v3, v[4:5]", {0xfffffffe, 3, 1, 0}, {0xfffffffb, 0xffffffff}}});
}

TEST(VectorInteger, ConvertsAndPacks) {
  expect_on_both({
      {"v_cvt_pk_u8_f32 v10, v2, 1, v3", {bits_of(200.6f), 0x11223344}, {0x1122c944}},
      {"v_cvt_pk_u16_u32 v10, v2, v3", {0x12345, 7}, {0x0007ffff}},
      {"v_cvt_pk_i16_i32 v10, v2, v3", {0xffff0000, 0x7fffffff}, {0x7fff8000}},
      {"v_pack_b32_f16 v10, v2, v3", {0x11112222, 0x33334444}, {0x44442222}},
      {"v_cvt_off_f32_i4 v10, v2", {0xf8}, {bits_of(-0.5f)}},
      {"v_cvt_u32_f32 v10, v2\nv_cvt_i32_f32 v11, v2", {bits_of(-3.9f)}, {0, 0xfffffffd}},
      {"v_ldexp_f32 v10, v2, v3", {bits_of(1.5f), 0xfffffffe}, {bits_of(0.375f)}},
      {"v_fract_f32 v10, v2", {bits_of(-1.25f)}, {bits_of(0.75f)}},
      {"v_frexp_mant_f32 v10, v2\nv_frexp_exp_i32_f32 v11, v2", {bits_of(-12.0f)}, {bits_of(-0.75f), 4}},
      {"v_mul_u32_u24 v10, v2, v3", {0x1000002, 3}, {6}},
  });
  expect_results("gfx942",
                 {{"v_mov_b32 v10, 0x11223344\nv_cvt_pkaccum_u8_f32 v10, v2, 2", {bits_of(7)}, {0x11073344}}});
}

TEST(VectorInteger, FindsTheFacesOfCubes) {
  const char* text =
      "v_cubeid_f32 v10, v2, v3, v4\nv_cubesc_f32 v11, v2, v3, v4\nv_cubetc_f32 v12, v2, v3, v4\n"
      "v_cubema_f32 v13, v2, v3, v4";
  const auto floats = [](float a, float b, float c) { return LaneInput{bits_of(a), bits_of(b), bits_of(c), 0}; };
  const auto results = [](float a, float b, float c, float d) {
    return std::vector<uint32_t>{bits_of(a), bits_of(b), bits_of(c), bits_of(d)};
  };
  expect_on_both({{text, floats(-3, 1, 2), results(1, 2, -1, -6)},
                  {text, floats(1, -3, 2), results(3, 1, -2, -6)},
                  {text, floats(1, 2, 3), results(4, 1, -2, 6)},
                  {text, floats(3, 3, -3), results(5, -3, -3, -6)}});
}

TEST(VectorFloat, TakesSegmentsOfTwoOverPi) {
  // The first 53 bits of 2/pi, then the next ones; of 2^60 the point lies further on.
  const auto out = [](uint32_t segment, double x) {
    const auto bits = std::bit_cast<uint64_t>(x);
    const auto lanes =
        run_lanes("gfx942", "v_trig_preop_f64 v[10:11], v[2:3], v4",
                  uniform_lanes("gfx942", {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32), segment}));
    return std::bit_cast<double>(lanes[0][0] | uint64_t{lanes[0][1]} << 32);
  };
  EXPECT_EQ(out(0, 1), 0x1.45f306dc9c882p-1);
  EXPECT_EQ(out(1, 1), 0x1.4a7f09d5f47d4p-54);
  EXPECT_EQ(out(0, 0x1p+60), 0x1.7cc1b727220a9p-7) << "an exponent of 1083 leaves 6 bits out";
}

TEST(ScalarInteger, WorksOnBits) {
  const auto with = [](const std::string& text) {
    return "v_readfirstlane_b32 s24, v2\nv_readfirstlane_b32 s25, v3\nv_readfirstlane_b32 s26, v4\n" + text +
           "\nv_mov_b32 v10, s28\nv_mov_b32 v11, s29";
  };
  const auto check = [&](const std::string& text, LaneInput in, std::vector<uint32_t> expected) {
    const std::string whole = with(text);
    expect_on_both({{whole.c_str(), in, std::move(expected)}});
  };
  const std::string scc = "\ns_cselect_b32 s29, 1, 0";
  check("s_brev_b32 s28, s24\ns_mov_b32 s29, 0", {0x80000003}, {0xc0000001, 0});
  check("s_brev_b64 s[28:29], s[24:25]", {1, 2}, {0x40000000, 0x80000000});
  check("s_bfm_b32 s28, s24, s25\ns_bfe_u32 s29, s26, 0x80004", {8, 4, 0xabcd}, {0xff0, 0xbc});
  check("s_bfe_i32 s28, s24, 0x80004" + scc, {0xabcd}, {0xffffffbc, 1});
  check("s_bfe_u64 s[28:29], s[24:25], 0x100018", {0x12345678, 0x9abcdef0}, {0xf012, 0});
  check("s_bcnt1_i32_b64 s28, s[24:25]" + scc, {0xff, 0xf}, {12, 1});
  check("s_bcnt0_i32_b32 s28, s24" + scc, {0xffffffff}, {0, 0});
  check("s_mov_b32 s28, 0xf0\ns_bitset1_b32 s28, s24\ns_bitset0_b32 s28, s25\ns_mov_b32 s29, 0", {32, 37}, {0xd1, 0});
  check("s_absdiff_i32 s28, s24, s25" + scc, {0xfffffffe, 3}, {5, 1});
  check("s_lshl4_add_u32 s28, s24, s25" + scc, {0x10000001, 3}, {0x13, 1});
  check("s_pack_lh_b32_b16 s28, s24, s25\ns_pack_hh_b32_b16 s29, s24, s25", {0x11112222, 0x33334444},
        {0x33332222, 0x33331111});
  check("s_quadmask_b32 s28, s24\ns_wqm_b32 s29, s24", {0x00010020}, {0x12, 0x000f00f0});
  check("s_sext_i32_i8 s28, s24\ns_sext_i32_i16 s29, s24", {0x8081}, {0xffffff81, 0xffff8081});
  check("s_mul_hi_i32 s28, s24, s25\ns_mul_hi_u32 s29, s24, s25", {0xffffffff, 2}, {0xffffffff, 1});
  check("s_cmp_lt_i32 s24, s25\ns_cselect_b32 s28, s24, s25\ns_cmp_lt_u32 s24, s25" + scc, {0xffffffff, 1},
        {0xffffffff, 0});
  check("s_cmp_eq_u64 s[24:25], s[24:25]\ns_cselect_b64 s[28:29], s[24:25], 0", {7, 8}, {7, 8});
  check("s_movk_i32 s28, 0x8000\ns_addk_i32 s28, 1\ns_movk_i32 s29, 3\ns_mulk_i32 s29, 0xffff", {},
        {0xffff8001, 0xfffffffd});
  check("s_cmp_eq_u32 s24, s24\ns_mov_b32 s28, 9\ns_cmov_b32 s28, s24\ns_cmpk_lg_u32 s24, 0xffff" + scc, {0xffff},
        {0xffff, 0});
}

TEST(ScalarInteger, FindsBits) {
  expect_results(
      "gfx942",
      {{"s_mov_b32 s24, 0x00010100\ns_ff1_i32_b32 s25, s24\ns_flbit_i32_b32 s26, s24\nv_mov_b32 v10, s25\nv_mov_b32 "
        "v11, s26",
        {},
        {8, 15}},
       {"s_mov_b32 s24, -16\ns_flbit_i32 s25, s24\ns_ff0_i32_b32 s26, s24\nv_mov_b32 v10, s25\nv_mov_b32 v11, s26",
        {},
        {28, 0}},
       {"s_bitreplicate_b64_b32 s[24:25], 0x80000005\nv_mov_b32 v10, s24\nv_mov_b32 v11, s25",
        {},
        {0x33, 0xc0000000}}});
  expect_results("gfx1100", {{"s_mov_b32 s24, 0x00010100\ns_ctz_i32_b32 s25, s24\ns_clz_i32_u32 s26, s24\nv_mov_b32 "
                              "v10, s25\nv_mov_b32 v11, s26",
                              {},
                              {8, 15}},
                             {"s_cls_i32 s24, 0xfff00000\nv_mov_b32 v10, s24", {}, {12}}});
}

TEST(ScalarInteger, SavesAndChangesExec) {
  const auto out = run_lanes("gfx942", R"(
s_mov_b64 s[20:21], 0xff
s_and_saveexec_b64 s[22:23], s[20:21]
v_mov_b32 v10, 1
s_andn2_b64 exec, s[22:23], exec
v_mov_b32 v10, 2
s_mov_b64 exec, s[22:23]
s_andn1_wrexec_b64 s[24:25], s[20:21]
v_mov_b32 v11, s24)",
                             numbered_lanes("gfx942"));
  for (uint32_t lane = 0; lane < 64; ++lane) {
    EXPECT_EQ(out[lane][0], lane < 8 ? 1u : 2u);
    EXPECT_EQ(out[lane][1], lane < 8 ? 0xaaaa0000 + lane : 0xffffff00u);
  }
}

TEST(HardwareRegisters, ChangeModeForAWhile) {
  // f32 rounds upwards while the two lowest bits of MODE are 1.
  const auto out = run_lanes("gfx942", R"(
s_getreg_b32 s20, hwreg(HW_REG_MODE, 0, 4)
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1
v_add_f32 v10, v2, v3
s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s20
v_add_f32 v11, v2, v3)",
                             uniform_lanes("gfx942", {bits_of(1), bits_of(0x1p-30f)}));
  EXPECT_EQ(float_of(out[0][0]), std::nextafter(1.0f, 2.0f));
  EXPECT_EQ(float_of(out[0][1]), 1.0f);
  const auto young = run_lanes(
      "gfx1100", "s_round_mode 0x2\nv_add_f32 v10, v2, v3\ns_round_mode 0\ns_denorm_mode 0\nv_mul_f32 v11, v3, v4",
      uniform_lanes("gfx1100", {bits_of(-1), bits_of(-0x1p-30f), bits_of(0x1p-100f)}));
  EXPECT_EQ(float_of(young[0][0]), std::nextafter(-1.0f, -2.0f));
  EXPECT_EQ(young[0][1], 0x80000000u);
}

}  // namespace
}  // namespace kiln::amdgcn_emulator
