// Stochastic rounding and casts that do not saturate.
#include "interpreter_helpers.h"

namespace kiln::dsl::testing {
namespace {

using E = ElementType;
using Bits = std::vector<uint64_t>;

std::string to(E type) { return std::string(info(type).name); }

double stochastic(E type, float x, uint32_t word) {
  const Case one =
      run_text("%z = cast %x0, %x1 {to = " + to(type) + ", rounding = stochastic} : tile<[1], " + to(type) + ">",
               {f32s({x}), {E::kU32, {word}}}, type, 1);
  EXPECT_EQ(one.error, "");
  return double_from_bits(type, one.out.bits[0]);
}

TEST(InterpreterStochastic, AddsTheWordsPartOfAStepAndTakesWholeSteps) {
  const float quarter = 1 + 0x1p-9f;  // a quarter of bf16's step 2^-7 above 1
  EXPECT_EQ(stochastic(E::kBF16, quarter, 0), 1.0);
  EXPECT_EQ(stochastic(E::kBF16, quarter, 0xbfffffffu), 1.0);
  EXPECT_EQ(stochastic(E::kBF16, quarter, 0xc0000000u), 1 + 0x1p-7);
  EXPECT_EQ(stochastic(E::kBF16, -quarter, 0xc0000000u), -(1 + 0x1p-7));
  EXPECT_EQ(stochastic(E::kBF16, 1, 0xffffffffu), 1.0);  // what is exact stays
}

TEST(InterpreterStochastic, SubnormalsHaveTheSmallestStep) {
  EXPECT_EQ(stochastic(E::kF16, 0x1p-25f, 0x7fffffffu), 0.0);
  EXPECT_EQ(stochastic(E::kF16, 0x1p-25f, 0x80000000u), 0x1p-24);
  EXPECT_EQ(stochastic(E::kF16, -0x1p-140f, 0xffffffffu), 0.0);
  EXPECT_TRUE(std::signbit(stochastic(E::kF16, -0x1p-140f, 0xffffffffu)));
}

TEST(InterpreterStochastic, OverflowAndSpecialsAreAsWithNearest) {
  EXPECT_EQ(stochastic(E::kF16, 65535, 0), 65504.0);
  EXPECT_EQ(stochastic(E::kF16, 65535, 0xffffffffu), INFINITY);
  EXPECT_EQ(stochastic(E::kF8E4M3, 470, 0xffffffffu), 448.0);
  EXPECT_EQ(stochastic(E::kF8E5M2, INFINITY, 1), 57344.0);
  EXPECT_EQ(stochastic(E::kBF16, -INFINITY, 1), -INFINITY);
  EXPECT_TRUE(std::isnan(stochastic(E::kF16, NAN, 5)));
}

TEST(InterpreterCast, WithoutSaturationF8OverflowsToInfOrNan) {
  const Elements x = f32s({464, 465, -1e9f, INFINITY, NAN, 1});
  const Bits e4m3 = run_op("cast %x0 {to = f8e4m3, saturate = 0}", {x}, E::kF8E4M3).bits;
  EXPECT_EQ((Bits{e4m3[0], e4m3[1], e4m3[2], e4m3[3], e4m3[4], e4m3[5]}), (Bits{0x7e, 0x7f, 0xff, 0x7f, 0x7f, 0x38}));
  const Elements y = f32s({61439, 61440, -1e9f, INFINITY, 0x1p-17f});
  EXPECT_EQ(run_op("cast %x0 {to = f8e5m2, saturate = 0}", {y}, E::kF8E5M2).bits, (Bits{0x7b, 0x7c, 0xfc, 0x7c, 0}));
  EXPECT_EQ(run_op("cast %x0 {to = f8e5m2}", {y}, E::kF8E5M2).bits, (Bits{0x7b, 0x7b, 0xfb, 0x7b, 0}));
}

}  // namespace
}  // namespace kiln::dsl::testing
