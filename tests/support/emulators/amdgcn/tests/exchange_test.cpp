// Atomics that only LDS has, scalar stores and atomics, and the alignment that atomics want.
#include "lanes.h"

namespace kiln::amdgcn_emulator {
namespace {

// One lane over LDS that holds `memory` in its first two dwords: dwords that come back, and the two dwords after.
std::vector<uint32_t> exchanged(const std::string& processor, const std::string& text, std::array<uint32_t, 2> memory,
                                LaneInput in) {
  const bool gfx9 = is_wave64(processor);
  const std::string whole = (gfx9 ? "s_mov_b64 exec, 1\n" : "s_mov_b32 exec_lo, 1\n") + std::string("v_mov_b32 v6, ") +
                            std::to_string(memory[0]) + "\nv_mov_b32 v7, " + std::to_string(memory[1]) +
                            (gfx9 ? "\nds_write_b64 v1, v[6:7]\n" : "\nds_store_b64 v1, v[6:7]\n") + text +
                            (gfx9 ? "\nds_read_b64 v[12:13], v1" : "\nds_load_b64 v[12:13], v1");
  const LaneOutput out = run_lanes(processor, whole, uniform_lanes(processor, in))[0];
  return {out[0], out[1], out[2], out[3]};
}

TEST(LdsExchange, ComputesWhatOnlyLdsHas) {
  for (std::string gfx : {"gfx942", "gfx1100"}) {
    SCOPED_TRACE(gfx);
    EXPECT_EQ(exchanged(gfx, "ds_rsub_rtn_u32 v10, v1, v2", {3, 0}, {10})[2], 7u);
    EXPECT_EQ(exchanged(gfx, "ds_rsub_rtn_u32 v10, v1, v2", {3, 0}, {10})[0], 3u);
    EXPECT_EQ(exchanged(gfx, "ds_mskor_rtn_b32 v10, v1, v2, v3", {0xabcd, 0}, {0xff00, 0x1200})[2], 0x12cdu);
    EXPECT_EQ(exchanged(gfx, "ds_wrap_rtn_b32 v10, v1, v2, v3", {9, 0}, {5, 100})[2], 4u);
    EXPECT_EQ(exchanged(gfx, "ds_wrap_rtn_b32 v10, v1, v2, v3", {3, 0}, {5, 100})[2], 103u);
    const auto marked = exchanged(gfx, "ds_condxchg32_rtn_b64 v[10:11], v1, v[2:3]", {1, 2}, {0x80000007, 9});
    EXPECT_EQ(marked, (std::vector<uint32_t>{1, 2, 7, 2}));
  }
}

TEST(LdsExchange, ComparesNumbers) {
  // Zeros are equal, and so the new value is stored.
  EXPECT_EQ(exchanged("gfx942", "ds_cmpst_rtn_f32 v10, v1, v2, v3", {0x80000000, 0}, {0, bits_of(2)})[2], bits_of(2));
  EXPECT_EQ(exchanged("gfx1100", "ds_cmpstore_rtn_f32 v10, v1, v3, v2", {0x80000000, 0}, {0, bits_of(2)})[2],
            bits_of(2));
  const uint32_t nan = 0x7fc00000;
  EXPECT_EQ(exchanged("gfx942", "ds_cmpst_rtn_f32 v10, v1, v2, v3", {nan, 0}, {nan, bits_of(2)})[2], nan);
}

TEST(LdsExchange, SwapsTwoPlaces) {
  EXPECT_EQ(exchanged("gfx942", "ds_wrxchg2_rtn_b32 v[10:11], v1, v2, v3 offset0:1 offset1:0", {5, 6}, {50, 60}),
            (std::vector<uint32_t>{6, 5, 60, 50}));
  EXPECT_EQ(
      exchanged("gfx1100", "ds_storexchg_2addr_rtn_b32 v[10:11], v1, v2, v3 offset0:1 offset1:0", {5, 6}, {50, 60}),
      (std::vector<uint32_t>{6, 5, 60, 50}));
}

TEST(LdsExchange, CountsActiveLanes) {
  for (std::string gfx : {"gfx942", "gfx1100"}) {
    const bool gfx9 = is_wave64(gfx);
    const auto out = run_lanes(gfx,
                               std::string("s_mov_b32 m0, 16\nv_mov_b32 v6, 40\n") +
                                   (gfx9 ? "ds_write_b32 v1, v6 offset:24\n" : "ds_store_b32 v1, v6 offset:24\n") +
                                   (gfx9 ? "s_mov_b64 exec, 0x70\n" : "s_mov_b32 exec_lo, 0x70\n") +
                                   "ds_append v10 offset:8\nds_consume v11 offset:8",
                               numbered_lanes(gfx));
    EXPECT_EQ(out[5][0], 40u);
    EXPECT_EQ(out[5][1], 43u);
    EXPECT_EQ(out[1][0], 0xaaaa0001u) << "an inactive lane";
  }
}

TEST(GlobalExchange, SubtractsToZeroAndComparesNumbersOnGfx1100) {
  std::vector<uint32_t> memory;
  const auto out = run_lanes("gfx1100", R"(
s_mov_b32 exec_lo, 1
v_mov_b32 v6, 5
global_atomic_csub_u32 v10, v1, v6, s[8:9] offset:32 glc
global_atomic_csub_u32 v11, v1, v6, s[8:9] offset:32 glc
v_mov_b32 v7, 0x80000000
global_atomic_cmpswap_f32 v1, v[6:7], s[8:9]
s_mov_b32 exec_lo, -1
global_load_addtid_b32 v12, s[8:9] offset:4)",
                             numbered_lanes("gfx1100"), &memory);
  EXPECT_EQ(out[0][0], 8u);
  EXPECT_EQ(out[0][1], 3u);
  EXPECT_EQ(memory[8], 0u);
  EXPECT_EQ(memory[0], 5u) << "0 equals -0";
  EXPECT_EQ(out[20][2], 21u);
}

TEST(ScalarMemory, StoresAndComputesOnGfx9) {
  std::vector<uint32_t> memory;
  const auto out = run_lanes("gfx906", R"(
s_mov_b32 s20, 0x123
s_mov_b32 s21, 0x456
s_store_dwordx2 s[20:21], s[8:9], 0x20
s_mov_b32 s22, 5
s_atomic_add s22, s[8:9], 0x40 glc
s_mov_b32 s23, 3
s_atomic_umax s23, s[8:9], 0x44
v_mov_b32 v10, s22)",
                             numbered_lanes("gfx906"), &memory);
  EXPECT_EQ(memory[8], 0x123u);
  EXPECT_EQ(memory[9], 0x456u);
  EXPECT_EQ(out[0][0], 16u);
  EXPECT_EQ(memory[16], 21u);
  EXPECT_EQ(memory[17], 17u);
}

