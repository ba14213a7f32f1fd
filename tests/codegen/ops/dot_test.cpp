// dot on every target against the interpreter.
#include <algorithm>
#include <cmath>
#include <random>

#include "cuda_device.h"
#include "differential.h"
#include "kiln/codegen/compile.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

const char* name_of(ElementType type) { return dsl::info(type).name.data(); }

ElementType accumulator_of(ElementType type) {
  if (!dsl::is_float(type)) return ElementType::kI32;
  return type == ElementType::kF64 ? ElementType::kF64 : ElementType::kF32;
}

// docs/reference/ops.md measures dots as a whole; here each element has to be near, so products of N(0, 1) get some
// room. NVIDIA's units for f8 keep some 14 bits of a sum.
Match near(ElementType type, int64_t k) {
  if (!dsl::is_float(type)) return kExact;
  const double scale = std::sqrt(static_cast<double>(k)) + 1;
  if (on_cuda() && dsl::info(type).bytes == 1) return {1e-3, 1e-3 * scale, true};
  return {1e-6, (type == ElementType::kF64 ? 1e-14 : 1e-6) * scale, true};
}

struct Case {
  ElementType a, b;
  int64_t batch, m, n, k;
  std::string precision = "ieee";
  bool a_transposed = false, b_transposed = false, masked = false;
};

std::string text_of(const Case& t) {
  const std::string acc = name_of(accumulator_of(t.a));
  TextKernel kernel("%a: ptr<" + std::string(name_of(t.a)) + "> readonly, %b: ptr<" + name_of(t.b) +
                    "> readonly, %c: ptr<" + acc + ">, %m: i32, %n: i32, %k: i32");
  auto with_batch = [&](Shape shape) {
    if (t.batch > 0) shape.insert(shape.begin(), t.batch);
    return shape;
  };
  auto bounds = [&](const char* rows, const char* columns) {
    std::vector<std::string> out = {rows, columns};
    if (t.batch > 0) out.insert(out.begin(), "");
    return out;
  };
  auto load = [&](const char* param, int64_t rows, int64_t columns, bool transposed, const char* row_bound,
                  const char* column_bound) {
    const Shape shape = with_batch({rows, columns});
    Shape strides = transposed ? Shape{1, rows} : Shape{columns, 1};
    if (t.batch > 0) strides.insert(strides.begin(), rows * columns);
    std::string line = "load " + kernel.pointers(param, shape, 0, strides);
    if (t.masked) line += ", " + kernel.mask(shape, bounds(row_bound, column_bound));
    return kernel.op(line);
  };
  const std::string a = load("%a", t.m, t.k, t.a_transposed, "%m", "%k");
  const std::string b = load("%b", t.k, t.n, t.b_transposed, "%k", "%n");
  const Shape shape = with_batch({t.m, t.n});
  const std::string at = kernel.pointers("%c", shape);
  const std::string c = kernel.op("load " + at);
  const std::string sum = kernel.op("dot " + a + ", " + b + ", " + c + " {precision = " + t.precision + "}");
  kernel.line("store " + at + ", " + sum);
  return kernel.text();
}

Trial trial(const Case& t, uint32_t seed) {
  const auto batch = static_cast<size_t>(std::max<int64_t>(t.batch, 1));
  auto elements = [&](ElementType type, int64_t rows, int64_t columns, uint32_t salt) {
    return random_buffer(type, batch * static_cast<size_t>(rows * columns), seed + salt, false);
  };
  Trial out;
  out.arguments = {elements(t.a, t.m, t.k, 0),
                   elements(t.b, t.k, t.n, 1),
                   elements(accumulator_of(t.a), t.m, t.n, 2),
                   int_scalar(t.masked ? std::max<int64_t>(t.m - 2, 0) : t.m),
                   int_scalar(t.masked ? std::max<int64_t>(t.n - 3, 0) : t.n),
                   int_scalar(t.masked ? std::max<int64_t>(t.k - 1, 0) : t.k)};
  out.match = near(t.a, t.k);
  return out;
}

void check(const Case& t, uint32_t seed) {
  SCOPED_TRACE(std::string(name_of(t.a)) + "·" + name_of(t.b) + " " + std::to_string(t.batch) + "x" +
               std::to_string(t.m) + "x" + std::to_string(t.n) + "x" + std::to_string(t.k) + " " + t.precision);
  expect_same(text_of(t), trial(t, seed));
}

