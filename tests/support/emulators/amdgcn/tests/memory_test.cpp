// Memory: atomics, buffers, LDS, private memory, barriers, and what errors say.
#include <numeric>

#include "lanes.h"

namespace kiln::amdgcn_emulator {
namespace {

TEST(GlobalAtomics, ReturnWhatWasThereAndSkipInactiveLanes) {
  for (std::string gfx : {"gfx942", "gfx1100", "gfx1200", "gfx90a", "gfx906"}) {
    std::string ret = gfx == "gfx942" ? " sc0" : gfx == "gfx1200" ? " th:TH_ATOMIC_RETURN" : " glc";
    std::vector<uint32_t> memory;
    // Lanes 1 to 4 add 1 to dword 8, one after another; the others do nothing.
    auto out = run_lanes(gfx,
                         "s_mov_b32 exec_lo, 0x1e\n" + std::string(is_wave64(gfx) ? "s_mov_b32 exec_hi, 0\n" : "") +
                             "v_mov_b32 v6, 1\nglobal_atomic_add v10, v1, v6, s[8:9] offset:32" + ret +
                             "\nglobal_atomic_add v1, v6, s[8:9] offset:36",
                         numbered_lanes(gfx), &memory);
    for (uint32_t lane = 0; lane < out.size(); ++lane)
      EXPECT_EQ(out[lane][0], lane >= 1 && lane <= 4 ? 8 + lane - 1 : 0xaaaa0000 + lane) << gfx;
    EXPECT_EQ(memory[8], 12u) << gfx;
    EXPECT_EQ(memory[9], 13u) << gfx;
  }
}

TEST(GlobalAtomics, ComputeEachOperation) {
  struct Case {
    const char* name;
    uint32_t operand, expected;  // on the value 20
  };
  const Case cases[] = {{"swap", 7, 7},
                        {"sub", 5, 15},
                        {"smin", 0xffffffff, 0xffffffff},
                        {"umin", 0xffffffff, 20},
                        {"smax", 0xffffffff, 20},
                        {"umax", 30, 30},
                        {"and", 6, 4},
                        {"or", 3, 23},
                        {"xor", 1, 21},
                        {"inc", 20, 0},
                        {"inc", 21, 21},
                        {"dec", 10, 10},
                        {"dec", 25, 19}};
  for (const Case& c : cases) {
    std::vector<uint32_t> memory;
    run_lanes("gfx942",
              "s_mov_b64 exec, 1\nv_mov_b32 v6, " + std::to_string(static_cast<int32_t>(c.operand)) +
                  "\nglobal_atomic_" + c.name + " v1, v6, s[8:9] offset:80",
              numbered_lanes("gfx942"), &memory);
    EXPECT_EQ(memory[20], c.expected) << c.name;
  }
}

TEST(GlobalAtomics, CompareAndSwapTakesTheNewValueFirst) {
  std::vector<uint32_t> memory;
  run_lanes("gfx942", R"(s_mov_b64 exec, 1
v_mov_b32 v6, 0x77
v_mov_b32 v7, 3
global_atomic_cmpswap v1, v[6:7], s[8:9] offset:12
global_atomic_cmpswap v1, v[6:7], s[8:9] offset:16)",
            numbered_lanes("gfx942"), &memory);
  EXPECT_EQ(memory[3], 0x77u);
  EXPECT_EQ(memory[4], 4u);
}

TEST(LdsAtomics, CompareFirstOnGfx9AndLastOnGfx11) {
  const std::string set = "s_mov_b32 exec_lo, 1\nv_mov_b32 v6, 5\nv_mov_b32 v7, 9\n";
  auto old = run_lanes(
      "gfx906",
      set + "s_mov_b32 exec_hi, 0\nds_write_b32 v1, v6\nds_cmpst_rtn_b32 v10, v1, v6, v7\nds_read_b32 v11, v1",
      numbered_lanes("gfx906"));
  EXPECT_EQ(old[0][0], 5u);
  EXPECT_EQ(old[0][1], 9u);
  auto young =
      run_lanes("gfx1100", set + "ds_store_b32 v1, v6\nds_cmpstore_rtn_b32 v10, v1, v7, v6\nds_load_b32 v11, v1",
                numbered_lanes("gfx1100"));
  EXPECT_EQ(young[0][0], 5u);
  EXPECT_EQ(young[0][1], 9u);
}

TEST(Lds, LoadsAndStoresPairsByElements) {
  for (std::string gfx : {"gfx942", "gfx1100"}) {
    bool gfx9 = is_wave64(gfx);
    std::string write = gfx9 ? "ds_write2_b32" : "ds_store_2addr_b32",
                read = gfx9 ? "ds_read2_b32" : "ds_load_2addr_b32";
    std::string far_write = gfx9 ? "ds_write2st64_b32" : "ds_store_2addr_stride64_b32";
    std::string far_read = gfx9 ? "ds_read2st64_b32" : "ds_load_2addr_stride64_b32";
    auto out = run_lanes(gfx,
                         "v_lshlrev_b32 v6, 3, v0\n" + write + " v6, v2, v3 offset0:0 offset1:1\n" + read +
                             " v[10:11], v6 offset0:1 offset1:0\nv_lshlrev_b32 v6, 2, v0\n" + far_write +
                             " v6, v2, v3 offset0:2 offset1:1\n" + far_read + " v[12:13], v6 offset0:1 offset1:2",
                         numbered_lanes(gfx));
    for (uint32_t lane = 0; lane < out.size(); ++lane) {
      EXPECT_EQ(out[lane][0], 100 + lane);
      EXPECT_EQ(out[lane][1], lane);
      EXPECT_EQ(out[lane][2], 100 + lane);
      EXPECT_EQ(out[lane][3], lane);
    }
  }
}

TEST(Lds, WrapsAddressesAt32Bits) {
  auto out = run_lanes("gfx942",
                       "v_lshlrev_b32 v6, 2, v0\nds_write_b32 v6, v3 offset:128\nv_add_u32 v6, 0xffffff80, "
                       "v6\nds_read_b32 v10, v6 offset:256\n"
                       "ds_read2_b32 v[12:13], v6 offset0:64 offset1:64",
                       numbered_lanes("gfx942"));
  for (uint32_t lane = 0; lane < out.size(); ++lane) {
    EXPECT_EQ(out[lane][0], 100 + lane);
    EXPECT_EQ(out[lane][3], 100 + lane);
  }
}

TEST(Lds, MovesHalvesAndBytes) {
  auto out = run_lanes("gfx942", R"(
v_lshlrev_b32 v6, 2, v0
v_mov_b32 v7, 0x8182f3f4
ds_write_b32 v6, v7
ds_read_i8 v10, v6
ds_read_u8 v11, v6 offset:1
ds_read_i16 v12, v6 offset:2
ds_read_u16_d16 v13, v6
ds_read_u16_d16_hi v14, v6
ds_write_b16_d16_hi v6, v7
ds_read_b32 v15, v6)",
                       numbered_lanes("gfx942"));
  EXPECT_EQ(out[3][0], 0xfffffff4u);
  EXPECT_EQ(out[3][1], 0xf3u);
  EXPECT_EQ(out[3][2], 0xffff8182u);
  EXPECT_EQ(out[3][3], 0xaaaaf3f4u);
  EXPECT_EQ(out[3][4], 0xf3f40003u);
  EXPECT_EQ(out[3][5], 0x81828182u);
}

