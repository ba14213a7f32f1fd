// Where single elements of matrix instructions stand: positions read off the figures and tables of AMD's CDNA3 and
// RDNA3 and RDNA4 ISA guides and worked out with AMD's matrix instruction calculator, one by one, with no formula
// between.
#include "lanes.h"

namespace kiln::amdgcn_emulator {
namespace {

struct Element {
  const char* processor;
  const char* instruction;
  unsigned a_lane, b_lane;        // that alone hold a 1 at k = 0
  unsigned register_index, lane;  // of the only element of the result that is not 0
  uint32_t one = 0x3f800000;      // in the low bits of the factors' first registers
  uint32_t result = 0x3f800000;
};

// The names of the operands stand in for those of the instruction.
std::string with_operands(const Element& e, unsigned results, unsigned factors) {
  const auto range = [](unsigned first, unsigned count) {
    return count == 1 ? "v" + std::to_string(first)
                      : "v[" + std::to_string(first) + ":" + std::to_string(first + count - 1) + "]";
  };
  return std::string(e.instruction) + " " + range(32, results) + ", " + range(22, factors) + ", " + range(64, factors) +
         ", " + range(32, results);
}

// The results' registers from v32 on, eight at a time.
void expect_place(const Element& e, unsigned results, unsigned factors) {
  SCOPED_TRACE(std::string(e.processor) + " " + e.instruction + " lanes " + std::to_string(e.a_lane) + ", " +
               std::to_string(e.b_lane));
  std::vector<LaneInput> inputs(lanes_of(e.processor));
  inputs[e.a_lane][0] = e.one;
  inputs[e.b_lane][1] = e.one;
  std::string text;
  for (unsigned i = 0; i < factors; ++i)
    text += "v_mov_b32 v" + std::to_string(22 + i) + ", " + (i ? "0" : "v2") + "\nv_mov_b32 v" +
            std::to_string(64 + i) + ", " + (i ? "0" : "v3") + "\n";
  for (unsigned i = 0; i < results; ++i) text += "v_mov_b32 v" + std::to_string(32 + i) + ", 0\n";
  text += with_operands(e, results, factors) + "\n";
  for (unsigned first = 0; first < results; first += 8) {
    std::string moved = text;
    for (unsigned i = 0; i < 8; ++i)
      moved += "v_mov_b32 v" + std::to_string(10 + i) + ", " +
               (first + i < results ? "v" + std::to_string(32 + first + i) : "0") + "\n";
    const auto out = run_lanes(e.processor, moved, inputs);
    for (unsigned i = 0; i < 8; ++i)
      for (unsigned lane = 0; lane < out.size(); ++lane)
        EXPECT_EQ(out[lane][i], first + i == e.register_index && lane == e.lane ? e.result : 0)
            << "register " << first + i << " lane " << lane;
  }
}

constexpr uint32_t kHalfOne = 0x3c00, kBrainOne = 0x3f80, kF64One = 0x3ff00000;

TEST(MatrixPlaces, Of32Rows) {
  const char* one_block = "v_mfma_f32_32x32x2_f32";
  // Rows 0, 4, 8, 19, 31 of columns 0, 0, 5, 17, 31.
  expect_place({"gfx942", one_block, 0, 0, 0, 0}, 16, 1);
  expect_place({"gfx942", one_block, 4, 0, 0, 32}, 16, 1);
  expect_place({"gfx942", one_block, 8, 5, 4, 5}, 16, 1);
  expect_place({"gfx942", one_block, 19, 17, 11, 17}, 16, 1);
  expect_place({"gfx942", one_block, 31, 31, 15, 63}, 16, 1);
  // The second of two blocks: row 5, column 3.
  expect_place({"gfx942", "v_mfma_f32_32x32x1_2b_f32", 37, 35, 17, 35}, 32, 1);
  expect_place({"gfx942", "v_mfma_f32_32x32x8_f16", 12, 7, 4, 39, kHalfOne}, 16, 2);
}

TEST(MatrixPlaces, Of16Rows) {
  // Rows 3, 4, 15 of columns 2, 0, 15.
  expect_place({"gfx942", "v_mfma_f32_16x16x4_f32", 3, 2, 3, 2}, 4, 1);
  expect_place({"gfx942", "v_mfma_f32_16x16x4_f32", 4, 0, 0, 16}, 4, 1);
  expect_place({"gfx942", "v_mfma_f32_16x16x16_bf16", 15, 15, 3, 63, kBrainOne}, 4, 2);
  expect_place({"gfx942", "v_mfma_i32_16x16x32_i8", 9, 6, 1, 38, 1, 1}, 4, 2);
  // The last of four blocks: row 6, column 1.
  expect_place({"gfx942", "v_mfma_f32_16x16x1_4b_f32", 54, 49, 14, 17}, 16, 1);
}

TEST(MatrixPlaces, Of4Rows) {
  // Block 5: row 2, column 3.
  expect_place({"gfx942", "v_mfma_f32_4x4x1_16b_f32", 22, 23, 2, 23}, 4, 1);
}

TEST(MatrixPlaces, OfWavesOf32) {
  // gfx11: lane i % 2 * 16 + j, register i / 2; the other copies of A's rows and of B's columns do not matter here.
  expect_place({"gfx1100", "v_wmma_f32_16x16x16_f16", 0, 0, 0, 0, kHalfOne}, 8, 8);
  expect_place({"gfx1100", "v_wmma_f32_16x16x16_f16", 10, 3, 5, 3, kHalfOne}, 8, 8);
  expect_place({"gfx1100", "v_wmma_f32_16x16x16_bf16", 23, 19, 3, 19, kBrainOne}, 8, 8);
  // gfx12: register i % 8, lane i / 8 * 16 + j.
  expect_place({"gfx1200", "v_wmma_f32_16x16x16_f16", 7, 3, 7, 3, kHalfOne}, 8, 4);
  expect_place({"gfx1200", "v_wmma_f32_16x16x16_bf16", 8, 3, 0, 19, kBrainOne}, 8, 4);
  // gfx1250: the same, of longer rows, which two lanes share.
  expect_place({"gfx1250", "v_wmma_f32_16x16x32_f16", 7, 3, 7, 3, kHalfOne}, 8, 8);
  expect_place({"gfx1250", "v_wmma_f32_16x16x32_bf16", 24, 19, 0, 19, kBrainOne}, 8, 8);
  expect_place({"gfx1250", "v_wmma_f32_16x16x4_f32", 9, 14, 1, 30}, 8, 2);
  expect_place({"gfx1250", "v_wmma_i32_16x16x64_iu8", 18, 16, 2, 0, 1, 1}, 8, 8);
}

// v_smfmac: two of each four values of k, which the bits of a third source name; abid chooses among sets of these.
TEST(SparseMatrices, TakeValuesWhereTheIndicesSay) {
  // A holds 1, 2, 4, 8 at places 1, 3 of the first four and 0, 2 of the next; B[k][j] is k.
  std::vector<LaneInput> inputs(64);
  const uint32_t halves[] = {0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800, 0x4880, 0x4900,
                             0x4980, 0x4a00, 0x4a80, 0x4b00, 0x4b80, 0x4c00, 0x4c40, 0x4c80, 0x4cc0, 0x4d00, 0x4d40,
                             0x4d80, 0x4dc0, 0x4e00, 0x4e40, 0x4e80, 0x4ec0, 0x4f00, 0x4f40, 0x4f80, 0x4fc0};
  for (unsigned lane = 0; lane < 64; ++lane)
    for (unsigned i = 0; i < 4; ++i)
      inputs[lane][i] = halves[lane / 16 * 8 + 2 * i] | halves[lane / 16 * 8 + 2 * i + 1] << 16;
  const std::string setup =
      "v_mov_b32 v6, 0x40003c00\nv_mov_b32 v7, 0x48004400\nv_mov_b32 v8, 0x8d00\n"
      "v_mov_b32 v10, 0.5\nv_mov_b32 v11, 0.5\nv_mov_b32 v12, 0.5\nv_mov_b32 v13, 0.5\n";
  const auto out = run_lanes("gfx942", setup + "v_smfmac_f32_16x16x32_f16 v[10:13], v[6:7], v[2:5], v8 abid:1", inputs);
  // Four groups of lanes g with 8 values of k each: (8g + 1) + 2 (8g + 3) + 4 (8g + 4) + 8 (8g + 6).
  for (unsigned lane = 0; lane < 64; ++lane)
    for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(float_of(out[lane][i]), 1004.5f) << lane;
}

TEST(SparseMatrices, TakeBytes) {
  // A holds ones at places (0, 1), (1, 2), (2, 3), (0, 3) of four groups of four; B[k][j] is k.
  std::vector<LaneInput> inputs(64);
  for (unsigned lane = 0; lane < 64; ++lane)
    for (unsigned byte = 0; byte < 16; ++byte) inputs[lane][byte / 4] |= (lane / 16 * 16 + byte) << (8 * (byte % 4));
  const std::string setup =
      "v_mov_b32 v6, 0x01010101\nv_mov_b32 v7, v6\nv_mov_b32 v8, 0xce94\n"
      "v_mov_b32 v10, 1\nv_mov_b32 v11, 1\nv_mov_b32 v12, 1\nv_mov_b32 v13, 1\n";
  const auto out = run_lanes("gfx942", setup + "v_smfmac_i32_16x16x64_i8 v[10:13], v[6:7], v[2:5], v8", inputs);
  for (unsigned lane = 0; lane < 64; ++lane) EXPECT_EQ(out[lane][2], 4 * 60 + 128 * 6 + 1u);
}

// f64 elements take two registers; the 1 of a factor stands in its upper half.
TEST(MatrixPlaces, OfF64) {
  std::vector<LaneInput> inputs(64);
  // Row 6, column 9 of 16x16x4 stand in element 1 of lane 9 + 16 * 2.
  inputs[6][0] = inputs[9][1] = kF64One;
  std::string text = "v_mov_b32 v22, 0\nv_mov_b32 v23, v2\nv_mov_b32 v64, 0\nv_mov_b32 v65, v3\n";
  for (unsigned i = 10; i < 18; ++i) text += "v_mov_b32 v" + std::to_string(i) + ", 0\n";
  const auto out = run_lanes("gfx942", text + "v_mfma_f64_16x16x4_f64 v[10:17], v[22:23], v[64:65], v[10:17]", inputs);
  for (unsigned lane = 0; lane < 64; ++lane)
    for (unsigned i = 0; i < 8; ++i) EXPECT_EQ(out[lane][i], lane == 41 && i == 3 ? kF64One : 0) << lane << " " << i;
}

}  // namespace
}  // namespace kiln::amdgcn_emulator