// The same where the form is one of CPUs alone.
void check_on_cpus(const Case& t, uint32_t seed) {
  SCOPED_TRACE(std::to_string(t.batch) + "x" + std::to_string(t.m) + "x" + std::to_string(t.n) + "x" +
               std::to_string(t.k));
  Trial run = trial(t, seed);
  run.targets = wants_targets("cpu") && !on_cuda() ? cpu_targets() : std::vector<std::string>();
  expect_same(text_of(t), run);
}

struct Types {
  ElementType a, b;
};
const Types kTypes[] = {{ElementType::kF32, ElementType::kF32},       {ElementType::kF64, ElementType::kF64},
                        {ElementType::kF16, ElementType::kF16},       {ElementType::kBF16, ElementType::kBF16},
                        {ElementType::kF8E4M3, ElementType::kF8E4M3}, {ElementType::kF8E5M2, ElementType::kF8E5M2},
                        {ElementType::kI8, ElementType::kI8},         {ElementType::kU8, ElementType::kU8},
                        {ElementType::kI8, ElementType::kU8},         {ElementType::kU8, ElementType::kI8}};

class DotTest : public testing::TestWithParam<Types> {};

TEST_P(DotTest, AgreesWithTheInterpreterAtOddExtents) {
  const int64_t extents[] = {1, 2, 3, 5, 7, 13, 16, 17, 31, 33, 63, 65};
  std::mt19937 random(static_cast<uint32_t>(GetParam().a) * 16 + static_cast<uint32_t>(GetParam().b));
  auto any = [&] { return extents[random() % std::size(extents)]; };
  for (uint32_t seed = 0; seed < (runs_all_cases() ? 4 : 2); ++seed) {
    check({GetParam().a, GetParam().b, 0, any(), any(), any()}, seed);
  }
  const std::vector<std::array<int64_t, 3>> even = {{1, 64, 40}, {40, 1, 9}, {33, 128, 64}};
  for (const auto& [m, n, k] : sampled(even, 2)) check({GetParam().a, GetParam().b, 0, m, n, k}, 20);
}

// What an instruction has more rows and columns for holds copies, what it has more of along K for counts as zeros.
TEST_P(DotTest, TakesExtentsBelowThoseOfAnInstruction) {
  const auto [a, b] = GetParam();
  const std::vector<Case> cases = {{a, b, 0, 1, 1, 1}, {a, b, 0, 2, 15, 3}, {a, b, 0, 9, 4, 2}, {a, b, 5, 3, 2, 15}};
  for (const Case& t : sampled(cases, 2)) check(t, static_cast<uint32_t>(t.m + t.k));
}

TEST_P(DotTest, TakesABatch) {
  check({GetParam().a, GetParam().b, 3, 5, 7, 9}, 1);
  check({GetParam().a, GetParam().b, 2, 17, 64, 6}, 2);
}

TEST_P(DotTest, TakesMaskedAndTransposedOperands) {
  const auto [a, b] = GetParam();
  const std::vector<Case> cases = {{a, b, 0, 9, 35, 13, "ieee", true, false, false},
                                   {a, b, 0, 16, 32, 16, "ieee", false, true, true},
                                   {a, b, 0, 15, 64, 33, "ieee", false, false, true},
                                   {a, b, 2, 6, 32, 8, "ieee", true, true, true}};
  for (const Case& t : sampled(cases, 2)) check(t, static_cast<uint32_t>(t.m + t.k));
}

// On CPUs its lanes lie along K: whole vectors, a part of one, rows left over from fours.
TEST_P(DotTest, TakesASingleColumn) {
  const auto [a, b] = GetParam();
  const std::vector<Case> cases = {{a, b, 0, 9, 1, 67},
                                   {a, b, 0, 4, 1, 256},
                                   {a, b, 0, 1, 1, 131},
                                   {a, b, 2, 6, 1, 48},
                                   {a, b, 0, 11, 1, 70, "ieee", false, false, true},
                                   {a, b, 0, 8, 1, 64, "ieee", true, false, true},
                                   {a, b, 0, 7, 1, 100, "ieee", false, true, true}};
  for (const Case& t : sampled(cases, 2)) check_on_cpus(t, static_cast<uint32_t>(t.m + t.k));
}

