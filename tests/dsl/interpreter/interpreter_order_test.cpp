// Reductions with regions, scans, sort, topk, histogram and philox of the interpreter.
#include "interpreter_helpers.h"

namespace kiln::dsl::testing {
namespace {

using E = ElementType;
using Bits = std::vector<uint64_t>;

const float kNan = std::nanf("");

Bits reduce(const Elements& x, const std::string& kind, E result) {
  return run_shaped("reduce %x0 {kind = " + kind + ", axis = 0}", {x}, {std::to_string(x.bits.size())}, result, "", 1)
      .bits;
}
Bits scan(const Elements& x, const std::string& attrs) {
  const std::string n = std::to_string(x.bits.size());
  return run_shaped("scan %x0 {axis = 0, kind = " + attrs + "}", {x}, {n}, x.type, n, x.bits.size()).bits;
}

TEST(InterpreterReduce, ArgTakesTheLowestIndexAndNanIsTheExtreme) {
  EXPECT_EQ(reduce(f32s({1, 3, 3, 2}), "argmax", E::kI32), (Bits{1}));
  EXPECT_EQ(reduce(f32s({2, 1, 1, 3}), "argmin", E::kI32), (Bits{1}));
  EXPECT_EQ(reduce(f32s({1, kNan, INFINITY, kNan}), "argmax", E::kI32), (Bits{1}));
  EXPECT_EQ(reduce(f32s({-INFINITY, 2, kNan}), "argmin", E::kI32), (Bits{2}));
  EXPECT_EQ(reduce(f32s({-0.0f, 0.0f}), "argmax", E::kI32), (Bits{0}));
  EXPECT_EQ(reduce(ints(E::kU8, {1, -1, 255}), "argmax", E::kI32), (Bits{1}));
}

TEST(InterpreterReduce, BitKinds) {
  EXPECT_EQ(reduce(ints(E::kI32, {12, 10, 14}), "and", E::kI32), (Bits{8}));
  EXPECT_EQ(reduce(ints(E::kI1, {0, 1, 0}), "or", E::kI1), (Bits{1}));
  EXPECT_EQ(reduce(ints(E::kI1, {1, 1, 1}), "xor", E::kI1), (Bits{1}));
  EXPECT_EQ(reduce(ints(E::kI1, {1, 0, 1}), "and", E::kI1), (Bits{0}));
}

// Composition of x → a·x + b: associative, and left and right differ.
constexpr const char* kCompose = R"( : KIND (%la, %lb, %ra, %rb) {
  %a = mul %la, %ra : i32
  %t = mul %ra, %lb : i32
  %b = add %t, %rb : i32
  yield %a, %b
})";
std::string compose(const std::string& type) {
  std::string text = kCompose;
  return text.replace(text.find("KIND"), 4, type + ", " + type);
}

TEST(InterpreterReduce, ARegionOfSeveralOperandsGoesFromLeftToRight) {
  const Elements a = ints(E::kI32, {2, 3, 5}), b = ints(E::kI32, {1, 10, 100});
  const Case one = run_text("%p, %z = reduce %x0, %x1 {kind = custom, axis = 0}" + compose("i32"), {a, b}, E::kI32, 0);
  EXPECT_EQ(one.error, "");
  EXPECT_EQ(one.out.bits, (Bits{5 * (3 * 1 + 10) + 100}));
}

TEST(InterpreterReduce, ARegionRunsForEveryLineAndMayUseOuterScalars) {
  const Case one = run_text(R"(%t = reshape %x0 {shape = [2, 3]} : tile<[2, 3], i32>
%seven = constant {value = 7, type = i32} : i32
%z = reduce %t {kind = custom, axis = 1} : tile<[2], i32> (%l, %r) {
  %two = constant {value = 2, type = i32} : i32
  %m = mul %two, %seven : i32
  %s = add %l, %r : i32
  %q = add %s, %m : i32
  yield %q
}
%again = add %seven, %seven : i32)",
                            {ints(E::kI32, {1, 2, 3, 4, 5, 6})}, E::kI32, 2);
  EXPECT_EQ(one.error, "");
  EXPECT_EQ(one.out.bits, (Bits{6 + 28, 15 + 28}));
}

TEST(InterpreterScan, IsInclusiveAndReverseBeginsAtTheEnd) {
  EXPECT_EQ(scan(ints(E::kI32, {1, 2, 3}), "sum"), (Bits{1, 3, 6}));
  EXPECT_EQ(scan(ints(E::kI32, {1, 2, 3}), "sum, reverse = 1"), (Bits{6, 5, 3}));
  EXPECT_EQ(scan(ints(E::kI32, {3, 1, 2}), "min"), (Bits{3, 1, 1}));
  EXPECT_EQ(scan(ints(E::kU8, {100, 100, 100}), "sum"), (Bits{100, 200, 44}));
  EXPECT_EQ(scan(ints(E::kI32, {12, 10}), "xor"), (Bits{12, 6}));
  EXPECT_EQ(scan(ints(E::kI32, {5}), "prod"), (Bits{5}));
  const Bits max = scan(f32s({1, kNan, 2}), "max");
  EXPECT_EQ(float_of(max[0]), 1);
  EXPECT_TRUE(std::isnan(float_of(max[1])) && std::isnan(float_of(max[2])));
  EXPECT_EQ(
      run_shaped("scan %x0 {kind = sum, axis = 0}", {ints(E::kI32, {1, 2, 3, 4})}, {"2, 2"}, E::kI32, "2, 2", 4).bits,
      (Bits{1, 2, 4, 6}));
}

