// The tables of matrix instructions against the formulas of the manuals, written as they stand there: element i of a
// lane.
#include "gpu/layout/fragments.h"

#include <gtest/gtest.h>

#include <functional>

#include "gpu/layout/algebra.h"

namespace kiln::codegen::gpu {
namespace {

struct Place {
  int64_t row, column;
};
using Formula = std::function<Place(int64_t lane, int64_t i)>;

void expect_formula(const Layout& layout, int lanes, int64_t elements, const Formula& formula) {
  ASSERT_EQ(layout.size(Dim::kLane), lanes);
  ASSERT_EQ(layout.size(Dim::kRegister), elements);
  EXPECT_TRUE(layout.surjective());
  for (int64_t lane = 0; lane < lanes; ++lane) {
    for (int64_t i = 0; i < elements; ++i) {
      const Place place = formula(lane, i);
      EXPECT_EQ(layout.coordinates(layout.at({.reg = static_cast<Bits>(i), .lane = static_cast<Bits>(lane)})),
                (std::vector<int64_t>{place.row, place.column}))
          << "lane " << lane << ", element " << i;
    }
  }
}

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"; groupID is lane / 4.
TEST(Fragments, MmaOf16Bits) {
  expect_formula(mma_a(16), 32, 8, [](int64_t lane, int64_t i) {
    const bool upper = i < 2 || (i >= 4 && i < 6);
    return Place{upper ? lane / 4 : lane / 4 + 8, lane % 4 * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
  });
  expect_formula(mma_b(16), 32, 4,
                 [](int64_t lane, int64_t i) { return Place{lane % 4 * 2 + (i & 1) + (i >= 2 ? 8 : 0), lane / 4}; });
  expect_formula(mma_accumulator(), 32, 4, [](int64_t lane, int64_t i) {
    return Place{i < 2 ? lane / 4 : lane / 4 + 8, lane % 4 * 2 + (i & 1)};
  });
}

// "Matrix Fragments for mma.m16n8k32" of 8 bits.
TEST(Fragments, MmaOf8Bits) {
  expect_formula(mma_a(8), 32, 16, [](int64_t lane, int64_t i) {
    const bool upper = i < 4 || (i >= 8 && i < 12);
    return Place{upper ? lane / 4 : lane / 4 + 8, lane % 4 * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
  });
  expect_formula(mma_b(8), 32, 8,
                 [](int64_t lane, int64_t i) { return Place{lane % 4 * 4 + (i & 3) + (i >= 4 ? 16 : 0), lane / 4}; });
}

// "Matrix Fragments for mma.m16n8k8" of .tf32.
TEST(Fragments, MmaOfTf32) {
  expect_formula(mma_a(32), 32, 4, [](int64_t lane, int64_t i) {
    return Place{i == 0 || i == 2 ? lane / 4 : lane / 4 + 8, i < 2 ? lane % 4 : lane % 4 + 4};
  });
  expect_formula(mma_b(32), 32, 2,
                 [](int64_t lane, int64_t i) { return Place{i == 0 ? lane % 4 : lane % 4 + 4, lane / 4}; });
}

// "Matrix Fragments for mma.m8n8k4" of .f64.
TEST(Fragments, MmaOfF64) {
  expect_formula(mma_f64_a(), 32, 1, [](int64_t lane, int64_t) { return Place{lane / 4, lane % 4}; });
  expect_formula(mma_f64_b(), 32, 1, [](int64_t lane, int64_t) { return Place{lane % 4, lane / 4}; });
  expect_formula(mma_f64_accumulator(), 32, 2,
                 [](int64_t lane, int64_t i) { return Place{lane / 4, lane % 4 * 2 + i}; });
}

// PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16": d[i] of thread t of the warp group.
TEST(Fragments, WgmmaOfAWarpGroup) {
  for (int n : {8, 64, 256}) {
    const Layout layout = wgmma_accumulator(n);
    ASSERT_EQ(layout.size(Dim::kRegister), n / 2);
    for (Bits thread = 0; thread < 128; ++thread) {
      for (Bits i = 0; i < static_cast<Bits>(n / 2); ++i) {
        const Bits row = thread / 32 * 16 + thread % 32 / 4 + 8 * (i / 2 % 2),
                   column = 8 * (i / 4) + thread % 4 * 2 + i % 2;
        EXPECT_EQ(layout.at({.reg = i, .lane = thread % 32, .warp = thread / 32}), row * static_cast<Bits>(n) + column);
      }
    }
  }
  for (Bits thread = 0; thread < 128; ++thread) {
    for (Bits i = 0; i < 8; ++i) {
      const Bits row = thread / 32 * 16 + thread % 32 / 4 + 8 * (i / 2 % 2),
                 column = 8 * (i / 4) + thread % 4 * 2 + i % 2;
      EXPECT_EQ(wgmma_a(16).at({.reg = i, .lane = thread % 32, .warp = thread / 32}), row * 16 + column);
    }
  }
}

// The next product's A is the accumulator in place, sixteen columns at a time.
TEST(Fragments, WgmmaAccumulatorIsMadeOfOperandsA) {
  const std::optional<Layout> rest = divide(wgmma_accumulator(128), wgmma_a(16));
  ASSERT_TRUE(rest);
  EXPECT_EQ(to_string(*rest), "[1, 8]: register=[(0,1), (0,2), (0,4)]");
}

// AMD's matrix instruction calculator: "Register to matrix element mapping".
TEST(Fragments, Mfma) {
  struct Case {
    int m, k;  // v_mfma_f32_32x32x8_f16, 16x16x16_bf16, 16x16x32_fp8, i32_32x32x16_i8, 16x16x4_f32, 32x32x2_f32, xf32
  };
  for (const Case& c : {Case{32, 8}, {16, 16}, {16, 32}, {32, 16}, {16, 4}, {32, 2}, {16, 8}, {32, 4}}) {
    const int64_t m = c.m, per_lane = m * c.k / 64;
    expect_formula(mfma_a(c.m, c.k), 64, per_lane,
                   [&](int64_t lane, int64_t i) { return Place{lane % m, per_lane * (lane / m) + i}; });
    expect_formula(mfma_b(c.m, c.k), 64, per_lane,
                   [&](int64_t lane, int64_t i) { return Place{per_lane * (lane / m) + i, lane % m}; });
  }
  expect_formula(mfma_accumulator(16), 64, 4,
                 [](int64_t lane, int64_t i) { return Place{4 * (lane / 16) + i % 4, lane % 16}; });
  expect_formula(mfma_accumulator(32), 64, 16,
                 [](int64_t lane, int64_t i) { return Place{8 * (i / 4) % 32 + 4 * (lane / 32) + i % 4, lane % 32}; });
  expect_formula(mfma_f64_accumulator(), 64, 4,
                 [](int64_t lane, int64_t i) { return Place{4 * i + lane / 16, lane % 16}; });
}

// RDNA3: operands in each sixteen lanes; rows of the accumulator alternate between them.
TEST(Fragments, WmmaOfGfx11) {
  for (int lanes : {32, 64}) {
    expect_formula(wmma_gfx11_a(lanes), lanes, 16, [](int64_t lane, int64_t i) { return Place{lane % 16, i}; });
    expect_formula(wmma_gfx11_b(lanes), lanes, 16, [](int64_t lane, int64_t i) { return Place{i, lane % 16}; });
    expect_formula(wmma_gfx11_accumulator(lanes), lanes, 256 / lanes,
                   [&](int64_t lane, int64_t i) { return Place{lanes / 16 * i + lane / 16, lane % 16}; });
  }
  EXPECT_EQ(wmma_gfx11_a(32).free_mask(Dim::kLane), Bits{16});
}

// RDNA4, 32 lanes: a register has two elements of 16 bits, or four of 8.
TEST(Fragments, WmmaOfGfx12) {
  const auto k16 = [](int64_t lane, int64_t i) {
    const int64_t reg = i / 2, half = i % 2;
    return 8 * (reg / 2) + 4 * (lane / 16) + 2 * (reg % 2) + half;
  };
  expect_formula(wmma_gfx12_a(16), 32, 8, [&](int64_t lane, int64_t i) { return Place{lane % 16, k16(lane, i)}; });
  expect_formula(wmma_gfx12_b(16), 32, 8, [&](int64_t lane, int64_t i) { return Place{k16(lane, i), lane % 16}; });
  const auto k8 = [](int64_t lane, int64_t i) { return 8 * (lane / 16) + 4 * (i / 4) + i % 4; };
  expect_formula(wmma_gfx12_a(8), 32, 8, [&](int64_t lane, int64_t i) { return Place{lane % 16, k8(lane, i)}; });
  expect_formula(wmma_gfx12_b(8), 32, 8, [&](int64_t lane, int64_t i) { return Place{k8(lane, i), lane % 16}; });
  expect_formula(wmma_gfx12_accumulator(), 32, 8,
                 [](int64_t lane, int64_t i) { return Place{8 * (lane / 16) + i, lane % 16}; });
}

}  // namespace
}  // namespace kiln::codegen::gpu