// On CPUs the columns of B are rows of a product with a single column where they lie one number behind the other.
TEST_P(DotTest, TakesASingleRowAndColumnsInMemory) {
  const auto [a, b] = GetParam();
  const std::vector<Case> cases = {{a, b, 0, 1, 13, 67, "ieee", false, true},
                                   {a, b, 0, 1, 64, 256, "ieee", false, true},
                                   {a, b, 3, 1, 6, 48, "ieee", false, true},
                                   {a, b, 0, 1, 33, 70, "ieee", false, true, true},
                                   {a, b, 0, 1, 2, 100, "ieee", true, true, true}};
  for (const Case& t : sampled(cases, 2)) check_on_cpus(t, static_cast<uint32_t>(t.n + t.k));
}

INSTANTIATE_TEST_SUITE_P(Types, DotTest, testing::ValuesIn(kTypes), [](const auto& info) {
  return std::string(name_of(info.param.a)) + "_" + name_of(info.param.b);
});

// A column that pads the result is stored by nobody, but its lane takes part in the product: LLVM sank v_wmma into
// the branch of those that store.
TEST(DotOperands, OfLanesThatStoreNothingCount) {
  const auto targets = all_targets();
  if (std::ranges::find(targets, "amd") == targets.end()) GTEST_SKIP() << "no code for AMD GPUs";
  const Case t{ElementType::kF8E4M3, ElementType::kF8E4M3, 0, 16, 63, 7};
  Trial run = trial(t, 1);
  run.targets = {"amd:gfx1100", "amd:gfx942"};
  expect_same(text_of(t), run);
}

// 256 KiB of B: on GPUs half of it at a time, or into the layout of matrix instructions by parts.
TEST(DotOperands, OfMoreThanSharedMemoryGoInParts) {
  const Case t{ElementType::kF32, ElementType::kF32, 0, 16, 256, 200};
  check(t, 1);
  const auto targets = all_targets();
  if (std::ranges::find(targets, "amd") == targets.end()) return;
  Trial run = trial(t, 1);
  run.targets = {"amd:gfx942", "amd:gfx90a"};
  expect_same(text_of(t), run);
  // Where nothing is padded a product by multiply-adds has operands like those of matrix instructions, unless they are
  // too large.
  const Case whole{ElementType::kF32, ElementType::kF32, 0, 16, 256, 256};
  run = trial(whole, 1);
  run.targets = {"amd:gfx906", "amd:gfx1100"};
  expect_same(text_of(whole), run);
}

// AMD's units round otherwise, or not at all: the op leaves it open.
TEST(DotPrecision, Tf32RoundsTheOperandsAsTheInterpreterDoes) {
  for (const Case& t : {Case{ElementType::kF32, ElementType::kF32, 0, 14, 32, 17, "tf32"},
                        Case{ElementType::kF32, ElementType::kF32, 2, 3, 5, 8, "tf32"}}) {
    Trial run = trial(t, 1);
    const bool on_amd = std::erase(run.targets, "amd") > 0;
    expect_same(text_of(t), run);
    if (!on_amd) continue;
    run.targets = {"amd"};
    run.match = {5e-3, 5e-3};
    expect_same(text_of(t), run);
  }
}

// ‖out - ref‖ / ‖ref‖ of a product of f32 operands, whose sum begins with 0.
double error_as_a_whole(const Case& t, const std::vector<TestArgument>& arguments) {
  const auto a = values_of<float>(arguments[0]), b = values_of<float>(arguments[1]), c = values_of<float>(arguments[2]);
  double error = 0, size = 0;
  for (int64_t m = 0; m < t.m; ++m) {
    for (int64_t n = 0; n < t.n; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < t.k; ++k) {
        sum += double{a[static_cast<size_t>(m * t.k + k)]} * double{b[static_cast<size_t>(k * t.n + n)]};
      }
      error += std::pow(double{c[static_cast<size_t>(m * t.n + n)]} - sum, 2);
      size += sum * sum;
    }
  }
  return std::sqrt(error / size);
}

// Large enough for products of several warps, whose units drop what tf32 has no bits for: of the numbers of the second
// round 2^-10 of each operand, the most that there is.
TEST(DotPrecision, Tf32KeepsToTheBoundOfTheDocument) {
  const Case t{ElementType::kF32, ElementType::kF32, 0, 64, 64, 64, "tf32"};
  const dsl::Kernel kernel = parse_kernel(text_of(t));
  for (const bool is_worst : {false, true}) {
    Trial run = trial(t, 1);
    if (is_worst) {
      for (size_t i : {size_t{0}, size_t{1}}) run.arguments[i] = buffer(std::vector<float>(64 * 64, 0x1.003ffep0f));
    }
    run.arguments[2] = buffer(std::vector<float>(64 * 64));
    for (const std::string& target : run.targets) {
      const auto artifact = compile(kernel, {}, {}, target);
      if (is_refused(artifact)) continue;
      ASSERT_TRUE(artifact.ok()) << target << ": " << artifact.error().message;
      auto arguments = run.arguments;
      const auto done = run_compiled(kernel, *artifact, arguments);
      ASSERT_TRUE(done.ok()) << target << ": " << done.error().message;
      EXPECT_LT(error_as_a_whole(t, arguments), 2e-3) << target;
    }
  }
}

