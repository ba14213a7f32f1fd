// DPP, permutations between lanes, and what inactive lanes do there.
#include "lanes.h"

namespace kiln::amdgcn_emulator {
namespace {

constexpr uint32_t kUntouched = 0xaaaa0000;

// Expects v10 of each lane: `source` names the lane that is read, -1 a zero, -2 that the lane is not written.
template <class F>
void expect_sources(const std::string& processor, const std::string& body, F source) {
  auto out = run_lanes(processor, body, numbered_lanes(processor));
  for (int lane = 0; lane < static_cast<int>(out.size()); ++lane) {
    int from = source(lane);
    uint32_t want = from == -1   ? 0
                    : from == -2 ? kUntouched + static_cast<uint32_t>(lane)
                                 : 100 + static_cast<uint32_t>(from);
    ASSERT_EQ(out[static_cast<size_t>(lane)][0], want) << processor << ": " << body << ", lane " << lane;
  }
}

const char* const kAll = " row_mask:0xf bank_mask:0xf";

TEST(Dpp, PermutesWithinRows) {
  for (const char* gfx : {"gfx942", "gfx1100", "gfx1200", "gfx906"}) {
    std::string move = "v_mov_b32_dpp v10, v3 ";
    expect_sources(gfx, move + "quad_perm:[3,0,2,1]" + kAll,
                   [](int l) { return l / 4 * 4 + (int[]){3, 0, 2, 1}[l % 4]; });
    expect_sources(gfx, move + "row_shl:3" + kAll, [](int l) { return l % 16 + 3 < 16 ? l + 3 : -2; });
    expect_sources(gfx, move + "row_shr:5" + kAll + std::string(" bound_ctrl:1"),
                   [](int l) { return l % 16 >= 5 ? l - 5 : -1; });
    expect_sources(gfx, move + "row_ror:1" + kAll, [](int l) { return l / 16 * 16 + (l + 15) % 16; });
    expect_sources(gfx, move + "row_mirror" + kAll, [](int l) { return l / 16 * 16 + 15 - l % 16; });
    expect_sources(gfx, move + "row_half_mirror" + kAll, [](int l) { return l / 8 * 8 + 7 - l % 8; });
  }
}

TEST(Dpp, MovesBetweenRowsOnGfx9) {
  for (const char* gfx : {"gfx942", "gfx906"}) {
    std::string move = "v_mov_b32_dpp v10, v3 ";
    expect_sources(gfx, move + "wave_shl:1" + kAll, [](int l) { return l < 63 ? l + 1 : -2; });
    expect_sources(gfx, move + "wave_shr:1" + kAll, [](int l) { return l > 0 ? l - 1 : -2; });
    expect_sources(gfx, move + "wave_ror:1" + kAll, [](int l) { return (l + 63) % 64; });
    expect_sources(gfx, move + "wave_rol:1" + kAll, [](int l) { return (l + 1) % 64; });
    expect_sources(gfx, move + "row_bcast:15" + kAll, [](int l) { return l < 16 ? -2 : l / 16 * 16 - 1; });
    expect_sources(gfx, move + "row_bcast:31" + kAll, [](int l) { return l < 32 ? -2 : 31; });
  }
  expect_sources("gfx942", std::string("v_mov_b32_dpp v10, v3 row_newbcast:5") + kAll,
                 [](int l) { return l / 16 * 16 + 5; });
}

TEST(Dpp, SharesAndCrossesOnRdna) {
  for (const char* gfx : {"gfx1100", "gfx1200"}) {
    std::string move = "v_mov_b32_dpp v10, v3 ";
    expect_sources(gfx, move + "row_share:7" + kAll, [](int l) { return l / 16 * 16 + 7; });
    expect_sources(gfx, move + "row_xmask:10" + kAll, [](int l) { return l ^ 10; });
    expect_sources(gfx, move + "dpp8:[7,6,5,4,0,1,2,3]",
                   [](int l) { return l / 8 * 8 + (int[]){7, 6, 5, 4, 0, 1, 2, 3}[l % 8]; });
  }
}

TEST(Dpp, MasksRowsAndBanks) {
  expect_sources("gfx942", "v_mov_b32_dpp v10, v3 row_ror:1 row_mask:0xa bank_mask:0x3",
                 [](int l) { return (l / 16) % 2 == 1 && l / 4 % 4 < 2 ? l / 16 * 16 + (l + 15) % 16 : -2; });
}

TEST(Dpp, ReadsTheDestinationBeforeItWrites) {
  for (const char* gfx : {"gfx942", "gfx1100"})
    expect_sources(gfx, std::string("v_mov_b32 v10, v3\nv_mov_b32_dpp v10, v10 row_ror:4") + kAll,
                   [](int l) { return l / 16 * 16 + (l + 12) % 16; });
}

TEST(Dpp, TakesDisabledLanesForInvalid) {
  // Lane 5 is disabled: lane 4, which reads it, keeps its value or reads 0; with fi it reads lane 5 nevertheless.
  const std::string disable = "s_mov_b32 exec_lo, 0xffffffdf\n";
  auto shifted = [](int on_five, int at_end) {
    return [=](int l) { return l == 5 ? -2 : l == 4 ? on_five : l % 16 == 15 ? at_end : l + 1; };
  };
  expect_sources("gfx1100", disable + "v_mov_b32_dpp v10, v3 row_shl:1" + kAll, shifted(-2, -2));
  expect_sources("gfx1100", disable + "v_mov_b32_dpp v10, v3 row_shl:1" + kAll + " bound_ctrl:1", shifted(-1, -1));
  expect_sources("gfx1100", disable + "v_mov_b32_dpp v10, v3 row_shl:1" + kAll + " bound_ctrl:1 fi:1", shifted(5, -1));
  expect_sources("gfx1100", disable + "v_mov_b32_dpp v10, v3 dpp8:[1,2,3,4,5,6,7,0]", [](int l) {
    return l == 5 ? -2 : l == 4 ? -1 : l / 8 * 8 + (l + 1) % 8;
  });
}

TEST(Dpp, PermutesOneSourceOfAnAddition) {
  auto out =
      run_lanes("gfx1100", std::string("v_add_f32_dpp v10, v4, v4 row_xmask:1") + kAll, numbered_lanes("gfx1100"));
  for (unsigned lane = 0; lane < 32; ++lane)
    EXPECT_EQ(float_of(out[lane][0]), static_cast<float>(lane) + static_cast<float>(lane ^ 1));
}

TEST(Permlane, SelectsByNibbles) {
  // Lane i of a row reads lane (3 * i + 1) % 16.
  uint64_t selectors = 0;
  for (uint64_t i = 0; i < 16; ++i) selectors |= (3 * i + 1) % 16 << (4 * i);
  const std::string load = "s_mov_b32 s20, " + std::to_string(static_cast<uint32_t>(selectors)) + "\ns_mov_b32 s21, " +
                           std::to_string(static_cast<uint32_t>(selectors >> 32)) + "\n";
  for (const char* gfx : {"gfx1100", "gfx1200"}) {
    expect_sources(gfx, load + "v_permlane16_b32 v10, v3, s20, s21",
                   [](int l) { return l / 16 * 16 + (3 * (l % 16) + 1) % 16; });
    expect_sources(gfx, load + "v_permlanex16_b32 v10, v3, s20, s21",
                   [](int l) { return (l / 16 ^ 1) * 16 + (3 * (l % 16) + 1) % 16; });
    expect_sources(gfx, "v_permlane64_b32 v10, v3", [](int l) { return l; });
  }
  // The source of the lanes that read lane 4 is disabled.
  const std::string disable = load + "s_mov_b32 exec_lo, 0xffffffef\n";
  auto expected = [](int invalid) {
    return [=](int l) {
      int from = l / 16 * 16 + (3 * (l % 16) + 1) % 16;
      return l == 4 ? -2 : from == 4 ? invalid : from;
    };
  };
  expect_sources("gfx1100", disable + "v_permlane16_b32 v10, v3, s20, s21", expected(-2));
  expect_sources("gfx1100", disable + "v_permlane16_b32 v10, v3, s20, s21 op_sel:[0,1]", expected(-1));
  expect_sources("gfx1100", disable + "v_permlane16_b32 v10, v3, s20, s21 op_sel:[1,0]", expected(4));
}

TEST(ReadLane, TakesTheFirstActiveLaneOrANumberedOne) {
  auto out = run_lanes("gfx942", R"(
s_mov_b64 exec, 0xf0
v_readfirstlane_b32 s20, v3
s_mov_b64 exec, -1
s_movk_i32 s23, 70
v_readlane_b32 s21, v3, s23
v_mov_b32 v10, s20
v_mov_b32 v11, s21
v_writelane_b32 v12, s20, 9
s_mov_b64 exec, 0
v_readfirstlane_b32 s22, v3
s_mov_b64 exec, -1
v_mov_b32 v13, s22)",
                       numbered_lanes("gfx942"));
  for (uint32_t lane = 0; lane < 64; ++lane) {
    EXPECT_EQ(out[lane][0], 104u);
    EXPECT_EQ(out[lane][1], 106u) << "lane 70 wraps to 6";
    EXPECT_EQ(out[lane][2], lane == 9 ? 104u : kUntouched + lane);
    EXPECT_EQ(out[lane][3], 100u) << "without active lanes lane 0 is read";
  }
}

TEST(LdsPermute, WrapsAndLeavesUnsentLanesZero) {
  for (std::string gfx : {"gfx942", "gfx1100"}) {
    const int lanes = static_cast<int>(lanes_of(gfx));
    // Lane l sends to 2 * l: the upper half wraps and wins over the lower.
    expect_sources(gfx, "v_lshlrev_b32 v6, 3, v0\nds_permute_b32 v10, v6, v3",
                   [=](int l) { return l % 2 ? -1 : l / 2 + lanes / 2; });
    expect_sources(gfx, "v_lshlrev_b32 v6, 2, v0\nds_bpermute_b32 v10, v6, v3 offset:8",
                   [=](int l) { return (l + 2) % lanes; });
    expect_sources(gfx, "v_lshlrev_b32 v6, 2, v0\ns_mov_b32 exec_lo, 0xfffffff7\nds_bpermute_b32 v10, v6, v3 offset:4",
                   [=](int l) { return l == 3   ? -2
                                       : l == 2 ? -1
                                                : (l + 1) % lanes; });
  }
}

TEST(LdsSwizzle, MasksAndPermutesQuads) {
  for (const char* gfx : {"gfx942", "gfx1100"}) {
    expect_sources(gfx, "ds_swizzle_b32 v10, v3 offset:swizzle(QUAD_PERM,1,0,3,2)", [](int l) { return l ^ 1; });
    // and 0x1e, or 1, xor 4
    expect_sources(gfx, "ds_swizzle_b32 v10, v3 offset:" + std::to_string(0x1e | 1 << 5 | 4 << 10),
                   [](int l) { return (l & ~31) | (((l & 0x1e) | 1) ^ 4); });
    expect_sources(gfx, "ds_swizzle_b32 v10, v3 offset:swizzle(SWAP,8)", [](int l) { return l ^ 8; });
    expect_sources(gfx, "ds_swizzle_b32 v10, v3 offset:swizzle(BROADCAST,4,2)", [](int l) { return l / 4 * 4 + 2; });
  }
  // Rotation by three, within 32 lanes.
  expect_sources("gfx942", "ds_swizzle_b32 v10, v3 offset:" + std::to_string(0xc000 | 3 << 5),
                 [](int l) { return (l & ~31) | ((l + 3) & 31); });
}

TEST(Mbcnt, CountsLanesBelow) {
  auto out = run_lanes("gfx942",
                       "v_mbcnt_lo_u32_b32 v10, -1, 0\nv_mbcnt_hi_u32_b32 v10, -1, v10\nv_mbcnt_lo_u32_b32 v11, -1, 5",
                       numbered_lanes("gfx942"));
  for (uint32_t lane = 0; lane < 64; ++lane) {
    EXPECT_EQ(out[lane][0], lane);
    EXPECT_EQ(out[lane][1], std::min(lane, 32u) + 5);
  }
}

}  // namespace
}  // namespace kiln::amdgcn_emulator
