// Shapes, reductions, dot and control of the interpreter.
#include <random>

#include "interpreter_helpers.h"

namespace kiln::dsl::testing {
namespace {

using E = ElementType;

Elements iota(size_t count) {
  Elements out{E::kI32, {}};
  for (size_t i = 0; i < count; ++i) out.bits.push_back(i);
  return out;
}

TEST(InterpreterShape, PermuteTransposes) {
  const Elements got = run_shaped("permute %x0 {order = [1, 0]}", {iota(6)}, {"2, 3"}, E::kI32, "3, 2", 6);
  EXPECT_EQ(got.bits, (std::vector<uint64_t>{0, 3, 1, 4, 2, 5}));
}

TEST(InterpreterShape, BroadcastRepeatsAxesOfExtentOne) {
  EXPECT_EQ(run_shaped("broadcast %x0 {shape = [2, 3]}", {iota(3)}, {"1, 3"}, E::kI32, "2, 3", 6).bits,
            (std::vector<uint64_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(run_shaped("broadcast %x0 {shape = [2, 3]}", {iota(2)}, {"2, 1"}, E::kI32, "2, 3", 6).bits,
            (std::vector<uint64_t>{0, 0, 0, 1, 1, 1}));
}

TEST(InterpreterShape, ArangeConstantAndSplat) {
  const Kernel kernel = instantiated(R"(kernel t(%out: ptr<i32>) {
  %r = arange {start = -2, end = 3} : tile<[5], i32>
  %c = constant {value = 40, type = i32} : i32
  %s = splat %c {shape = [5]} : tile<[5], i32>
  %z = add %r, %s : tile<[5], i32>
  %two = constant {value = 2, type = i32} : i32
  %twos = splat %two {shape = [5]} : tile<[5], i32>
  %i = add %r, %twos : tile<[5], i32>
  %p = splat %out {shape = [5]} : tile<[5], ptr<i32>>
  %q = addptr %p, %i : tile<[5], ptr<i32>>
  store %q, %z
})");
  std::vector<int32_t> out(5);
  const Argument argument{out.data(), 5, 0};
  ASSERT_TRUE(interpret(kernel, {&argument, 1}, {1, 1, 1}).ok());
  EXPECT_EQ(out, (std::vector<int32_t>{38, 39, 40, 41, 42}));
}

TEST(InterpreterProgram, IdsAndCountsOfEveryAxis) {
  const Kernel kernel = instantiated(R"(kernel t(%out: ptr<i32>) {
  %x = program_id {axis = 0} : i32
  %y = program_id {axis = 1} : i32
  %z = program_id {axis = 2} : i32
  %nx = num_programs {axis = 0} : i32
  %ny = num_programs {axis = 1} : i32
  %zy = mul %z, %ny : i32
  %zyy = add %zy, %y : i32
  %r = mul %zyy, %nx : i32
  %i = add %r, %x : i32
  %q = addptr %out, %i : ptr<i32>
  %nz = num_programs {axis = 2} : i32
  %v = add %i, %nz : i32
  store %q, %v
})");
  std::vector<int32_t> out(2 * 3 * 4, -1);
  const Argument argument{out.data(), 24, 0};
  ASSERT_TRUE(interpret(kernel, {&argument, 1}, {2, 3, 4}).ok());
  for (int32_t i = 0; i < 24; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], i + 4);
}

TEST(InterpreterReduce, SumsOfEachAxis) {
  EXPECT_EQ(run_shaped("reduce %x0 {kind = sum, axis = 0}", {iota(6)}, {"2, 3"}, E::kI32, "3", 3).bits,
            (std::vector<uint64_t>{3, 5, 7}));
  EXPECT_EQ(run_shaped("reduce %x0 {kind = sum, axis = 1}", {iota(6)}, {"2, 3"}, E::kI32, "2", 2).bits,
            (std::vector<uint64_t>{3, 12}));
}

TEST(InterpreterReduce, KindsOnIntsWrapAndCompareBySignedness) {
  const Elements x = ints(E::kI8, {100, 100, -3});
  auto reduce = [](const Elements& elements, const std::string& kind) {
    const std::string count = std::to_string(elements.bits.size());
    return run_shaped("reduce %x0 {kind = " + kind + ", axis = 0}", {elements}, {count}, elements.type, "", 1).bits[0];
  };
  EXPECT_EQ(reduce(x, "sum"), bits_from_int(E::kI8, static_cast<int8_t>(197)));
  EXPECT_EQ(reduce(x, "prod"), bits_from_int(E::kI8, static_cast<int8_t>(-30000)));
  EXPECT_EQ(reduce(x, "min"), bits_from_int(E::kI8, -3));
  EXPECT_EQ(reduce(x, "max"), bits_from_int(E::kI8, 100));
  EXPECT_EQ(reduce(ints(E::kU8, {100, -3}), "max"), 253u);
  EXPECT_EQ(float_of(reduce(f32s({3, -2, 5}), "prod")), -30);
  EXPECT_EQ(float_of(reduce(f32s({3, -2, 5}), "min")), -2);
  for (const auto& values : {std::vector<float>{std::nanf(""), 1}, {1, std::nanf("")}, {1, std::nanf(""), 2}}) {
    EXPECT_TRUE(std::isnan(float_of(reduce(f32s(values), "min"))));
    EXPECT_TRUE(std::isnan(float_of(reduce(f32s(values), "max"))));
  }
}

TEST(InterpreterReduce, LongSumsStayExact) {
  // One by one, f32 would stop at 2^24 and f16 at 2048.
  const size_t count = size_t{1} << 25;
  const Kernel kernel = instantiated(
      "kernel t(%out: ptr<f32>) {\n%c = constant {value = 1.0, type = f32} : f32\n%s = splat %c "
      "{shape = [33554432]} : tile<[33554432], f32>\n%z = reduce %s {kind = sum, axis = 0} : "
      "f32\nstore %out, %z\n}\n");
  float sum = 0;
  const Argument argument{&sum, 1, 0};
  ASSERT_TRUE(interpret(kernel, {&argument, 1}, {1, 1, 1}).ok());
  EXPECT_EQ(sum, static_cast<float>(count));
  const Elements halves{E::kF16, std::vector<uint64_t>(4096, bits_from_double(E::kF16, 1))};
  EXPECT_EQ(double_from_bits(
                E::kF16, run_shaped("reduce %x0 {kind = sum, axis = 0}", {halves}, {"4096"}, E::kF16, "", 1).bits[0]),
            4096);
}

Elements random_floats(E type, size_t count) {
  std::mt19937 generator(7);
  std::normal_distribution<double> normal;
  Elements out{type, {}};
  for (size_t i = 0; i < count; ++i) out.bits.push_back(bits_from_double(type, normal(generator)));
  return out;
}

TEST(InterpreterDot, FloatsFuseInTheOrderOfK) {
  const size_t m = 3, k = 5, n = 4;
  const Elements a = random_floats(E::kF32, m * k), b = random_floats(E::kF32, k * n),
                 c = random_floats(E::kF32, m * n);
  const Elements got =
      run_shaped("dot %x0, %x1, %x2 {precision = ieee}", {a, b, c}, {"3, 5", "5, 4", "3, 4"}, E::kF32, "3, 4", m * n);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      float sum = float_of(c.bits[i * n + j]);
      for (size_t p = 0; p < k; ++p) sum = std::fmaf(float_of(a.bits[i * k + p]), float_of(b.bits[p * n + j]), sum);
      EXPECT_EQ(float_of(got.bits[i * n + j]), sum);
    }
  }
}