// Three parts of tf32 hold all of f32. GPUs take the leave that bf16x3 gives: its parts hold 16 bits of the mantissa,
// so that an error of 2^-16 is left; CPUs compute in f32.
TEST(DotPrecision, SumsOfThreeProductsComeNearF32) {
  check({ElementType::kF32, ElementType::kF32, 0, 14, 32, 17, "tf32x3"}, 1);
  const Case t{ElementType::kF32, ElementType::kF32, 0, 14, 32, 17, "bf16x3"};
  Trial run = trial(t, 2);
  if (!on_cuda() && wants_targets("cpu")) {
    run.targets = cpu_targets();
    expect_same(text_of(t), run);
  }
  run.match = {5e-5, 5e-5};
  run.targets = all_targets();
  if (!on_cuda())
    std::erase_if(run.targets, [](const std::string& target) { return target != "gpu" && target != "amd"; });
  expect_same(text_of(t), run);
}

// Infinite operands stay out of the products with small parts, which would make NaN of them.
TEST(DotPrecision, SumsOfThreeProductsKeepInfinities) {
  for (const char* precision : {"tf32x3", "bf16x3"}) {
    const Case t{ElementType::kF32, ElementType::kF32, 0, 6, 5, 7, precision};
    Trial run = trial(t, 3);
    std::vector<float> a = values_of<float>(run.arguments[0]), b = values_of<float>(run.arguments[1]);
    const float infinity = std::numeric_limits<float>::infinity();
    a[0] = infinity, a[1] = 0, a[2 * 7] = -infinity, a[3 * 7 + 1] = 1e38F, a[4 * 7 + 2] = std::nanf("");
    b[5 + 3] = infinity;
    run.arguments[0] = buffer(a), run.arguments[1] = buffer(b);
    run.match = {1e-4, 1e-4, true};
    expect_same(text_of(t), run);
  }
}

// Extremes of bytes: no partial sum may saturate.
TEST(DotBytes, NeverSaturate) {
  for (const Types& types : {kTypes[6], kTypes[7], kTypes[8], kTypes[9]}) {
    const Case t{types.a, types.b, 0, 5, 17, 67};
    Trial run = trial(t, 1);
    for (size_t i : {size_t{0}, size_t{1}}) {
      for (size_t at = 0; at < run.arguments[i].buffer.size(); ++at) {
        const ElementType type = i == 0 ? types.a : types.b;
        const uint8_t values[] = {static_cast<uint8_t>(type == ElementType::kU8 ? 0xff : 0x80),
                                  static_cast<uint8_t>(type == ElementType::kU8 ? 0xff : 0x7f)};
        run.arguments[i].buffer[at] = static_cast<std::byte>(values[(at / 5) % 2]);
      }
    }
    expect_same(text_of(t), run);
  }
}

// The accumulator of a loop is updated in place; operands are read where they lie, or not, from step to step.
// `masked`: the store too knows how many rows there are.
std::string loop_text(const char* type, const char* acc, int64_t k, bool masked = false, int64_t n = 64) {
  const std::string element = type;
  TextKernel kernel("%a: ptr<" + element + "> readonly, %b: ptr<" + element + "> readonly, %c: ptr<" + acc +
                    ">, %m: i32, %k: i32");
  const Shape left = {24, 16}, right = {16, n}, out = {24, n};
  const std::string first = kernel.constant("0", "i32"), step = kernel.constant("16", "i32");
  const std::string width = kernel.constant(std::to_string(n), "i32"), init = kernel.fill("0", acc, out);
  kernel.line("%out = for %i = " + first + " to %k step " + step + " carry (%acc = " + init + ") {");
  auto below_k = [&](const Shape& shape, size_t axis) {
    const std::string index = kernel.op("add " + kernel.along(shape, axis) + ", " + kernel.splat("%i", shape));
    return kernel.op("cmp " + index + ", " + kernel.splat("%k", shape) + " {pred = lt}");
  };
  const std::string a_at =
      kernel.op("addptr " + kernel.pointers("%a", left, 0, {k, 1}) + ", " + kernel.splat("%i", left));
  const std::string a_mask = kernel.op("and " + kernel.mask(left, {"%m", ""}) + ", " + below_k(left, 1));
  const std::string x = kernel.op("load " + a_at + ", " + a_mask);
  const std::string row = kernel.op("mul %i, " + width);
  const std::string b_at = kernel.op("addptr " + kernel.pointers("%b", right) + ", " + kernel.splat(row, right));
  const std::string y = kernel.op("load " + b_at + ", " + below_k(right, 0));
  kernel.line("yield " + kernel.op("dot " + x + ", " + y + ", %acc {precision = ieee}"));
  kernel.line("}");
  const std::string c = kernel.pointers("%c", out);
  kernel.line("store " + c + ", %out" + (masked ? ", " + kernel.mask(out, {"%m", ""}) : ""));
  return kernel.text();
}

