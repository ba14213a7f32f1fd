// Loads and stores of the interpreter: masks, bounds, and what its errors say.
#include <numeric>

#include "interpreter_helpers.h"

namespace kiln::dsl::testing {
namespace {

// y[i] = x[i] for i < n, 4 lanes a program; lanes that are masked off read -1.
constexpr const char* kCopy = R"(kernel copy(%x: ptr<f32> readonly, %y: ptr<f32>, %n: i32) {
  %pid = program_id {axis = 0} : i32
  %four = constant {value = 4, type = i32} : i32
  %start = mul %pid, %four : i32
  %s = splat %start {shape = [4]} : tile<[4], i32>
  %r = arange {start = 0, end = 4} : tile<[4], i32>
  %i = add %s, %r : tile<[4], i32>
  %ns = splat %n {shape = [4]} : tile<[4], i32>
  %m = cmp %i, %ns {pred = lt} : tile<[4], i1>
  %xs = splat %x {shape = [4]} : tile<[4], ptr<f32>>
  %xp = addptr %xs, %i : tile<[4], ptr<f32>>
  %o = constant {value = -1.0, type = f32} : f32
  %os = splat %o {shape = [4]} : tile<[4], f32>
  %v = load %xp, %m, %os : tile<[4], f32>
  %ys = splat %y {shape = [4]} : tile<[4], ptr<f32>>
  %yp = addptr %ys, %i : tile<[4], ptr<f32>>
  store %yp, %v
})";

Result<void> copy(std::vector<float>& x, std::vector<float>& y, int64_t n, uint32_t programs) {
  const Argument arguments[] = {{x.data(), static_cast<int64_t>(x.size()), 0},
                                {y.data(), static_cast<int64_t>(y.size()), 0},
                                {nullptr, 0, static_cast<uint64_t>(n)}};
  return interpret(instantiated(kCopy), arguments, {programs, 1, 1});
}

TEST(InterpreterMemory, MaskedLanesTouchNothingAndGiveOther) {
  std::vector<float> x(6), y(8, 7);
  std::iota(x.begin(), x.end(), 1.0f);
  auto done = copy(x, y, 6, 2);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(y, (std::vector<float>{1, 2, 3, 4, 5, 6, -1, -1}));
}

TEST(InterpreterMemory, OutOfBoundsNamesOpLineProgramAndIndex) {
  std::vector<float> x(6), y(8, 7);
  auto done = copy(x, y, 7, 2);
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find(
                "k.kiln:14:3: error: load: index 6 is outside `x`, which has 6 elements (program 1, 0, 0)"),
            std::string::npos)
      << done.error().message;
  x.resize(8);
  y.resize(7);
  done = copy(x, y, 8, 2);
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("k.kiln:17:3: error: store: index 7 is outside `y`"), std::string::npos)
      << done.error().message;
  EXPECT_EQ(y[3], x[3]);  // the first program's stores stay
}

// Loads x[a * b], lane masked by `use`.
constexpr const char* kProduct = R"(kernel product(%x: ptr<i32> readonly, %y: ptr<i32>, %a: i32, %b: i32, %use: i1) {
  %i = mul %a, %b : i32
  %p = addptr %x, %i : ptr<i32>
  %v = load %p, %use : i32
  store %y, %v
})";

TEST(InterpreterMemory, AnIndexThatWrappedIsReportedWhereItReachesMemory) {
  const Kernel kernel = instantiated(kProduct);
  std::vector<int32_t> x = {5, 6}, y = {0};
  auto run = [&](uint64_t a, uint64_t b, uint64_t use) {
    const Argument arguments[] = {
        {x.data(), 2, 0}, {y.data(), 1, 0}, {nullptr, 0, a}, {nullptr, 0, b}, {nullptr, 0, use}};
    return interpret(kernel, arguments, {1, 1, 1});
  };
  EXPECT_TRUE(run(1, 1, 1).ok());
  EXPECT_EQ(y[0], 6);
  auto wrapped = run(65536, 65536, 1);  // 2^32 comes out as 0, which is in bounds
  ASSERT_FALSE(wrapped.ok());
  EXPECT_NE(wrapped.error().message.find("load: the index into `x` wrapped"), std::string::npos)
      << wrapped.error().message;
  EXPECT_TRUE(run(65536, 65536, 0).ok());
  EXPECT_EQ(y[0], 0);
}

TEST(InterpreterMemory, PointersOfDifferentParametersMayBeSelected) {
  const Kernel kernel =
      instantiated(R"(kernel pick(%x: ptr<i32> readonly, %y: ptr<i32> readonly, %out: ptr<i32>, %c: i1) {
  %p = select %c, %x, %y : ptr<i32>
  %one = constant {value = 1, type = i32} : i32
  %q = addptr %p, %one : ptr<i32>
  %v = load %q : i32
  store %out, %v
})");
  std::vector<int32_t> x = {1, 2}, y = {3, 4}, out = {0};
  for (uint64_t c : {0, 1}) {
    const Argument arguments[] = {{x.data(), 2, 0}, {y.data(), 2, 0}, {out.data(), 1, 0}, {nullptr, 0, c}};
    auto done = interpret(kernel, arguments, {1, 1, 1});
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_EQ(out[0], c ? 2 : 4);
  }
}

TEST(InterpreterMemory, WrongUseIsAnError) {
  const Kernel kernel = instantiated(kProduct);
  auto few = interpret(kernel, {}, {1, 1, 1});
  ASSERT_FALSE(few.ok());
  EXPECT_EQ(few.error().message, "kernel `product` takes 5 arguments, not 0");
  auto symbolic =
      parse("kernel k(%x: ptr<f32>) {\nconstexpr B\n%r = arange {start = 0, end = B} : tile<[B], i32>\n}\n", "k.kiln");
  ASSERT_TRUE(symbolic.ok()) << symbolic.error().message;
  const Argument argument{};
  auto done = interpret(*symbolic, {&argument, 1}, {1, 1, 1});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message, "the kernel `k` is not instantiated");
}

}  // namespace
}  // namespace kiln::dsl::testing
