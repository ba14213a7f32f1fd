// Plans of long scans, of GPUs and CPUs, against the interpreter, which runs the kernel as it was written.
#include "launches/scan.h"

#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/text.h"
#include "launch_harness.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

constexpr int64_t kLong = 1 << 15, kLongOnCpus = 1 << 18;

std::vector<int64_t> gpu_chunks(const std::string& text) { return chunks_of(gpu_launches(parse_kernel(text))); }

std::vector<int64_t> cpu_chunks(const std::string& text) {
  auto kernel = dsl::instantiate(parse_kernel(text), {}, {});
  EXPECT_TRUE(kernel.ok());
  return chunks_of(codegen::make_launches(*kernel));
}

using Chunks = std::vector<int64_t>;

TEST(ScanPlan, WhatIsSplitAndWhatIsNot) {
  const auto sums = [](int64_t elements) { return scan_text("f32", elements, "kind = sum"); };
  EXPECT_EQ(gpu_chunks(sums(kLong)), (Chunks{4, 1, 4}));
  EXPECT_EQ(gpu_chunks(sums(kLong + 1)), (Chunks{5, 1, 5}));
  EXPECT_EQ(gpu_chunks(sums(kLong - 1)), Chunks{1});
  EXPECT_EQ(cpu_chunks(sums(kLongOnCpus)), (Chunks{4, 1, 4}));
  EXPECT_EQ(cpu_chunks(sums(kLongOnCpus - 1)), Chunks{1});
}

// One program alone has what does more with the result than elementwise ops and stores.
TEST(ScanPlan, ResultsThatAreNotStored) {
  TextKernel k("%x: ptr<i32> readonly, %y: ptr<i32>, %last: ptr<i32>");
  const Shape shape = {kLong};
  const std::string s = k.op("scan " + k.op("load " + k.pointers("%x", shape)) + " {kind = sum, axis = 0}");
  k.line("store " + k.pointers("%y", shape) + ", " + s);
  const std::string stored = k.text();
  EXPECT_EQ(gpu_chunks(stored), (Chunks{4, 1, 4}));
  k.line("store %last, " + k.op("reduce " + s + " {kind = max, axis = 0}"));
  EXPECT_EQ(gpu_chunks(k.text()), Chunks{1});
}

void expect_scanned(const std::string& type, const std::string& attrs, const Match& match, bool specials) {
  SCOPED_TRACE(type + " " + attrs);
  const auto element = *dsl::parse_element_type(type);
  for (int64_t elements : sampled(std::vector<int64_t>{kLong, kLong + 1234}, 1)) {
    const int64_t n = elements == kLong ? elements : elements - 99;
    const auto count = static_cast<size_t>(elements);
    expect_as_interpreted(
        parse_kernel(scan_text(type, elements, attrs)),
        {{random_buffer(element, count, 5, specials), random_buffer(element, count, 6), int_scalar(n)}, match});
  }
}

TEST(ScanPlan, EveryKind) {
  expect_scanned("f32", "kind = sum", {1e-4, 2e-2, false}, false);
  expect_scanned("bf16", "kind = sum, reverse = 1", {2e-2, 1e-1, false}, false);
  expect_scanned("i64", "kind = prod", kExact, true);
  expect_scanned("f16", "kind = max", {0, 0, true}, false);
  expect_scanned("f32", "kind = min, reverse = 1", {0, 0, true}, true);
  expect_scanned("u8", "kind = xor, reverse = 1", kExact, true);
  expect_scanned("i1", "kind = or", kExact, false);
  expect_scanned("i16", "kind = and", kExact, true);
}

TEST(ScanPlan, OnCpus) {
  for (int64_t elements : {kLongOnCpus, kLongOnCpus + 777}) {
    const auto count = static_cast<size_t>(elements);
    for (const char* attrs : {"kind = sum", "kind = sum, reverse = 1"}) {
      const dsl::Kernel kernel = parse_kernel(scan_text("i32", elements, attrs));
      LaunchTrial trial{{random_buffer(ElementType::kI32, count, 1), random_buffer(ElementType::kI32, count, 2),
                         int_scalar(elements)}};
      trial.compiled = {""};
      trial.emulated = {};
      expect_as_interpreted(kernel, trial);
    }
  }
}

TEST(ScanPlan, SumsDoNotDependOnTheNumberOfThreads) {
  if (!wants_targets("cpu")) GTEST_SKIP() << "of CPUs";
  const dsl::Kernel kernel = parse_kernel(scan_text("f32", kLongOnCpus + 777, "kind = sum"));
  auto artifact = compile(kernel, {});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const auto count = static_cast<size_t>(kLongOnCpus + 777);
  std::vector<std::byte> first;
  for (int threads : {1, 2, 7}) {
    std::vector<TestArgument> arguments = {random_buffer(ElementType::kF32, count, 1, false),
                                           random_buffer(ElementType::kF32, count, 2, false),
                                           int_scalar(kLongOnCpus + 777)};
    auto done = run_launched(kernel, *artifact, arguments, {.threads = threads});
    ASSERT_TRUE(done.ok()) << done.error().message;
    if (first.empty()) first = arguments[1].buffer;
    EXPECT_TRUE(arguments[1].buffer == first) << threads;
  }
}