TEST(DotInLoop, AccumulatesOverStepsOfK) {
  struct Element {
    ElementType type;
    const char *name, *acc;
  };
  for (const Element& e : {Element{ElementType::kF32, "f32", "f32"}, Element{ElementType::kF64, "f64", "f64"},
                           Element{ElementType::kBF16, "bf16", "f32"}}) {
    for (const auto& [m, k] : {std::pair<int64_t, int64_t>{24, 64}, {24, 50}, {11, 33}, {1, 1}}) {
      Trial run;
      run.arguments = {random_buffer(e.type, static_cast<size_t>(m * k), 1, false),
                       random_buffer(e.type, static_cast<size_t>(64 * k), 2, false),
                       random_buffer(accumulator_of(e.type), 24 * 64, 3, false), int_scalar(m), int_scalar(k)};
      run.match = near(e.type, k);
      expect_same(loop_text(e.name, e.acc, k), run);
    }
  }
}

// The last step puts whole tiles where the store wants them; the rows of others stay what they were.
TEST(DotInLoop, StoresWhatTheMaskOfTheStoreLetsThrough) {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{24, 64}, {24, 45}, {24, 100}, {11, 64}, {11, 45}, {0, 64}}) {
    for (const int64_t k : {48, 33, 16, 0}) {
      Trial run;
      run.arguments = {random_buffer(ElementType::kF32, 24 * 48, 1, false),
                       random_buffer(ElementType::kF32, static_cast<size_t>(n) * 48, 2, false),
                       random_buffer(ElementType::kF32, static_cast<size_t>(n) * 24, 3, false), int_scalar(m),
                       int_scalar(k)};
      run.match = near(ElementType::kF32, k);
      expect_same(loop_text("f32", "f32", 48, true, n), run);
    }
  }
}

// The loop reads what the store is about to overwrite: it may not be overwritten a step too early.
TEST(DotInLoop, ReadsWhatIsStoredBehindIt) {
  TextKernel kernel("%a: ptr<f32> readonly, %c: ptr<f32>, %d: ptr<f32>");
  const Shape square = {32, 32};
  const std::string zero = kernel.constant("0", "i32"), two = kernel.constant("2", "i32"),
                    one = kernel.constant("1", "i32"), init = kernel.fill("0", "f32", square);
  const std::string at = kernel.pointers("%c", square), other = kernel.pointers("%d", square);
  kernel.line("%out = for %i = " + zero + " to " + two + " step " + one + " carry (%acc = " + init + ") {");
  const std::string x = kernel.op("load " + kernel.pointers("%a", square)), y = kernel.op("load " + at);
  kernel.line("yield " + kernel.op("dot " + x + ", " + y + ", %acc {precision = ieee}"));
  kernel.line("}");
  kernel.line("store " + other + ", " + kernel.op("load " + at));
  kernel.line("store " + at + ", %out");
  Trial run;
  for (uint32_t seed = 1; seed <= 3; ++seed)
    run.arguments.push_back(random_buffer(ElementType::kF32, 1024, seed, false));
  run.match = near(ElementType::kF32, 64);
  expect_same(kernel.text(), run);
}

