// Batches, types and scales of the interpreter's products.
#include "interpreter_helpers.h"

namespace kiln::dsl::testing {
namespace {

using E = ElementType;
using Bits = std::vector<uint64_t>;

Elements of(E type, const std::vector<double>& values) {
  Elements out{type, {}};
  for (double value : values) out.bits.push_back(bits_from_double(type, value));
  return out;
}

TEST(InterpreterDot, OfABatch) {
  const Case one = run_text(R"(%a = reshape %x0 {shape = [2, 1, 2]} : tile<[2, 1, 2], f32>
%b = reshape %x1 {shape = [2, 2, 1]} : tile<[2, 2, 1], f32>
%c = reshape %x2 {shape = [2, 1, 1]} : tile<[2, 1, 1], f32>
%d = dot %a, %b, %c : tile<[2, 1, 1], f32>
%z = reshape %d {shape = [2]} : tile<[2], f32>)",
                            {f32s({1, 2, 3, 4}), f32s({5, 6, 7, 8}), f32s({0.5f, -1})}, E::kF32, 2);
  EXPECT_EQ(one.error, "");
  EXPECT_EQ(one.out.bits, f32s({17.5f, 52}).bits);
}

TEST(InterpreterDot, OfEveryOperandType) {
  for (E type : {E::kF16, E::kBF16, E::kF8E4M3, E::kF8E5M2, E::kF32, E::kF64}) {
    const E sum = type == E::kF64 ? E::kF64 : E::kF32;
    EXPECT_EQ(run_shaped("dot %x0, %x1, %x2", {of(type, {1, -2}), of(type, {3, 0.5}), of(sum, {10})},
                         {"1, 2", "2, 1", "1, 1"}, sum, "1, 1", 1)
                  .bits,
              of(sum, {12}).bits)
        << info(type).name;
  }
  EXPECT_EQ(run_shaped("dot %x0, %x1, %x2", {ints(E::kI8, {-1}), ints(E::kU8, {255}), ints(E::kI32, {1})},
                       {"1, 1", "1, 1", "1, 1"}, E::kI32, "1, 1", 1)
                .bits,
            ints(E::kI32, {-254}).bits);
}

TEST(InterpreterDot, TheEmulatedPrecisionsAreAsPreciseAsF32) {
  for (const char* precision : {"tf32x3", "bf16x3"}) {
    EXPECT_EQ(run_shaped(std::string("dot %x0, %x1, %x2 {precision = ") + precision + "}",
                         {f32s({1 + 0x1p-20f}), f32s({3}), f32s({0})}, {"1, 1", "1, 1", "1, 1"}, E::kF32, "1, 1", 1)
                  .bits,
              f32s({3 + 3 * 0x1p-20f}).bits);
  }
}

// [1, 64]·[64, 1] of ones (as bits of each operand) with two scales each.
float scaled(const Elements& a, const Elements& b, const std::vector<int64_t>& as, const std::vector<int64_t>& bs) {
  const std::string ka = std::to_string(a.bits.size()), kb = std::to_string(b.bits.size());
  const Elements out =
      run_shaped("dot_scaled %x0, %x1, %x2, %x3, %x4", {a, ints(E::kU8, as), b, ints(E::kU8, bs), f32s({0.5f})},
                 {"1, " + ka, "1, 2", kb + ", 1", "1, 2", "1, 1"}, E::kF32, "1, 1", 1);
  return float_of(out.bits[0]);
}

TEST(InterpreterDotScaled, ScalesArePowersOfTwoPer32AlongK) {
  const Elements e4m3 = of(E::kF8E4M3, std::vector<double>(64, 1)), e5m2 = of(E::kF8E5M2, std::vector<double>(64, 2));
  EXPECT_EQ(scaled(e4m3, e5m2, {127, 127}, {127, 127}), 128.5f);
  EXPECT_EQ(scaled(e4m3, e5m2, {128, 127}, {127, 126}), 128 + 32 + 0.5f);
  EXPECT_EQ(scaled(e4m3, e5m2, {0, 0}, {254, 254}), 128.5f);
  EXPECT_TRUE(std::isnan(scaled(e4m3, e5m2, {255, 127}, {127, 127})));
}

TEST(InterpreterDotScaled, E2m1ArePackedLowHalfFirst) {
  Elements a = ints(E::kU8, std::vector<int64_t>(32, 0));
  a.bits[0] = 0x72;   // 1, 6
  a.bits[31] = 0x9f;  // -6, -0.5
  std::vector<double> b(64);
  b[0] = 1, b[1] = 10, b[62] = 100, b[63] = 2;
  EXPECT_EQ(scaled(a, of(E::kF8E5M2, {b}), {127, 127}, {127, 127}),
            0.5f + 1 + 60 - 6 * 96 - 1);  // e5m2 has 96, not 100
}

}  // namespace
}  // namespace kiln::dsl::testing
