// Dots by hand, against identities, and MX operands against their published tables.
#include "reference/dot.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/cast.h"
#include "reference/inputs.h"
#include "reference/ints.h"
#include "reference/microscaling.h"

namespace kiln::reference {
namespace {

using Reals = Array<long double>;
constexpr long double kInf = INFINITY;

TEST(ReferenceDot, SmallMatrices) {
  const Reals a{{2, 3}, {1, 2, 3, 4, 5, 6}}, b{{3, 2}, {7, 8, 9, 10, 11, 12}};
  EXPECT_EQ(dot(a, b), (Reals{{2, 2}, {58, 64, 139, 154}}));
  EXPECT_EQ(dot(a, b, {{2, 2}, {1, 2, 3, 4}}), (Reals{{2, 2}, {59, 66, 142, 158}}));
  // Batches are independent.
  const Reals left = cat(expand_dims(a, 0), expand_dims(a, 0), 0),
              right = cat(expand_dims(b, 0), Reals{{1, 3, 2}, {0, 0, 0, 0, 1, 1}}, 0);
  EXPECT_EQ(dot(left, right), (Reals{{2, 2, 2}, {58, 64, 139, 154, 3, 3, 6, 6}}));
  EXPECT_EQ(dot(Reals{{1, 1}, {3}}, Reals{{1, 1}, {4}}), (Reals{{1, 1}, {12}}));
}

TEST(ReferenceDot, KeepsWhatCancels) {
  // Products of f64 with 106 bits, all but the last of which cancel.
  const long double x = 1 + 0x1p-52L;
  EXPECT_EQ(dot(Reals{{1, 2}, {x, -1}}, Reals{{2, 1}, {x, 1 + 0x1p-51L}}).data[0], 0x1p-104L);
  EXPECT_EQ(dot(Reals{{1, 3}, {1e30L, 1, -1e30L}}, Reals{{3, 1}, {1, 0.5L, 1}}).data[0], 0.5L);
  EXPECT_TRUE(std::isnan(dot(Reals{{1, 2}, {kInf, kInf}}, Reals{{2, 1}, {1, -1}}).data[0]));
  EXPECT_EQ(dot(Reals{{1, 1}, {kInf}}, Reals{{1, 1}, {-2}}).data[0], -kInf);
}

TEST(ReferenceDot, IntsWrapAtTheEnd) {
  EXPECT_EQ(dot_int({{1, 2}, {-128, 127}}, {{2, 1}, {255, 255}}).data[0], -255);
  EXPECT_EQ(dot_int({{1, 1}, {1}}, {{1, 1}, {1}}, {{1, 1}, {INT32_MAX}}).data[0], INT32_MIN);
  // Random i8 by u8 against 32-bit arithmetic.
  Array<int64_t> a{{5, 33}, {}}, b{{33, 7}, {}};
  for (const Bits bits : random_elements(Type::kI8, 5 * 33, 1)) a.data.push_back(static_cast<int8_t>(bits));
  for (const Bits bits : random_elements(Type::kU8, 33 * 7, 2)) b.data.push_back(static_cast<uint8_t>(bits));
  const Array<int32_t> c = dot_int(a, b);
  for (size_t m = 0; m < 5; ++m) {
    for (size_t n = 0; n < 7; ++n) {
      int32_t sum = 0;
      for (size_t k = 0; k < 33; ++k) sum += static_cast<int32_t>(a.data[m * 33 + k] * b.data[k * 7 + n]);
      EXPECT_EQ(c.data[m * 7 + n], sum);
    }
  }
}

TEST(ReferenceMicroscaling, ScalesAndE2M1) {
  EXPECT_EQ(e8m0(127), 1);
  EXPECT_EQ(e8m0(0), 0x1p-127L);
  EXPECT_EQ(e8m0(254), 0x1p127L);
  EXPECT_TRUE(std::isnan(e8m0(255)));
  const long double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (uint8_t code = 0; code < 8; ++code) {
    EXPECT_EQ(e2m1(code), values[code]);
    EXPECT_EQ(e2m1(code | 8), -values[code]);
    EXPECT_TRUE(std::signbit(e2m1(code | 8)));
    EXPECT_EQ(to_e2m1(values[code]), code);
    EXPECT_EQ(to_e2m1(-values[code]), code | 8);
  }
  // Ties go to even codes: 0.25 to 0, 0.75 to 1, 1.25 to 1, 2.5 to 2, 3.5 to 4, 5 to 4.
  const long double ties[][2] = {{0.25, 0}, {0.75, 1}, {1.25, 1}, {1.75, 2}, {2.5, 2}, {3.5, 4}, {5, 4}};
  for (const auto& [tie, rounded] : ties) EXPECT_EQ(e2m1(to_e2m1(tie)), rounded);
  EXPECT_EQ(to_e2m1(5.01L), 7);
  EXPECT_EQ(to_e2m1(-1e30L), 0xf);
  EXPECT_EQ(to_e2m1(kInf), 7);
}

TEST(ReferenceMicroscaling, UnpacksLowNibbleFirstAndScalesBlocksOf32) {
  // One row of K = 64: bytes 0x21 are 0.5, 1; the second block has scale 4.
  const Array<uint8_t> values{{1, 32}, std::vector<uint8_t>(32, 0x21)};
  const Reals row = unpack_scaled(Microscale::kE2M1, values, {{1, 2}, {126, 129}}, 1);
  EXPECT_EQ(row.shape, (Shape{1, 64}));
  EXPECT_EQ(row.data[0], 0.25L);
  EXPECT_EQ(row.data[1], 0.5L);
  EXPECT_EQ(row.data[31], 0.5L);
  EXPECT_EQ(row.data[32], 2);
  EXPECT_EQ(row.data[63], 4);
  // Along the first axis, as a right operand has K; a last block may be short.
  const Array<uint8_t> column{{40, 1}, std::vector<uint8_t>(40, 0x38)};
  const Reals scaled = unpack_scaled(Microscale::kE4M3, column, {{2, 1}, {128, 0xff}}, 0);
  EXPECT_EQ(scaled.data[31], 2);
  EXPECT_TRUE(std::isnan(scaled.data[32]));
  EXPECT_EQ(unpack_scaled(Microscale::kE5M2, {{1, 1}, {0x7b}}, {{1, 1}, {127}}, 1).data[0], 57344);
}

TEST(ReferenceMicroscaling, DotScaled) {
  const Array<uint8_t> a{{2, 32}, std::vector<uint8_t>(64, 0x22)};  // ones, K = 64
  const Array<uint8_t> b{{64, 1}, std::vector<uint8_t>(64, 0x40)};  // 2 of e4m3
  const Reals left = unpack_scaled(Microscale::kE2M1, a, {{2, 2}, {127, 128, 127, 0xff}}, 1);
  const Reals right = unpack_scaled(Microscale::kE4M3, b, {{2, 1}, {127, 130}}, 0);
  const Reals c = dot(left, right);
  EXPECT_EQ(c.data[0], 32 * 2 + 32 * 2 * 16);
  EXPECT_TRUE(std::isnan(c.data[1]));
  // A NaN scale reaches the result through zeros as well.
  const Array<uint8_t> zeros{{1, 16}, std::vector<uint8_t>(16, 0)};
  EXPECT_TRUE(std::isnan(unpack_scaled(Microscale::kE2M1, zeros, {{1, 1}, {0xff}}, 1).data[7]));
}

}  // namespace
}  // namespace kiln::reference