TEST(InterpreterDot, Tf32RoundsOperandsToTenBits) {
  const float fine = 1 + std::ldexp(1.0f, -11), half_to_even = 1 + 3 * std::ldexp(1.0f, -11);
  const Elements a = f32s({fine, half_to_even}), b = f32s({1, 0, 0, 1}), c = f32s({0, 0});
  const Elements got =
      run_shaped("dot %x0, %x1, %x2 {precision = tf32}", {a, b, c}, {"1, 2", "2, 2", "1, 2"}, E::kF32, "1, 2", 2);
  EXPECT_EQ(float_of(got.bits[0]), 1.0f);
  EXPECT_EQ(float_of(got.bits[1]), 1 + 4 * std::ldexp(1.0f, -11));
}

TEST(InterpreterDot, BytesAccumulateInI32AndHalvesInF32) {
  const Elements a = ints(E::kI8, {-128, 127}), b = ints(E::kI8, {-128, 127}), c = ints(E::kI32, {INT32_MAX});
  EXPECT_EQ(run_shaped("dot %x0, %x1, %x2 {precision = ieee}", {a, b, c}, {"1, 2", "2, 1", "1, 1"}, E::kI32, "1, 1", 1)
                .bits[0],
            static_cast<uint32_t>(INT32_MAX) + 16384 + 16129);
  const Elements u = ints(E::kU8, {255}), zero = ints(E::kI32, {0});
  EXPECT_EQ(
      run_shaped("dot %x0, %x1, %x2 {precision = ieee}", {u, u, zero}, {"1, 1", "1, 1", "1, 1"}, E::kI32, "1, 1", 1)
          .bits[0],
      65025u);
  const Elements h{E::kF16, {bits_from_double(E::kF16, 1024.5), bits_from_double(E::kF16, 1)}}, f = f32s({0.25f});
  EXPECT_EQ(float_of(run_shaped("dot %x0, %x1, %x2 {precision = ieee}", {h, h, f}, {"1, 2", "2, 1", "1, 1"}, E::kF32,
                                "1, 1", 1)
                         .bits[0]),
            1024.0f * 1024 + 1 + 0.25f);  // 1024.5 is 1024 in f16
}

