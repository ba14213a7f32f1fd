// Stores that go past the caches: right at every alignment, and only where nothing reads what they write.
#include "differential.h"

namespace kiln::test {
namespace {

// Four programs write the same rows again and again, so that a launch counts as large though its arrays are small:
// y[shift + i] = 2·x[i], `times` times, for i < n; `target`: what is written, %x or %y.
std::string copy_kernel(const std::string& target, int64_t extent) {
  TextKernel k("%x: ptr<f32>, %y: ptr<f32>, %shift: i32, %n: i32, %times: i32");
  k.grid = "4, 1, 1";
  const TextKernel::Shape shape = {extent};
  const std::string zero = k.constant("0", "i32"), one = k.constant("1", "i32");
  const std::string first =
      k.op("mul " + k.op("program_id {axis = 0}") + ", " + k.constant(std::to_string(extent), "i32"));
  const std::string at = k.op("add " + k.splat(first, shape) + ", " + k.along(shape, 0));
  const std::string inside = k.op("cmp " + at + ", " + k.splat("%n", shape) + " {pred = lt}");
  k.line("for %i = " + zero + " to %times step " + one + " {");
  const std::string v = k.op("load " + k.op("addptr " + k.splat("%x", shape) + ", " + at) + ", " + inside);
  const std::string start = k.op("addptr " + target + ", %shift");
  const std::string to = k.op("addptr " + k.splat(start, shape) + ", " + at);
  k.line("store " + to + ", " + k.op("add " + v + ", " + v) + ", " + inside).line("yield").line("}");
  return k.text();
}

TEST(StreamingOnCpu, AnyAlignmentAndTail) {
  const std::string text = copy_kernel("%y", 1024);
  const dsl::Kernel kernel = parse_kernel(text);
  constexpr size_t kCount = 4096;
  std::vector<float> x(kCount);
  for (size_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(i) * 0.5f;
  for (const std::string& target : cpu_targets()) {
    auto artifact = compile(kernel, {}, {}, target);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    for (int64_t shift : {0, 1, 2, 3, 4, 8, 13, 16}) {
      for (int64_t n : {4096, 4095, 3001, 1025, 5, 0}) {
        for (int64_t times : {1, 2000}) {
          std::vector<TestArgument> arguments = {buffer(x), buffer(std::vector<float>(kCount + 16, -1.0f)),
                                                 int_scalar(shift), int_scalar(n), int_scalar(times)};
          ASSERT_TRUE(run_compiled(kernel, *artifact, arguments).ok());
          std::vector<float> expected_y(kCount + 16, -1.0f);
          for (int64_t i = 0; i < n; ++i) expected_y[static_cast<size_t>(i + shift)] = 2 * x[static_cast<size_t>(i)];
          ASSERT_EQ(values_of<float>(arguments[1]), expected_y) << target << " " << shift << " " << n << " " << times;
        }
      }
    }
  }
}

TEST(StreamingOnCpu, RowsOfFewLines) {
  const std::string text = copy_kernel("%y", 48);
  for (int64_t shift : {0, 3, 4}) {
    const auto x = random_buffer(dsl::ElementType::kF32, 192, 1), y = random_buffer(dsl::ElementType::kF32, 208, 2);
    expect_same(text, {{x, y, int_scalar(shift), int_scalar(190), int_scalar(3)}, kExact});
  }
}

std::string assembly_of(const std::string& text, const std::string& target = "cpu:x86-64-v4") {
  auto artifact = compile(parse_kernel(text), {}, {}, target, "asm");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact) return "";
  return {reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()};
}

TEST(StreamingOnCpu, OnlyWhatTheKernelDoesNotRead) {
  const std::string past = assembly_of(copy_kernel("%y", 1024));
  EXPECT_NE(past.find("vmovntps"), std::string::npos) << past;
  EXPECT_NE(past.find("sfence"), std::string::npos);
  const std::string in_place = assembly_of(copy_kernel("%x", 1024));
  EXPECT_EQ(in_place.find("vmovnt"), std::string::npos);
  EXPECT_EQ(in_place.find("sfence"), std::string::npos);
}

// y[r, c] = 2·x[r, c]: rows of 1024, one after the other in a loop, `dense` or with a distance that is not known.
std::string rows_in_a_loop(bool dense) {
  TextKernel k("%x: ptr<f32>, %y: ptr<f32>, %stride: i32");
  const TextKernel::Shape shape = {1024};
  const std::string zero = k.constant("0", "i32"), end = k.constant("65536", "i32"), step = k.constant("1024", "i32");
  k.line("for %i = " + zero + " to " + end + " step " + step + " {");
  const std::string first = dense ? "%i" : k.op("mul %i, %stride");
  const std::string at = k.op("add " + k.splat(first, shape) + ", " + k.along(shape, 0));
  const std::string v = k.op("load " + k.op("addptr " + k.splat("%x", shape) + ", " + at));
  k.line("store " + k.op("addptr " + k.splat("%y", shape) + ", " + at) + ", " + k.op("add " + v + ", " + v));
  return k.line("yield").line("}").text();
}

TEST(StreamingOnCpu, AsksAheadForWhatLiesBehind) {
  EXPECT_NE(assembly_of(copy_kernel("%y", 1024)).find("prefetch"), std::string::npos);
  EXPECT_NE(assembly_of(rows_in_a_loop(true)).find("prefetch"), std::string::npos);
}

// y[c] = Σ over r of x[at(r), c], 256 columns: row by row, or rows as a list names them.
std::string sum_of_rows(bool listed) {
  TextKernel k("%x: ptr<f32>, %y: ptr<f32>, %list: ptr<i32>, %stride: i32, %rows: i32");
  const TextKernel::Shape shape = {256};
  const std::string columns = k.along(shape, 0);
  const std::string zero = k.constant("0", "i32"), step = k.constant("1", "i32");
  const std::string zeros = k.splat(k.constant("0.0", "f32"), shape);
  k.line("%sum = for %i = " + zero + " to %rows step " + step + " carry (%s = " + zeros + ") : tile<[256], f32> {");
  const std::string row = listed ? k.op("load " + k.op("addptr %list, %i")) : "%i";
  const std::string first = k.op("addptr %x, " + k.op("mul " + row + ", %stride"));
  const std::string v = k.op("load " + k.op("addptr " + k.splat(first, shape) + ", " + columns));
  k.line("yield " + k.op("add %s, " + v)).line("}");
  k.line("store " + k.op("addptr " + k.splat("%y", shape) + ", " + columns) + ", %sum");
  return k.text();
}

TEST(StreamingOnCpu, AsksTurnsAheadForPartsOfRows) {
  EXPECT_NE(assembly_of(rows_in_a_loop(false)).find("prefetch"), std::string::npos);
  EXPECT_NE(assembly_of(sum_of_rows(false)).find("prefetch"), std::string::npos);
  EXPECT_EQ(assembly_of(sum_of_rows(true)).find("prefetch"), std::string::npos);
  // What is asked for past the last row is not read.
  const auto x = random_buffer(dsl::ElementType::kF32, 5 * 300, 1), y = random_buffer(dsl::ElementType::kF32, 256, 2);
  const TestArgument list = buffer(std::vector<int32_t>{3, 0, 4, 4, 1});
  for (bool listed : {false, true}) {
    expect_same(sum_of_rows(listed), {{x, y, list, int_scalar(300), int_scalar(5)}, kExact});
  }
}

// y[p, i] = tanh(tanh(x[p, i])), rows of 128: so much to compute that a vector is a register.
std::string short_rows() {
  TextKernel k("%x: ptr<f32>, %y: ptr<f32>");
  k.grid = "65536, 1, 1";
  const TextKernel::Shape shape = {128};
  const std::string first = k.op("mul " + k.op("program_id {axis = 0}") + ", " + k.constant("128", "i32"));
  const std::string at = k.op("add " + k.splat(first, shape) + ", " + k.along(shape, 0));
  const std::string v = k.op("load " + k.op("addptr " + k.splat("%x", shape) + ", " + at));
  const std::string tanh = k.op("math " + k.op("math " + v + " {fn = tanh}") + " {fn = tanh}");
  k.line("store " + k.op("addptr " + k.splat("%y", shape) + ", " + at) + ", " + tanh);
  return k.text();
}

// Depthwise convolutions took ten times as long on AVX2: each second half of a line went through the caches.
TEST(StreamingOnCpu, NeverHalfALine) {
  EXPECT_NE(assembly_of(short_rows(), "cpu:x86-64-v4").find("vmovnt"), std::string::npos);
  EXPECT_EQ(assembly_of(short_rows(), "cpu:x86-64-v3").find("vmovnt"), std::string::npos);
}

}  // namespace
}  // namespace kiln::test