TEST(HalfResults, OfOperationsThatCameWithGfx9KeepTheOtherHalf) {
  const LaneInput in = {0x3c00, 0x4000, 0x4200, 0};
  const LaneOutput out = run_lanes("gfx942", R"(
v_fma_f16 v10, v2, v3, v4
v_fma_legacy_f16 v11, v2, v3, v4
v_mad_u16 v12, v2, 1, 1
v_mad_legacy_u16 v13, v2, 1, 1
v_max3_f16 v14, v2, v3, v4 op_sel:[0,0,0,1])",
                                   uniform_lanes("gfx942", in))[0];
  EXPECT_EQ(out[0], 0xaaaa4500u);
  EXPECT_EQ(out[1], 0x4500u);
  EXPECT_EQ(out[2], 0xaaaa3c01u);
  EXPECT_EQ(out[3], 0x3c01u);
  EXPECT_EQ(out[4], 0x42000000u);
}

TEST(HalfResults, HalvesOfRegistersSwapOnGfx1100) {
  const LaneInput in = {0x11112222, 0x33334444, 0x55556666, 0};
  const LaneOutput out = run_lanes("gfx1100", R"(
v_mov_b32 v10, v2
v_mov_b32 v11, v3
v_swap_b16 v10.h, v11.l
v_mov_b32 v12, v4
v_swap_b16 v12.l, v12.h)",
                                   uniform_lanes("gfx1100", in))[0];
  EXPECT_EQ(out[0], 0x44442222u);
  EXPECT_EQ(out[1], 0x33331111u);
  EXPECT_EQ(out[2], 0x66665555u);
}

}  // namespace
}  // namespace kiln::amdgcn_emulator
