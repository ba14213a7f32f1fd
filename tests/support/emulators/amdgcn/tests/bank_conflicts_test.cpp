// Turns that lanes lose at the banks of LDS, of address patterns whose conflicts are known.
#include "lanes.h"

namespace kiln::amdgcn_emulator {
namespace {

// Of one wave that executes `access` on the addresses in v1 that `address` computes of the lane in v0.
uint64_t conflicts_of(const std::string& processor, const std::string& address, const std::string& access) {
  SCOPED_TRACE(processor + ": " + address + "; " + access);
  const CodeObject object = assemble(processor, "v_and_b32 v0, 0x3ff, v0\n" + address + "\n" + access + "\n");
  Launch launch;
  launch.threads = lanes_of(processor);
  launch.count_mnemonics = true;
  const Result<Statistics> done = run(object, "kernel", launch);
  EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().message);
  uint64_t turns = 0;
  for (const auto& [line, lost] : done->bank_conflicts) turns += lost;
  return turns;
}

const std::string kBytes4 = "v_lshlrev_b32 v1, 2, v0", kBytes8 = "v_lshlrev_b32 v1, 3, v0",
                  kBytes16 = "v_lshlrev_b32 v1, 4, v0", kBytes32 = "v_lshlrev_b32 v1, 5, v0";

TEST(BankConflicts, NeighboursHaveNone) {
  for (const char* processor : {"gfx942", "gfx1100"}) {
    const bool is_gfx9 = is_wave64(processor);
    EXPECT_EQ(conflicts_of(processor, kBytes4, is_gfx9 ? "ds_read_b32 v2, v1" : "ds_load_b32 v2, v1"), 0u);
    EXPECT_EQ(conflicts_of(processor, kBytes8, is_gfx9 ? "ds_read_b64 v[2:3], v1" : "ds_load_b64 v[2:3], v1"), 0u);
    EXPECT_EQ(conflicts_of(processor, kBytes16, is_gfx9 ? "ds_read_b128 v[4:7], v1" : "ds_load_b128 v[4:7], v1"), 0u);
    EXPECT_EQ(conflicts_of(processor, kBytes16, is_gfx9 ? "ds_write_b128 v1, v[4:7]" : "ds_store_b128 v1, v[4:7]"), 0u);
  }
}

TEST(BankConflicts, LanesAtTheSameWordHaveNone) {
  EXPECT_EQ(conflicts_of("gfx942", "v_mov_b32 v1, 0", "ds_read_b32 v2, v1"), 0u);
  EXPECT_EQ(conflicts_of("gfx942", "v_lshlrev_b32 v1, 1, v0", "ds_read_u16 v2, v1"), 0u);
  EXPECT_EQ(conflicts_of("gfx1100", "v_mov_b32 v1, 16", "ds_load_b128 v[4:7], v1"), 0u);
}

// Every second word, vector or pair of vectors: two lanes at each bank.
TEST(BankConflicts, StridesOfTwoCostATurnForEachThatIsTaken) {
  EXPECT_EQ(conflicts_of("gfx942", kBytes8, "ds_read_b32 v2, v1"), 2u);
  EXPECT_EQ(conflicts_of("gfx942", kBytes16, "ds_read_b64 v[2:3], v1"), 4u);
  EXPECT_EQ(conflicts_of("gfx942", kBytes32, "ds_write_b128 v1, v[4:7]"), 8u);
  EXPECT_EQ(conflicts_of("gfx1100", kBytes8, "ds_load_b32 v2, v1"), 1u);
  EXPECT_EQ(conflicts_of("gfx1100", kBytes32, "ds_load_b128 v[4:7], v1"), 4u);
}

TEST(BankConflicts, BothPlacesOfAnInstructionCount) {
  EXPECT_EQ(conflicts_of("gfx942", kBytes8, "ds_read2_b32 v[2:3], v1 offset1:1"), 4u);
  EXPECT_EQ(conflicts_of("gfx1100", kBytes8, "ds_store_2addr_b32 v1, v2, v3 offset1:1"), 2u);
}

// A load may overwrite its own addresses.
TEST(BankConflicts, AddressesAreThoseBeforeTheLoad) {
  EXPECT_EQ(conflicts_of("gfx942", kBytes8, "ds_read_b32 v1, v1"), 2u);
}

TEST(BankConflicts, LanesThatAreSwitchedOffDoNotCount) {
  EXPECT_EQ(conflicts_of("gfx942", kBytes8, "s_mov_b64 exec, 0xffff\nds_read_b32 v2, v1"), 0u);
}

// Lanes 4-7 and 0-3 of each row of 16 change places in every second row: in order that is no conflict, but a load of 16
// bytes on gfx9 serves lanes 0-3 and 20-23 at once.
TEST(BankConflicts, WideLoadsOfGfx9ServeOtherLanesAtOnce) {
  const std::string swapped = kBytes16 + "\nv_and_b32 v2, 16, v0\nv_lshlrev_b32 v2, 2, v2\nv_xor_b32 v1, v1, v2";
  EXPECT_EQ(conflicts_of("gfx942", swapped, "ds_read_b128 v[4:7], v1"), 8u);
  EXPECT_EQ(conflicts_of("gfx942", swapped, "ds_write_b128 v1, v[4:7]"), 0u);
  EXPECT_EQ(conflicts_of("gfx1100", swapped, "ds_load_b128 v[4:7], v1"), 0u);
}

}  // namespace
}  // namespace kiln::amdgcn_emulator