// Reads of dwords lane, lane + 1 of a buffer of `records` bytes (or records of `stride`).
TEST(Buffers, ReadZeroBehindTheEndDwordByDword) {
  for (std::string gfx : {"gfx942", "gfx1100", "gfx1200", "gfx906"}) {
    bool gfx9 = is_wave64(gfx);
    std::string null_offset = gfx == "gfx1200" ? "null" : "0";
    auto out = run_lanes(gfx,
                         "s_mov_b64 s[20:21], s[8:9]\ns_mov_b32 s22, 40\ns_mov_b32 s23, " +
                             std::string(gfx9 ? "0x27000" : "0x31027000") +
                             "\nv_lshlrev_b32 v6, 2, v0\nbuffer_load_dwordx2 v[10:11], v6, s[20:23], " + null_offset +
                             " offen offset:4",
                         numbered_lanes(gfx));
    for (uint32_t lane = 0; lane < out.size(); ++lane) {
      EXPECT_EQ(out[lane][0], lane + 1 < 10 ? lane + 1 : 0) << gfx;
      EXPECT_EQ(out[lane][1], lane + 2 < 10 ? lane + 2 : 0) << gfx;
    }
  }
}

TEST(Buffers, DropStoresBehindTheEnd) {
  for (std::string gfx : {"gfx942", "gfx1100"}) {
    std::vector<uint32_t> memory;
    run_lanes(gfx,
              "s_mov_b64 s[20:21], s[8:9]\ns_mov_b32 s22, 16\ns_mov_b32 s23, " +
                  std::string(is_wave64(gfx) ? "0x27000" : "0x31027000") +
                  "\nv_lshlrev_b32 v6, 2, v0\nbuffer_store_dword v3, v6, s[20:23], 0 offen",
              numbered_lanes(gfx), &memory);
    for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(memory[i], i < 4 ? 100 + i : i) << gfx;
  }
}