// Rows of A a page apart, and columns of B: both are packed by transposing squares.
TEST(DotOperands, ArePackedByTransposition) {
  for (const auto& [type, acc] : {std::pair{ElementType::kF32, "f32"},
                                  {ElementType::kF64, "f64"},
                                  {ElementType::kBF16, "f32"},
                                  {ElementType::kI8, "i32"},
                                  {ElementType::kU8, "i32"}}) {
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{29, 45, 76}, {16, 64, 64}, {40, 16, 72}}) {
      const std::string element = name_of(type);
      TextKernel kernel("%a: ptr<" + element + "> readonly, %b: ptr<" + element + "> readonly, %c: ptr<" + acc + ">");
      const std::string a = kernel.op("load " + kernel.pointers("%a", {m, k}, 0, {1024, 1}));
      const std::string b = kernel.op("load " + kernel.pointers("%b", {k, n}, 0, {1, k}));
      kernel.line("store " + kernel.pointers("%c", {m, n}) + ", " +
                  kernel.op("dot " + a + ", " + b + ", " + kernel.fill("0", acc, {m, n}) + " {precision = ieee}"));
      Trial run;
      run.arguments = {random_buffer(type, static_cast<size_t>(m * 1024), 1, false),
                       random_buffer(type, static_cast<size_t>(n * k), 2, false),
                       random_buffer(accumulator_of(type), static_cast<size_t>(m * n), 3, false)};
      run.match = near(type, k);
      expect_same(kernel.text(), run);
    }
  }
}

// softmax(Q·K^T)·V: the second dot's operand comes from the first.
TEST(DotChain, AttentionLike) {
  TextKernel kernel("%q: ptr<f32> readonly, %k: ptr<f32> readonly, %v: ptr<f32> readonly, %o: ptr<f32>");
  const Shape scores = {13, 24}, out = {13, 40};
  const std::string q = kernel.op("load " + kernel.pointers("%q", {13, 16}));
  const std::string keys = kernel.op("load " + kernel.pointers("%k", {24, 16}));
  const std::string transposed = kernel.op("permute " + keys + " {order = [1, 0]}");
  const std::string s =
      kernel.op("dot " + q + ", " + transposed + ", " + kernel.fill("0", "f32", scores) + " {precision = ieee}");
  const std::string top = kernel.op("reduce " + s + " {kind = max, axis = 1}");
  auto spread = [&](const std::string& row, const Shape& shape) {
    return kernel.op("broadcast " + kernel.op("expand_dims " + row + " {axis = 1}") +
                     " {shape = " + TextKernel::list(shape) + "}");
  };
  const std::string p = kernel.op("math " + kernel.op("sub " + s + ", " + spread(top, scores)) + " {fn = exp}");
  const std::string total = kernel.op("reduce " + p + " {kind = sum, axis = 1}");
  const std::string v = kernel.op("load " + kernel.pointers("%v", {24, 40}));
  const std::string sum =
      kernel.op("dot " + p + ", " + v + ", " + kernel.fill("0", "f32", out) + " {precision = ieee}");
  kernel.line("store " + kernel.pointers("%o", out) + ", " + kernel.op("div " + sum + ", " + spread(total, out)));
  Trial run;
  run.arguments = {
      random_buffer(ElementType::kF32, 13 * 16, 1, false), random_buffer(ElementType::kF32, 24 * 16, 2, false),
      random_buffer(ElementType::kF32, 24 * 40, 3, false), random_buffer(ElementType::kF32, 13 * 40, 4, false)};
  run.match = {2e-5, 2e-5, true};
  expect_same(kernel.text(), run);
}

// Of -1, 0 and 1.
TestArgument small_numbers(ElementType type, int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  TestArgument out;
  out.is_buffer = true;
  const auto bytes = static_cast<size_t>(dsl::info(type).bytes);
  for (int64_t i = 0; i < count; ++i) {
    const int number = static_cast<int>(random() % 3) - 1;
    const uint64_t bits = dsl::is_float(type) ? dsl::bits_from_double(type, number) : static_cast<uint64_t>(number);
    const auto* first = reinterpret_cast<const std::byte*>(&bits);
    out.buffer.insert(out.buffer.end(), first, first + bytes);
  }
  return out;
}

