// reshape, join, split, cat, slice and gather of the interpreter.
#include "interpreter_helpers.h"

namespace kiln::dsl::testing {
namespace {

using E = ElementType;
using Bits = std::vector<uint64_t>;

Elements iota(size_t count) {
  Elements out{E::kI32, {}};
  for (size_t i = 0; i < count; ++i) out.bits.push_back(i);
  return out;
}

TEST(InterpreterShape, ReshapeKeepsRowMajorOrder) {
  EXPECT_EQ(run_shaped("reshape %x0 {shape = [3, 2]}", {iota(6)}, {"2, 3"}, E::kI32, "3, 2", 6).bits,
            (Bits{0, 1, 2, 3, 4, 5}));
}

TEST(InterpreterShape, JoinPutsPairsSideBySideAndSplitUndoesIt) {
  const Elements a = ints(E::kI32, {1, 2, 3}), b = ints(E::kI32, {-1, -2, -3});
  EXPECT_EQ(run_shaped("join %x0, %x1", {a, b}, {"3", "3"}, E::kI32, "3, 2", 6).bits,
            ints(E::kI32, {1, -1, 2, -2, 3, -3}).bits);
  const Case one = run_text(
      "%j = join %x0, %x1 : tile<[3, 2], i32>\n%l, %z = split %j : tile<[3], i32>, tile<[3], i32>", {a, b}, E::kI32, 3);
  EXPECT_EQ(one.out.bits, b.bits);
}

TEST(InterpreterShape, CatPutsBBehindAAlongAnyAxis) {
  EXPECT_EQ(run_shaped("cat %x0, %x1 {axis = 0}", {iota(2), iota(3)}, {"2", "3"}, E::kI32, "5", 5).bits,
            (Bits{0, 1, 0, 1, 2}));
  EXPECT_EQ(run_shaped("cat %x0, %x1 {axis = 1}", {iota(4), iota(2)}, {"2, 2", "2, 1"}, E::kI32, "2, 3", 6).bits,
            (Bits{0, 1, 0, 2, 3, 1}));
}

TEST(InterpreterShape, SliceTakesAPartOfAnAxis) {
  EXPECT_EQ(run_shaped("slice %x0 {axis = 1, start = 1, end = 3}", {iota(6)}, {"2, 3"}, E::kI32, "2, 2", 4).bits,
            (Bits{1, 2, 4, 5}));
  EXPECT_EQ(run_shaped("slice %x0 {axis = 0, start = 1, end = 2}", {iota(6)}, {"2, 3"}, E::kI32, "1, 3", 3).bits,
            (Bits{3, 4, 5}));
}

TEST(InterpreterShape, GatherTakesElementsByNumberAlongAnAxis) {
  EXPECT_EQ(
      run_shaped("gather %x0, %x1 {axis = 0}", {iota(4), ints(E::kI32, {3, 0, 3})}, {"4", "3"}, E::kI32, "3", 3).bits,
      (Bits{3, 0, 3}));
  EXPECT_EQ(run_shaped("gather %x0, %x1 {axis = 0}", {iota(6), ints(E::kI32, {1, 0, 1})}, {"2, 3", "1, 3"}, E::kI32,
                       "1, 3", 3)
                .bits,
            (Bits{3, 1, 5}));
  EXPECT_EQ(
      run_shaped("gather %x0, %x1 {axis = 1}", {iota(6), ints(E::kI32, {2, 0})}, {"2, 3", "2, 1"}, E::kI32, "2, 1", 2)
          .bits,
      (Bits{2, 3}));
}

TEST(InterpreterShape, GatherOutOfRangeNamesIndexAndLane) {
  for (int64_t bad : {4, -1}) {
    const Case one =
        run_text("%z = gather %x0, %x1 {axis = 0} : tile<[2], i32>", {iota(4), ints(E::kI32, {3, bad})}, E::kI32, 2);
    EXPECT_NE(one.error.find("gather: index " + std::to_string(bad) + " of lane 1 is outside 0…3 (program 0, 0, 0)"),
              std::string::npos)
        << one.error;
  }
}

TEST(InterpreterShape, SizeOneExtents) {
  EXPECT_EQ(run_shaped("permute %x0 {order = [1, 0]}", {iota(3)}, {"1, 3"}, E::kI32, "3, 1", 3).bits, (Bits{0, 1, 2}));
  EXPECT_EQ(run_shaped("broadcast %x0 {shape = [1, 1]}", {iota(1)}, {"1, 1"}, E::kI32, "1, 1", 1).bits, (Bits{0}));
  EXPECT_EQ(run_shaped("reduce %x0 {kind = sum, axis = 1}", {iota(3)}, {"3, 1"}, E::kI32, "3", 3).bits,
            (Bits{0, 1, 2}));
}

}  // namespace
}  // namespace kiln::dsl::testing