TEST(Buffers, CountRecordsWhereTheyHaveAStride) {
  // Records of 12 bytes, four of them; dword 2 of each, by index.
  for (std::string gfx : {"gfx942", "gfx1100"}) {
    auto out = run_lanes(gfx,
                         "s_mov_b32 s20, s8\ns_or_b32 s21, s9, 0xc0000\ns_mov_b32 s22, 4\ns_mov_b32 s23, " +
                             std::string(is_wave64(gfx) ? "0x27000" : "0x01027000") +
                             "\nbuffer_load_dword v10, v0, s[20:23], 0 idxen offset:8\nbuffer_load_dword v11, v0, "
                             "s[20:23], 0 idxen offset:12",
                         numbered_lanes(gfx));
    for (uint32_t lane = 0; lane < out.size(); ++lane) {
      EXPECT_EQ(out[lane][0], lane < 4 ? 3 * lane + 2 : 0) << gfx;
      EXPECT_EQ(out[lane][1], 0u) << gfx << ": behind the record";
    }
  }
}

TEST(PrivateMemory, BelongsToTheLaneOfTheWave) {
  for (std::string gfx : {"gfx942", "gfx1100", "gfx1200"}) {
    std::string load = is_wave64(gfx) ? "scratch_load_dword" : "scratch_load_b32";
    std::string store = is_wave64(gfx) ? "scratch_store_dword" : "scratch_store_b32";
    auto out = run_lanes(gfx,
                         store + " off, v3, off offset:8\n" + store + " off, v2, off offset:12\n" + load +
                             " v10, off, off offset:8\nv_mov_b32 v6, 4\n" + load + " v11, v6, off offset:8\n",
                         numbered_lanes(gfx));
    for (uint32_t lane = 0; lane < out.size(); ++lane) {
      EXPECT_EQ(out[lane][0], 100 + lane);
      EXPECT_EQ(out[lane][1], lane);
    }
  }
}

// Several waves: run a body over `threads` threads with the memory of s[8:9] only.
struct Outcome {
  Result<Statistics> result;
  std::vector<uint32_t> memory;
};
Outcome run_group(const std::string& gfx, const std::string& body, uint32_t threads, WaveOrder order,
                  size_t dwords = 256) {
  CodeObject object =
      assemble(gfx, "s_load_dwordx2 s[8:9], s[0:1], 0x0\nv_and_b32 v0, 0x3ff, v0\nv_lshlrev_b32 v1, 2, v0\n" + body);
  std::vector<uint32_t> memory(dwords);
  std::vector<MemoryRange> ranges = {range_of(memory)};
  Arguments arguments;
  arguments.add(memory.data());
  Launch launch;
  launch.threads = threads;
  launch.arguments = arguments.bytes();
  launch.memory = ranges;
  launch.order = order;
  launch.instruction_limit = 10000;
  Result<Statistics> result = run(object, "kernel", launch);
  return {std::move(result), std::move(memory)};
}

const char* const kReverse = "v_sub_u32 v2, 0x1fc, v1\n";  // 4 * (127 - thread)

TEST(Barriers, ExchangeThroughLds) {
  for (WaveOrder order : {WaveOrder::kForward, WaveOrder::kReverse}) {
    Outcome done = run_group(
        "gfx942",
        std::string(kReverse) + "ds_write_b32 v1, v0\ns_barrier\nds_read_b32 v3, v2\nglobal_store_dword v1, v3, s[8:9]",
        128, order);
    ASSERT_TRUE(done.result.ok()) << done.result.error().message;
    for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(done.memory[i], 127 - i);
  }
}

TEST(Barriers, AreMissedByOneOfTheTwoOrders) {
  int wrong = 0;
  for (WaveOrder order : {WaveOrder::kForward, WaveOrder::kReverse}) {
    Outcome done = run_group(
        "gfx942", std::string(kReverse) + "ds_write_b32 v1, v0\nds_read_b32 v3, v2\nglobal_store_dword v1, v3, s[8:9]",
        128, order);
    ASSERT_TRUE(done.result.ok()) << done.result.error().message;
    for (uint32_t i = 0; i < 128; ++i) wrong += done.memory[i] != 127 - i;
  }
  EXPECT_EQ(wrong, 128) << "in each order the wave that ran first read what was not there yet";
}

TEST(Barriers, SplitInSignalAndWaitOnGfx12) {
  Outcome done = run_group("gfx1200",
                           "v_sub_nc_u32 v2, 0x1fc, v1\nds_store_b32 v1, v0\ns_barrier_signal -1\ns_barrier_wait "
                           "-1\nds_load_b32 v3, v2\nglobal_store_b32 v1, v3, s[8:9]",
                           128, WaveOrder::kReverse);
  ASSERT_TRUE(done.result.ok()) << done.result.error().message;
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(done.memory[i], 127 - i);
}