// Sums less their row's greatest as operand A, in one fragment or several: of numbers so small that all is exact.
TEST(DotChain, SumsBecomeAFactor) {
  struct Sizes {
    int64_t rows, inner, columns, out;
  };
  for (const Sizes& sizes : {Sizes{64, 32, 64, 48}, Sizes{13, 24, 40, 20}, Sizes{16, 8, 8, 8}}) {
    for (const ElementType type : {ElementType::kBF16, ElementType::kF32, ElementType::kI8}) {
      const std::string name = name_of(type), sum = name_of(accumulator_of(type));
      const std::string params =
          "%a: ptr<" + name + "> readonly, %b: ptr<" + name + "> readonly, %c: ptr<" + name + "> readonly";
      TextKernel kernel(params + ", %o: ptr<" + sum + ">");
      const Shape first = {sizes.rows, sizes.columns}, out = {sizes.rows, sizes.out};
      const std::string a = kernel.op("load " + kernel.pointers("%a", {sizes.rows, sizes.inner}));
      const std::string b = kernel.op("load " + kernel.pointers("%b", {sizes.inner, sizes.columns}));
      const std::string c = kernel.op("load " + kernel.pointers("%c", {sizes.columns, sizes.out}));
      const std::string s = kernel.op("dot " + a + ", " + b + ", " + kernel.fill("0", sum, first));
      const std::string top =
          kernel.op("expand_dims " + kernel.op("reduce " + s + " {kind = max, axis = 1}") + " {axis = 1}");
      const std::string tops = kernel.op("broadcast " + top + " {shape = " + TextKernel::list(first) + "}");
      const std::string distance = kernel.op("sub " + s + ", " + tops);
      const std::string p =
          type == accumulator_of(type) ? distance : kernel.op("cast " + distance + " {to = " + name + "}");
      const std::string o = kernel.op("dot " + p + ", " + c + ", " + kernel.fill("0", sum, out));
      kernel.line("store " + kernel.pointers("%o", out) + ", " + o);
      Trial run;
      run.arguments = {small_numbers(type, sizes.rows * sizes.inner, 1),
                       small_numbers(type, sizes.inner * sizes.columns, 2),
                       small_numbers(type, sizes.columns * sizes.out, 3),
                       random_buffer(accumulator_of(type), static_cast<size_t>(sizes.rows * sizes.out), 4)};
      run.match.any_zero = true;
      std::erase_if(run.targets, [](const std::string& target) { return target.starts_with("cpu:"); });
      SCOPED_TRACE(name + " " + std::to_string(sizes.rows) + "x" + std::to_string(sizes.columns));
      expect_same(kernel.text(), run);
    }
  }
}

// An accumulator that something else reads later must not be updated in place.
TEST(DotAccumulator, KeepsWhatOthersRead) {
  TextKernel kernel("%a: ptr<f32> readonly, %b: ptr<f32> readonly, %c: ptr<f32>, %d: ptr<f32>, %e: ptr<f32>");
  const Shape shape = {6, 32};
  const std::string a = kernel.op("load " + kernel.pointers("%a", {6, 8}));
  const std::string b = kernel.op("load " + kernel.pointers("%b", {8, 32}));
  auto dot = [&](const std::string& acc) {
    return kernel.op("dot " + a + ", " + b + ", " + acc + " {precision = ieee}");
  };
  const std::string first = dot(kernel.op("load " + kernel.pointers("%c", shape)));
  const std::string second = dot(first), third = dot(second);
  kernel.line("store " + kernel.pointers("%c", shape) + ", " + third);
  kernel.line("store " + kernel.pointers("%d", shape) + ", " + first);
  kernel.line("store " + kernel.pointers("%e", shape) + ", " + kernel.op("sub " + third + ", " + first));
  Trial run;
  run.arguments = {random_buffer(ElementType::kF32, 48, 1, false), random_buffer(ElementType::kF32, 256, 2, false),
                   random_buffer(ElementType::kF32, 192, 3, false), random_buffer(ElementType::kF32, 192, 4, false),
                   random_buffer(ElementType::kF32, 192, 5, false)};
  run.match = {1e-5, 1e-5, true};
  expect_same(kernel.text(), run);
}

// ---- choice of instructions ----

TEST(DotUnits, AnUnknownOptionOfATargetIsAnError) {
  const dsl::Kernel kernel = parse_kernel(text_of({ElementType::kI8, ElementType::kI8, 0, 4, 16, 8}));
  auto message_of = [&](const std::string& target) {
    auto result = compile(kernel, {}, {}, target);
    return result.ok() ? std::string("compiled") : result.error().message;
  };
  EXPECT_EQ(message_of("cpu:x86-64-v3;dot-f4=widen"),
            "target option `dot-f4=widen` is unknown; there are dot-bf16, dot-i8, sve");
  EXPECT_EQ(message_of("cpu:x86-64-v3;dot-i8=fast"),
            "target option `dot-i8`: `fast` is unknown; there are widen, vnni, amx");
  EXPECT_EQ(message_of("cpu:x86-64-v3;dot-i8=vnni"), "target option `dot-i8=vnni`: the CPU has no such instruction");
  EXPECT_EQ(message_of("cpu:x86-64-v3;dot-i8=widen;dot-bf16=widen"), "compiled");
  EXPECT_EQ(message_of("cpu:neoverse-v1;sve=384"), "target option `sve`: `384` is unknown; there are 128, 256, 512");
  EXPECT_EQ(message_of("cpu:neoverse-n1;sve=256"), "target option `sve=256`: the CPU has no such instruction");
  EXPECT_EQ(message_of("cpu:neoverse-v2;sve=256;dot-i8=widen"), "compiled");
}

