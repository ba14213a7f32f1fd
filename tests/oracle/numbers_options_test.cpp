// The kernel options that change numbers: contract and fuse_precision, where they act and where they must not.
#include "numbers.h"

namespace kiln::oracle {
namespace {

// With a = 1 + 2^-12, a·a = 1 + 2^-11 + 2^-24 is a tie of f32 and rounds to 1 + 2^-11. So a·a - (1 + 2^-11) is 0 after
// two roundings and 2^-24 after one. The same of f64 with 2^-27, 2^-26 and 2^-54.
struct Numbers {
  Type type;
  Bits a, c, minus_a, lost;  // c = -(a·a rounded), lost = a·a + c
};
const Numbers kF32 = {Type::kF32, from_float(1 + 0x1p-12f), from_float(-(1 + 0x1p-11f)), from_float(-(1 + 0x1p-12f)),
                      from_float(0x1p-24f)};
const Numbers kF64 = {Type::kF64, from_double(1 + 0x1p-27), from_double(-(1 + 0x1p-26)), from_double(-(1 + 0x1p-27)),
                      from_double(0x1p-54)};

// %x0 is a, %x1 is c, %x2 is -a.
Bits of(const Numbers& n, const std::string& lines, const std::string& header = "") {
  return run_lines(lines, {n.type, n.type, n.type}, {{n.a}, {n.c}, {n.minus_a}}, n.type, header).at(0);
}

TEST(NumbersContract, AProductThatIsOnlyAddedBecomesFma) {
  for (const Numbers& n : {kF32, kF64}) {
    EXPECT_EQ(of(n, "%p = mul %x0, %x0\n%z = add %p, %x1"), n.lost);
    EXPECT_EQ(of(n, "%p = mul %x0, %x0\n%z = add %x1, %p"), n.lost);
    EXPECT_EQ(of(n, "%p = mul %x0, %x0\n%z = add %p, %x1", "option contract = true\n"), n.lost);
  }
}

TEST(NumbersContract, OffItIsTwoRoundings) {
  for (const Numbers& n : {kF32, kF64}) {
    EXPECT_EQ(of(n, "%p = mul %x0, %x0\n%z = add %p, %x1", "option contract = false\n"), 0u);
  }
}

TEST(NumbersContract, OfTwoProductsTheLeftIsFused) {
  for (const Numbers& n : {kF32, kF64}) {
    const Bits sign = Bits{1} << (reference::width(n.type) - 1);
    EXPECT_EQ(of(n, "%p = mul %x0, %x0\n%q = mul %x0, %x2\n%z = add %p, %q"), n.lost);
    EXPECT_EQ(of(n, "%p = mul %x0, %x0\n%q = mul %x0, %x2\n%z = add %q, %p"), n.lost | sign);
  }
}

TEST(NumbersContract, NothingElseIsContracted) {
  for (const Numbers& n : {kF32, kF64}) {
    EXPECT_EQ(of(n, "%p = mul %x0, %x0\n%c = neg %x1\n%z = sub %p, %c"), 0u) << "sub";
    // Two uses of the product: by another op, and by the same add.
    EXPECT_EQ(of(n, "%p = mul %x0, %x0\n%s = add %p, %x1\n%m = min %p, %s\n%z = max %m, %s"), 0u) << "two users";
    EXPECT_EQ(of(n, "%p = mul %x0, %x0\n%d = add %p, %p\n%c = add %x1, %x1\n%z = add %d, %c"), 0u) << "used twice";
    EXPECT_EQ(of(n, "%p = mul %x0, %x0\n%q = neg %p\n%c = neg %x1\n%z = add %q, %c"), 0u) << "behind a neg";
  }
}

TEST(NumbersContract, AProductOfAnotherRegionStays) {
  const std::string text =
      "kernel k(%a: f32, %c: f32, %flag: i1, %out: ptr<f32>) {\n"
      "%p = mul %a, %a\n"
      "%z = if %flag : f32 {\n%s = add %p, %c\nyield %s\n} else {\nyield %c\n}\n"
      "store %out, %z\n}\n";
  const std::vector<Buffer> done = run(
      text, {{Type::kF32, {kF32.a}, true}, {Type::kF32, {kF32.c}, true}, {Type::kI1, {1}, true}, {Type::kF32, {77}}});
  EXPECT_EQ(done.back().elements.at(0), 0u);
}

TEST(NumbersContract, SmallTypesAndExplicitFmaAreAsWritten) {
  // f16: a = 1 + 2^-6, a·a = 1 + 2^-5 + 2^-12 rounds to 1 + 2^-5.
  const Bits a = 0x3c10, c = 0xbc20;
  EXPECT_EQ(run_lines("%p = mul %x0, %x0\n%z = add %p, %x1", {Type::kF16, Type::kF16}, {{a}, {c}}, Type::kF16).at(0),
            0u);
  EXPECT_EQ(run_lines("%z = fma %x0, %x0, %x1", {Type::kF16, Type::kF16}, {{a}, {c}}, Type::kF16).at(0), 0x0c00u);
}

const std::string kFuse = "option fuse_precision = true\n";

TEST(NumbersFusePrecision, ChainsRunInF32AndRoundWhereTheyEnd) {
  struct Case {
    Type type;
    Bits one, half_step, next;  // 1, half the step above 1, 1 and a step
  };
  for (const Case& c : {Case{Type::kF16, 0x3c00, 0x1000, 0x3c01}, Case{Type::kBF16, 0x3f80, 0x3b80, 0x3f81},
                        Case{Type::kF8E4M3, 0x38, 0x18, 0x39}, Case{Type::kF8E5M2, 0x3c, 0x30, 0x3d}}) {
    const std::string lines = "%s = add %x0, %x1\n%z = add %s, %x1";
    EXPECT_EQ(run_lines(lines, {c.type, c.type}, {{c.one}, {c.half_step}}, c.type).at(0), c.one) << type_name(c.type);
    EXPECT_EQ(run_lines(lines, {c.type, c.type}, {{c.one}, {c.half_step}}, c.type, kFuse).at(0), c.next)
        << type_name(c.type);
  }
}

TEST(NumbersFusePrecision, TheMiddleOfAChainNeitherOverflowsNorSaturates) {
  const std::string lines = "%s = add %x0, %x0\n%n = neg %x0\n%z = add %s, %n";
  EXPECT_EQ(run_lines(lines, {Type::kF16}, {{0x7bff}}, Type::kF16).at(0), 0x7c00u);
  EXPECT_EQ(run_lines(lines, {Type::kF16}, {{0x7bff}}, Type::kF16, kFuse).at(0), 0x7bffu);
  EXPECT_EQ(run_lines(lines, {Type::kF8E4M3}, {{0x7e}}, Type::kF8E4M3).at(0), 0u);
  EXPECT_EQ(run_lines(lines, {Type::kF8E4M3}, {{0x7e}}, Type::kF8E4M3, kFuse).at(0), 0x7eu);
}

TEST(NumbersFusePrecision, ExplicitCastsStillRound) {
  // In the chain: 1 + 2^-11 + 2^-13 becomes 1 + 2^-10 of f16, and less 1 it is 2^-10.
  EXPECT_EQ(run_lines("%h = cast %x0 {to = f16}\n%z = add %h, %x1", {Type::kF32, Type::kF16},
                      {{from_float(1 + 0x1p-11f + 0x1p-13f)}, {0xbc00}}, Type::kF16, kFuse)
                .at(0),
            0x1400u);
  // At its end: the f16 value of 1 + 2^-11 is 1, whatever it is widened to.
  EXPECT_EQ(run_lines("%s = add %x0, %x1\n%z = cast %s {to = f32}", {Type::kF16, Type::kF16}, {{0x3c00}, {0x1000}},
                      Type::kF32, kFuse)
                .at(0),
            from_float(1));
}

TEST(NumbersFusePrecision, F32AndF64AreAsEver) {
  EXPECT_EQ(of(kF32, "%p = mul %x0, %x0\n%z = add %p, %x1", kFuse + "option contract = false\n"), 0u);
  EXPECT_EQ(of(kF64, "%p = mul %x0, %x0\n%z = add %p, %x1", kFuse + "option contract = false\n"), 0u);
}

}  // namespace
}  // namespace kiln::oracle