// x → a·x + b, one after the other, in ints that wrap: does not commute. With constants in the region.
TEST(ScanPlan, RegionsKeepTheirOrder) {
  for (const char* reverse : {"0", "1"}) {
    SCOPED_TRACE(reverse);
    TextKernel k("%a: ptr<i32> readonly, %b: ptr<i16> readonly, %c: ptr<i32>, %d: ptr<i16>");
    const Shape shape = {kLong + 5};
    const std::string a = k.op("load " + k.pointers("%a", shape)), b = k.op("load " + k.pointers("%b", shape));
    k.line("%s, %t = scan " + a + ", " + b + " {kind = custom, axis = 0, reverse = " + reverse +
           "} (%l0, %l1, %r0, %r1) {");
    k.line("  %one = constant {value = 1, type = i32}");
    k.line("  %product = mul %l0, %r0");
    k.line("  %same = mul %product, %one");
    k.line("  %narrow = cast %r0 {to = i16}");
    k.line("  %scaled = mul %narrow, %l1");
    k.line("  %sum = add %scaled, %r1");
    k.line("  yield %same, %sum");
    k.line("}");
    k.line("store " + k.pointers("%c", shape) + ", %s");
    k.line("store " + k.pointers("%d", shape) + ", %t");
    EXPECT_EQ(gpu_chunks(k.text()), (Chunks{5, 1, 5}));
    const auto n = static_cast<size_t>(shape[0]);
    expect_as_interpreted(parse_kernel(k.text()),
                          {{random_buffer(ElementType::kI32, n, 1), random_buffer(ElementType::kI16, n, 2),
                            random_buffer(ElementType::kI32, n, 3), random_buffer(ElementType::kI16, n, 4)}});
  }
}

TEST(ScanPlan, AxesOfLargerTiles) {
  for (size_t axis : {0, 1}) {
    const int64_t extent = kLong / 2 + 100;
    const Shape shape = axis == 0 ? Shape{extent, 3} : Shape{3, extent};
    TextKernel k("%x: ptr<i32> readonly, %y: ptr<i32>");
    k.grid = "2, 1, 1";
    const std::string size = k.constant(std::to_string(3 * extent), "i32");
    const std::string far = k.splat(k.op("mul " + k.op("program_id {axis = 0}") + ", " + size), shape);
    const auto at = [&](const std::string& param) { return k.op("addptr " + k.pointers(param, shape) + ", " + far); };
    const std::string x = k.op("load " + at("%x"));
    k.line("store " + at("%y") + ", " + k.op("scan " + x + " {kind = sum, axis = " + std::to_string(axis) + "}"));
    EXPECT_EQ(gpu_chunks(k.text()).size(), 3u);
    const auto count = static_cast<size_t>(6 * extent);
    expect_as_interpreted(parse_kernel(k.text()),
                          {{random_buffer(ElementType::kI32, count, 1), random_buffer(ElementType::kI32, count, 2)}});
  }
}

// Elementwise before and behind, in place, with n elements that count.
TEST(ScanPlan, WhatIsAroundIt) {
  TextKernel k("%x: ptr<i32>, %squares: ptr<i32>, %n: i32");
  const Shape shape = {kLong + 8};
  const std::string mask = k.mask(shape, {"%n"}), at = k.pointers("%x", shape);
  const std::string x = k.op("load " + at + ", " + mask);
  const std::string s = k.op("scan " + k.op("xor " + x + ", " + k.fill("5", "i32", shape)) + " {kind = sum, axis = 0}");
  k.line("store " + at + ", " + k.op("sub " + s + ", " + x) + ", " + mask);
  k.line("store " + k.pointers("%squares", shape) + ", " + k.op("mul " + s + ", " + s) + ", " + mask);
  EXPECT_EQ(gpu_chunks(k.text()), (Chunks{5, 1, 5}));
  const auto count = static_cast<size_t>(shape[0]);
  for (int64_t n : {int64_t{0}, int64_t{1}, kLong, kLong + 8}) {
    LaunchTrial trial{
        {random_buffer(ElementType::kI32, count, 1), random_buffer(ElementType::kI32, count, 2), int_scalar(n)}};
    if (n < kLong) trial.compiled = {""};
    expect_as_interpreted(parse_kernel(k.text()), trial);
  }
}

// A sum of all comes first: its chunks, then those of the scan of what it scales.
TEST(ScanPlan, BehindAReduction) {
  TextKernel k("%x: ptr<f32> readonly, %y: ptr<f32>");
  const Shape shape = {2 * kLong};
  const std::string x = k.op("load " + k.pointers("%x", shape));
  const std::string most = k.op("reduce " + x + " {kind = max, axis = 0}");
  const std::string scaled = k.op("div " + x + ", " + k.splat(most, shape));
  k.line("store " + k.pointers("%y", shape) + ", " + k.op("scan " + scaled + " {kind = sum, axis = 0}"));
  EXPECT_EQ(gpu_chunks(k.text()), (Chunks{8, 8, 1, 8}));
  const auto count = static_cast<size_t>(shape[0]);
  expect_as_interpreted(parse_kernel(k.text()), {{random_buffer(ElementType::kF32, count, 1, false),
                                                  random_buffer(ElementType::kF32, count, 2)},
                                                 {1e-4, 2e-2, true}});
}

}  // namespace
}  // namespace kiln::test
