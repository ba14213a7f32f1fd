// while, if, assert, print and inline_asm of the interpreter.
#include "interpreter_helpers.h"

namespace kiln::dsl::testing {
namespace {

using E = ElementType;
using Bits = std::vector<uint64_t>;

constexpr const char* kScalar =
    "%zero = constant {value = 0, type = i32} : i32\n%n = reduce %x0 {kind = sum, axis = 0} : i32\n";

TEST(InterpreterWhile, RunsUntilItsFirstRegionYieldsFalse) {
  // Steps of the Collatz walk to 1: carries the number and the count, which the yield swaps twice.
  const std::string text = std::string(kScalar) + R"(%end, %z = while carry (%a = %n, %c = %zero) : i32, i32 {
  %one = constant {value = 1, type = i32} : i32
  %more = cmp %a, %one {pred = gt} : i1
  yield %more
} do (%b, %d) {
  %u = constant {value = 1, type = i32} : i32
  %two = constant {value = 2, type = i32} : i32
  %three = constant {value = 3, type = i32} : i32
  %half = div %b, %two : i32
  %odd = rem %b, %two : i32
  %t = mul %b, %three : i32
  %tp = add %t, %u : i32
  %is = cmp %odd, %u {pred = eq} : i1
  %next = select %is, %tp, %half : i32
  %e = add %d, %u : i32
  yield %next, %e
})";
  EXPECT_EQ(run_text(text, {ints(E::kI32, {6})}, E::kI32, 0).out.bits, (Bits{8}));
  EXPECT_EQ(run_text(text, {ints(E::kI32, {1})}, E::kI32, 0).out.bits, (Bits{0}));
}

TEST(InterpreterIf, RunsOneRegionOnly) {
  const std::string text = std::string(kScalar) + R"(%c = cmp %n, %zero {pred = gt} : i1
%z = if %c : i32 {
  %far = addptr %p0, %n : ptr<i32>
  %v = load %far : i32
  yield %v
} else {
  yield %n
})";
  EXPECT_EQ(run_text(text, {ints(E::kI32, {-3})}, E::kI32, 0).out.bits, ints(E::kI32, {-3}).bits);
  EXPECT_NE(run_text(text, {ints(E::kI32, {3})}, E::kI32, 0).error.find("load: index 3 is outside `p0`"),
            std::string::npos);
}

TEST(InterpreterAssert, FailsInDebugKernelsWithMessageLineProgramAndLane) {
  const std::string text =
      "%zero = constant {value = 0, type = i32} : i32\n%zeros = splat %zero {shape = [3]} : tile<[3], "
      "i32>\n%m = cmp %x0, %zeros {pred = ge} : tile<[3], i1>\nassert %m {message = \"it is "
      "positive\"}\n%z = add %x0, %x0 : tile<[3], i32>";
  const Elements bad = ints(E::kI32, {1, -1, -2});
  EXPECT_EQ(run_text(text, {bad}, E::kI32, 3).error, "");
  EXPECT_EQ(run_text(text, {ints(E::kI32, {0, 1, 2})}, E::kI32, 3, {}, true).error, "");
  EXPECT_EQ(run_text(text, {bad}, E::kI32, 3, {}, true).error,
            "k.kiln:9:1: error: assert: it is positive; false at lane 1 (program 0, 0, 0)");
}

TEST(InterpreterPrint, GivesMessagePlaceProgramAndValuesToTheSink) {
  std::vector<PrintRecord> records;
  InterpretOptions options;
  options.print = [&](const PrintRecord& record) { records.push_back(record); };
  const std::string text =
      "%n = reduce %x0 {kind = sum, axis = 0} : f32\nprint %x0, %n {message = \"x and its sum\"}\n%z = "
      "neg %x0 : tile<[2], f32>";
  EXPECT_EQ(run_text(text, {f32s({1, 2})}, E::kF32, 2, options).error, "");
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].message, "x and its sum");
  EXPECT_EQ(records[0].location, "k.kiln:7:1");
  EXPECT_EQ(records[0].program, (std::array<uint32_t, 3>{0, 0, 0}));
  ASSERT_EQ(records[0].values.size(), 2u);
  EXPECT_EQ(records[0].values[0].shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(records[0].values[0].bits, f32s({1, 2}).bits);
  EXPECT_TRUE(records[0].values[1].shape.empty());
  EXPECT_EQ(records[0].values[1].element, E::kF32);
  EXPECT_EQ(records[0].values[1].bits, f32s({3}).bits);
  EXPECT_EQ(run_text(text, {f32s({1, 2})}, E::kF32, 2).error, "");  // no sink
}

TEST(InterpreterInlineAsm, IsForGpuTargetsOnly) {
  const Case one = run_text("%z = inline_asm %x0 {text = \"x\", constraints = \"=f,f\", type = f32} : tile<[1], f32>",
                            {f32s({1})}, E::kF32, 1);
  EXPECT_NE(one.error.find("inline_asm: is target assembly, for GPU targets only"), std::string::npos) << one.error;
}

}  // namespace
}  // namespace kiln::dsl::testing