void expect_error(const Outcome& done, std::initializer_list<const char*> parts) {
  ASSERT_FALSE(done.result.ok());
  for (const char* part : parts)
    EXPECT_NE(done.result.error().message.find(part), std::string::npos) << done.result.error().message;
}

TEST(Errors, NameAnAccessOutOfBounds) {
  Outcome done = run_group("gfx942", "global_store_dword v1, v0, s[8:9]", 128, WaveOrder::kForward, 100);
  expect_error(done, {"store out of bounds: of 4 bytes", "lane 36", "wave 1", "workgroup 0,0,0",
                      "global_store_dword v1, v0, s[8:9]", "code offset 0x"});
}

TEST(Errors, NameAnLdsAccessOutOfBounds) {
  expect_error(run_group("gfx1100", "v_mov_b32 v1, 0x1000\nds_load_b32 v3, v1", 32, WaveOrder::kForward),
               {"LDS access out of bounds", "lane 0", "ds_load_b32 v3, v1"});
}

// Loads and stores may lie anywhere (HSA sets the mode for it); atomics may not.
TEST(Errors, NameAMisalignedAtomic) {
  expect_error(run_group("gfx942", "global_atomic_add v1, v0, s[8:9] offset:2", 64, WaveOrder::kForward),
               {"misaligned atomic of 4 bytes in lane 0", "global_atomic_add"});
  expect_error(run_group("gfx942", "ds_add_u64 v1, v[2:3]", 64, WaveOrder::kForward),
               {"misaligned atomic of 8 bytes in lane 1", "ds_add_u64"});
  EXPECT_TRUE(run_group("gfx942", "global_store_dword v0, v0, s[8:9] offset:1", 64, WaveOrder::kForward).result.ok());
}

TEST(Errors, NameAnUnknownInstruction) {
  expect_error(run_group("gfx942", "buffer_load_format_x v3, v1, s[8:11], 0 offen", 64, WaveOrder::kForward),
               {"lacks this instruction", "buffer_load_format_x v3, v1, s[8:11], 0 offen"});
}

TEST(Errors, EndAnEndlessLoop) {
  expect_error(run_group("gfx942", "s_branch 65535", 64, WaveOrder::kForward), {"limit of instructions"});
}

TEST(Errors, RefuseWhatIsNoCodeObject) {
  std::vector<std::byte> nothing(100);
  EXPECT_FALSE(CodeObject::load(nothing).ok());
  EXPECT_FALSE(CodeObject::load({}).ok());
}

TEST(Errors, RefuseDamagedCodeObjectsWithoutCrashing) {
  std::vector<std::byte> elf = assemble_file("gfx942", ".amdgcn_target \"amdgcn-amd-amdhsa--gfx942\"\ns_endpgm\n");
  EXPECT_FALSE(CodeObject::load(elf).ok()) << "no metadata";
  for (size_t size = 0; size < elf.size(); size += 61) EXPECT_FALSE(CodeObject::load(std::span(elf).first(size)).ok());
}

TEST(Branches, CallAndReturnByAddress) {
  Outcome done = run_group("gfx942", R"(
s_getpc_b64 s[20:21]
here:
s_add_u32 s20, s20, function-here
s_addc_u32 s21, s21, 0
s_mov_b32 s24, 1
s_swappc_b64 s[22:23], s[20:21]
s_add_u32 s24, s24, 100
v_mov_b32 v2, s24
global_store_dword v1, v2, s[8:9]
s_endpgm
function:
s_mul_i32 s24, s24, 7
s_setpc_b64 s[22:23])",
                           64, WaveOrder::kForward);
  ASSERT_TRUE(done.result.ok()) << done.result.error().message;
  EXPECT_EQ(done.memory[5], 107u);
}

TEST(Caches, AreNotModelled) {
  EXPECT_TRUE(
      run_group("gfx1100", "buffer_gl0_inv\nbuffer_gl1_inv\ns_dcache_inv", 32, WaveOrder::kForward).result.ok());
  EXPECT_TRUE(run_group("gfx1200", "global_wb\nglobal_inv\nglobal_wbinv", 32, WaveOrder::kForward).result.ok());
  EXPECT_TRUE(run_group("gfx942", "buffer_wbl2 sc1\nbuffer_inv sc1", 64, WaveOrder::kForward).result.ok());
}

}  // namespace
}  // namespace kiln::amdgcn_emulator
