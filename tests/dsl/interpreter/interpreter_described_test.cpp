// Descriptors of the interpreter.
#include <numeric>

#include "interpreter_helpers.h"

namespace kiln::dsl::testing {
namespace {

using E = ElementType;

// A [3, 4] array of 0…11 with rows `stride` apart; `body` has %d, blocks of [2, 3] at rows %i and columns %j.
Result<void> run(const std::string& body, std::vector<float>& array, std::vector<float>& block, int64_t i, int64_t j,
                 const std::string& fill = "zero", int64_t stride = 4, int64_t rows = 3) {
  const Kernel kernel =
      instantiated(R"(kernel t(%a: ptr<f32>, %b: ptr<f32>, %i: i64, %j: i64, %rows: i64, %stride: i64) {
  %n = constant {value = 4, type = i64} : i64
  %d = descriptor %a, %rows, %n, %stride {block = [2, 3], fill = )" +
                   fill + R"(} : descriptor<[2, 3], f32>
  %r = arange {start = 0, end = 6} : tile<[6], i32>
  %bs = splat %b {shape = [6]} : tile<[6], ptr<f32>>
  %bf = addptr %bs, %r : tile<[6], ptr<f32>>
  %bp = reshape %bf {shape = [2, 3]} : tile<[2, 3], ptr<f32>>
)" + body + "\n}\n");
  const Argument arguments[] = {{array.data(), static_cast<int64_t>(array.size()), 0},
                                {block.data(), static_cast<int64_t>(block.size()), 0},
                                {nullptr, 0, static_cast<uint64_t>(i)},
                                {nullptr, 0, static_cast<uint64_t>(j)},
                                {nullptr, 0, static_cast<uint64_t>(rows)},
                                {nullptr, 0, static_cast<uint64_t>(stride)}};
  return interpret(kernel, arguments, {1, 1, 1});
}

constexpr const char* kLoad = "%x = load_tile %d, %i, %j : tile<[2, 3], f32>\nstore %bp, %x";
constexpr const char* kStore = "%x = load %bp : tile<[2, 3], f32>\nstore_tile %d, %x, %i, %j";
constexpr const char* kReduce = "%x = load %bp : tile<[2, 3], f32>\nreduce_tile %d, %x, %i, %j {kind = add}";

std::vector<float> counted(size_t count) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), 0.0f);
  return out;
}

TEST(InterpreterDescriptor, LoadsInsideAndZerosOutsideOnEverySide) {
  std::vector<float> array = counted(12), block(6, -1);
  ASSERT_TRUE(run(kLoad, array, block, 1, 1).ok());
  EXPECT_EQ(block, (std::vector<float>{5, 6, 7, 9, 10, 11}));
  ASSERT_TRUE(run(kLoad, array, block, 2, 2).ok());
  EXPECT_EQ(block, (std::vector<float>{10, 11, 0, 0, 0, 0}));
  ASSERT_TRUE(run(kLoad, array, block, -1, -1).ok());
  EXPECT_EQ(block, (std::vector<float>{0, 0, 0, 0, 0, 1}));
}

TEST(InterpreterDescriptor, FarOffsetsDoNotOverflow) {
  std::vector<float> array = counted(12), block(6, -1);
  for (int64_t far : {INT64_MIN, INT64_MAX}) {
    ASSERT_TRUE(run(kLoad, array, block, far, far).ok());
    EXPECT_EQ(block, std::vector<float>(6));
    ASSERT_TRUE(run(kStore, array, block, far, 0).ok());
  }
  EXPECT_EQ(array, counted(12));
}

TEST(InterpreterDescriptor, FillsWithNanOnRequest) {
  std::vector<float> array = counted(12), block(6, -1);
  ASSERT_TRUE(run(kLoad, array, block, 2, 2, "nan").ok());
  EXPECT_EQ(block[1], 11);
  for (size_t i = 2; i < 6; ++i) EXPECT_TRUE(std::isnan(block[i]));
}

TEST(InterpreterDescriptor, StoresAndReducesDropWhatIsOutside) {
  std::vector<float> array(12), block = counted(6);
  ASSERT_TRUE(run(kStore, array, block, 2, 2).ok());
  EXPECT_EQ(array, (std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  ASSERT_TRUE(run(kReduce, array, block, 1, -1).ok());
  EXPECT_EQ(array, (std::vector<float>{0, 0, 0, 0, 1, 2, 0, 0, 4, 5, 0, 1}));
}

TEST(InterpreterDescriptor, StridesMayExceedTheRowAndWhatLiesInsideIsCheckedAgainstTheBuffer) {
  std::vector<float> array = counted(16), block(6, -1);
  ASSERT_TRUE(run(kLoad, array, block, 1, 1, "zero", 5).ok());
  EXPECT_EQ(block, (std::vector<float>{6, 7, 8, 11, 12, 13}));
  auto done = run(kLoad, array, block, 3, 0, "zero", 4, 6);
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("load_tile: index 16 is outside `a`, which has 16 elements (program 0, 0, 0)"),
            std::string::npos)
      << done.error().message;
}

TEST(InterpreterDescriptor, GatherRowsTakesRowsByNumberFromAColumnOn) {
  const Kernel kernel = instantiated(R"(kernel t(%a: ptr<f32>, %rows: ptr<i32>, %out: ptr<f32>, %j: i32) {
  %m = constant {value = 3, type = i32} : i32
  %n = constant {value = 4, type = i32} : i32
  %d = descriptor %a, %m, %n, %n {block = [1, 2]} : descriptor<[1, 2], f32>
  %r = arange {start = 0, end = 3} : tile<[3], i32>
  %rs = splat %rows {shape = [3]} : tile<[3], ptr<i32>>
  %rp = addptr %rs, %r : tile<[3], ptr<i32>>
  %i = load %rp : tile<[3], i32>
  %x = gather_rows %d, %i, %j : tile<[3, 2], f32>
  %r6 = arange {start = 0, end = 6} : tile<[6], i32>
  %os = splat %out {shape = [6]} : tile<[6], ptr<f32>>
  %op = addptr %os, %r6 : tile<[6], ptr<f32>>
  %f = reshape %x {shape = [6]} : tile<[6], f32>
  store %op, %f
})");
  std::vector<float> array = counted(12), out(6, -1);
  std::vector<int32_t> rows = {2, -1, 0};
  const Argument arguments[] = {{array.data(), 12, 0}, {rows.data(), 3, 0}, {out.data(), 6, 0}, {nullptr, 0, 3}};
  auto done = interpret(kernel, arguments, {1, 1, 1});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(out, (std::vector<float>{11, 0, 0, 0, 3, 0}));
}

TEST(InterpreterDescriptor, AnOffsetThatWrappedIsReportedWhereItReachesMemory) {
  std::vector<float> array = counted(12), block(6);
  const std::string load =
      "%w = shl %i, %j : i64\n%z = constant {value = 0, type = i64} : i64\n%x = load_tile %d, %w, %z : tile<[2, 3], "
      "f32>\nstore %bp, %x";
  EXPECT_TRUE(run(load, array, block, 3, 63).ok());  // far below the array
  auto done = run(load, array, block, 2, 63);
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("load_tile: the index into `a` wrapped"), std::string::npos)
      << done.error().message;
}

}  // namespace
}  // namespace kiln::dsl::testing