TEST(InterpreterScan, TheRunningValueOfSmallFloatsIsF32) {
  Elements x{E::kF16, {bits_from_double(E::kF16, 2048)}};
  for (int i = 0; i < 4; ++i) x.bits.push_back(bits_from_double(E::kF16, 1));
  const Bits sums = scan(x, "sum");
  EXPECT_EQ(double_from_bits(E::kF16, sums[1]), 2048);  // 2049, rounded
  EXPECT_EQ(double_from_bits(E::kF16, sums[4]), 2052);
}

TEST(InterpreterScan, AReverseRegionHasTheAccumulatedValueOnTheLeft) {
  const Elements a = ints(E::kI32, {2, 3, 5}), b = ints(E::kI32, {1, 10, 100});
  auto run = [&](const std::string& attrs) {
    return run_text("%p, %z = scan %x0, %x1 {kind = custom, axis = 0" + attrs + "}" + compose("tile<[3], i32>"), {a, b},
                    E::kI32, 3);
  };
  EXPECT_EQ(run("").out.bits, (Bits{1, 3 * 1 + 10, 5 * 13 + 100}));
  const Case reverse = run(", reverse = 1");
  EXPECT_EQ(reverse.error, "");
  EXPECT_EQ(reverse.out.bits, (Bits{2 * (3 * 100 + 10) + 1, 3 * 100 + 10, 100}));
}

TEST(InterpreterSort, IsStableWithNanGreatestAndZerosEqual) {
  const Elements keys = f32s({kNan, 1, -0.0f, 0.0f, -kNan, -INFINITY}), numbers = ints(E::kI32, {0, 1, 2, 3, 4, 5});
  auto order = [&](const std::string& attrs) {
    return run_text("%k, %z = sort %x0, %x1 {axis = 0" + attrs + "} : tile<[6], f32>, tile<[6], i32>", {keys, numbers},
                    E::kI32, 6)
        .out.bits;
  };
  EXPECT_EQ(order(""), (Bits{5, 2, 3, 1, 0, 4}));
  EXPECT_EQ(order(", descending = 1"), (Bits{0, 4, 1, 2, 3, 5}));
  EXPECT_EQ(run_shaped("sort %x0 {axis = 0}", {ints(E::kI8, {3, -1, 2, 5})}, {"2, 2"}, E::kI8, "2, 2", 4).bits,
            ints(E::kI8, {2, -1, 3, 5}).bits);
}

TEST(InterpreterTopk, TiesGoToTheLowestIndexAndNanIsGreatest) {
  const Elements x = f32s({1, 3, kNan, 3, 1});
  auto indices = [&](const std::string& attrs) {
    return run_text("%v, %z = topk %x0 {k = 3, axis = 0" + attrs + "} : tile<[3], f32>, tile<[3], i32>", {x}, E::kI32,
                    3)
        .out.bits;
  };
  EXPECT_EQ(indices(""), (Bits{2, 1, 3}));
  EXPECT_EQ(indices(", largest = 0"), (Bits{0, 4, 1}));
}

TEST(InterpreterHistogram, IgnoresWhatIsOutOfRange) {
  EXPECT_EQ(run_shaped("histogram %x0 {bins = 3}", {ints(E::kI8, {0, 2, 2, 3, -1, 127})}, {"6"}, E::kI32, "3", 3).bits,
            (Bits{1, 0, 2}));
}

TEST(InterpreterPhilox, KnownAnswers) {
  const Elements seed{E::kU64, {0, 42, 42, 0xfcafeb0baULL, 0x299f31d0a4093822ULL}};
  const Elements offset{E::kU64, {0, 0, 1, 0, 0x85a308d3243f6a88ULL}};
  const uint64_t expected[4][5] = {{0x6627e8d5, 0x9ceaf053, 0xfcdb2127, 0xf219fb5b, 0xe69c9c31},
                                   {0xe169c58d, 0x77f5493b, 0x53ba6cfd, 0xbe9182a4, 0xb5a3d762},
                                   {0xbc57ac4c, 0x12bf50ad, 0x838f5a6e, 0xf573a172, 0xe733bfc1},
                                   {0x9b00dbd8, 0x5742b3d7, 0x744e06fb, 0x3952307c, 0x341a787c}};
  for (size_t word = 0; word < 4; ++word) {
    std::string names[4] = {"%a", "%b", "%c", "%d"};
    names[word] = "%z";
    const std::string type = "tile<[5], u32>";
    const Case one = run_text(names[0] + ", " + names[1] + ", " + names[2] + ", " + names[3] +
                                  " = philox %x0, %x1 : " + type + ", " + type + ", " + type + ", " + type,
                              {seed, offset}, E::kU32, 5);
    EXPECT_EQ(one.error, "");
    EXPECT_EQ(one.out.bits, Bits(expected[word], expected[word] + 5)) << word;
  }
}

}  // namespace
}  // namespace kiln::dsl::testing