std::string assembly(ElementType type, const std::string& target) {
  const dsl::Kernel kernel = parse_kernel(text_of({type, type, 0, 32, 32, 64}));
  auto artifact = compile(kernel, {}, {}, target, "asm");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact) return {};
  return {reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()};
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(DotUnits, FollowTheTargetsName) {
  EXPECT_TRUE(contains(assembly(ElementType::kI8, "cpu:icelake-server"), "vpdpbusd"));
  EXPECT_TRUE(contains(assembly(ElementType::kI8, "cpu:alderlake"), "vpdpbusd"));
  EXPECT_TRUE(contains(assembly(ElementType::kI8, "cpu:icelake-server;dot-i8=widen"), "vpdpwssd"));
  EXPECT_TRUE(contains(assembly(ElementType::kI8, "cpu:x86-64-v3"), "vpmaddwd"));
  EXPECT_TRUE(contains(assembly(ElementType::kI8, "cpu:sapphirerapids"), "tdpbssd"));
  EXPECT_TRUE(contains(assembly(ElementType::kU8, "cpu:sapphirerapids"), "tdpbuud"));
  EXPECT_TRUE(contains(assembly(ElementType::kBF16, "cpu:sapphirerapids"), "tdpbf16ps"));
  EXPECT_TRUE(contains(assembly(ElementType::kF8E4M3, "cpu:sapphirerapids"), "tdpbf16ps"));
  EXPECT_TRUE(contains(assembly(ElementType::kBF16, "cpu:sapphirerapids;dot-bf16=vdpbf16ps"), "vdpbf16ps"));
  EXPECT_TRUE(contains(assembly(ElementType::kBF16, "cpu:sapphirerapids;dot-bf16=widen"), "vfmadd231ps"));
  EXPECT_TRUE(contains(assembly(ElementType::kBF16, "cpu:cooperlake"), "vfmadd231ps"));
}

// Eight sums do not hide the latency of an addition.
TEST(DotUnits, BlocksHaveSumsEnough) { EXPECT_TRUE(contains(assembly(ElementType::kF32, "cpu:x86-64-v3"), ".6x2.")); }

// All forms of this machine agree, also those that the start-up probe did not choose.
TEST(DotUnits, AllOfThisMachineAgreeWithTheInterpreter) {
  const std::string native = codegen::native_target();
  const std::string plain = native.substr(0, native.find(';'));
  int tried = 0;
  auto try_unit = [&](const std::string& option, std::initializer_list<Types> types) {
    const dsl::Kernel probe = parse_kernel(text_of({ElementType::kI8, ElementType::kI8, 0, 4, 16, 8}));
    if (!compile(probe, {}, {}, plain + option).ok()) return;
    ++tried;
    for (const Types& pair : types) {
      for (const auto& [m, n, k] : {std::array<int64_t, 3>{5, 7, 9}, {33, 47, 65}, {17, 64, 130}, {64, 100, 33}}) {
        Case t{pair.a, pair.b, m == 5 ? 2 : 0, m, n, k};
        for (const auto& [a_transposed, masked] : {std::pair{false, false}, {true, false}, {true, true}}) {
          if (!is_sampled(5)) continue;
          t.a_transposed = a_transposed;
          t.masked = masked;
          Trial run = trial(t, 3);
          run.targets = {plain + option};
          expect_same(text_of(t), run);
        }
      }
    }
  };
  for (const char* unit : {"widen", "vnni", "amx"}) {
    try_unit(std::string(";dot-i8=") + unit, {kTypes[6], kTypes[7], kTypes[8], kTypes[9]});
  }
  for (const char* unit : {"widen", "vdpbf16ps", "amx"}) {
    try_unit(std::string(";dot-bf16=") + unit, {kTypes[3], kTypes[4], kTypes[5]});
  }
  EXPECT_GE(tried, 2);
}

}  // namespace
}  // namespace kiln::test