// Fibonacci numbers: the yield swaps the carried values.
constexpr const char* kFibonacci = R"(kernel t(%out: ptr<i64>, %end: i32, %step: i32) {
  %zero = constant {value = 0, type = i32} : i32
  %a0 = constant {value = 0, type = i64} : i64
  %b0 = constant {value = 1, type = i64} : i64
  %a, %b = for %i = %zero to %end step %step carry (%x = %a0, %y = %b0) {num_stages = 1} : i64, i64 {
    %sum = add %x, %y : i64
    yield %y, %sum
  }
  store %out, %a
})";

TEST(InterpreterFor, CarriesValuesAndMayRunNeverOrStepOverTheEnd) {
  const Kernel kernel = instantiated(kFibonacci);
  auto run = [&](int32_t end, int32_t step) {
    int64_t out = -1;
    const Argument arguments[] = {
        {&out, 1, 0}, {nullptr, 0, static_cast<uint32_t>(end)}, {nullptr, 0, static_cast<uint32_t>(step)}};
    EXPECT_TRUE(interpret(kernel, arguments, {1, 1, 1}).ok());
    return out;
  };
  EXPECT_EQ(run(10, 1), 55);
  EXPECT_EQ(run(0, 1), 0);
  EXPECT_EQ(run(-5, 1), 0);
  EXPECT_EQ(run(10, 4), 2);
  EXPECT_EQ(run(INT32_MAX, INT32_MAX), 1);  // the index never leaves its type
}

TEST(InterpreterFor, AStepBelowOneIsAnErrorAtItsLine) {
  const Kernel kernel = instantiated(kFibonacci);
  int64_t out = 0;
  const Argument arguments[] = {{&out, 1, 0}, {nullptr, 0, 3}, {nullptr, 0, 0}};
  auto done = interpret(kernel, arguments, {1, 1, 1});
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("k.kiln:5:"), std::string::npos) << done.error().message;
  EXPECT_NE(done.error().message.find("for: step is 0, must be 1 or more"), std::string::npos) << done.error().message;
}

}  // namespace
}  // namespace kiln::dsl::testing
