// Builds with the option check_bounds: the interpreter's errors, nothing touched out of bounds (buffers end at a guard
// page), and the same results where all is well.
#include <cstring>

#include "differential.h"
#include "kiln/dsl/types.h"

namespace kiln::test {
namespace {

std::string with_checks(TextKernel& k) {
  std::string text = k.text();
  return text.insert(text.find("  grid"), "  option check_bounds = true\n");
}

const dsl::ElementType kF32 = dsl::ElementType::kF32;

// out[i + shift] = 2·x[i + shift] for i < n.
std::string copy_text(const TextKernel::Shape& shape, const std::string& load_shift, const std::string& store_shift) {
  TextKernel k("%x: ptr<f32> readonly, %out: ptr<f32>, %n: i32");
  std::vector<std::string> bounds(shape.size());
  bounds[0] = "%n";
  const std::string mask = k.mask(shape, bounds);
  auto moved = [&](const std::string& param, const std::string& shift) {
    return k.op("addptr " + k.pointers(param, shape) + ", " + k.fill(shift, "i32", shape));
  };
  const std::string x = k.op("load " + moved("%x", load_shift) + ", " + mask);
  k.line("store " + moved("%out", store_shift) + ", " + k.op("add " + x + ", " + x) + ", " + mask);
  return with_checks(k);
}

TEST(CheckBounds, WhatIsInsideIsAsWithoutChecks) {
  for (int n : {0, 1, 37, 100}) {
    expect_same(copy_text({100}, "0", "0"),
                {{random_buffer(kF32, 100, 1), random_buffer(kF32, 100, 2), int_scalar(n)}, kExact});
  }
  expect_same(copy_text({3, 20}, "0", "0"),
              {{random_buffer(kF32, 60, 1), random_buffer(kF32, 60, 2), int_scalar(2)}, kExact});
}

TEST(CheckBounds, ALoadNamesOpLineProgramAndIndex) {
  expect_same_failure(copy_text({100}, "0", "0"),
                      {random_buffer(kF32, 60, 1), random_buffer(kF32, 100, 2), int_scalar(61)},
                      "load: index 60 is outside `x`, which has 60 elements (program 0, 0, 0)");
  expect_same_failure(copy_text({100}, "-3", "0"),
                      {random_buffer(kF32, 100, 1), random_buffer(kF32, 100, 2), int_scalar(100)},
                      "index -3 is outside `x`");
}

// A histogram reads what lies in memory element by element, but not past its checks.
TEST(CheckBounds, AHistogramChecksWhatItReads) {
  TextKernel k("%x: ptr<i32> readonly, %out: ptr<i32>");
  const std::string x = k.op("load " + k.pointers("%x", {100}));
  k.line("store " + k.pointers("%out", {16}) + ", " + k.op("histogram " + x + " {bins = 16}"));
  const TestArgument counts = random_buffer(dsl::ElementType::kI32, 16, 2);
  expect_same(with_checks(k), {{random_buffer(dsl::ElementType::kI32, 100, 1), counts}, kExact});
  expect_same_failure(with_checks(k), {random_buffer(dsl::ElementType::kI32, 99, 1), counts},
                      "load: index 99 is outside `x`, which has 99 elements");
}

TEST(CheckBounds, AStoreStopsBeforeTheFirstBadLane) {
  expect_same_failure(copy_text({100}, "0", "0"),
                      {random_buffer(kF32, 100, 1), random_buffer(kF32, 77, 2), int_scalar(100)},
                      "store: index 77 is outside `out`, which has 77 elements");
  expect_same_failure(copy_text({4, 30}, "0", "2147483000"),
                      {random_buffer(kF32, 120, 1), random_buffer(kF32, 120, 2), int_scalar(4)}, "is outside `out`");
}

TEST(CheckBounds, LanesThatAreMaskedOffAreNotChecked) {
  expect_same(copy_text({100}, "0", "0"),
              {{random_buffer(kF32, 40, 1), random_buffer(kF32, 40, 2), int_scalar(40)}, kExact});
}

TEST(CheckBounds, ScalarsAndAtomics) {
  const std::string scalar = R"(kernel k(%x: ptr<i64>, %n: i32) {
  option check_bounds = true
  grid [4, 1, 1]
  %pid = program_id {axis = 0}
  %at = mul %pid, %n
  %p = addptr %x, %at
  %v = load %p
  store %p, %v
})";
  expect_same_failure(scalar, {random_buffer(dsl::ElementType::kI64, 5, 1), int_scalar(2)},
                      "load: index 6 is outside `x`, which has 5 elements (program 3, 0, 0)");
  for (const char* op : {"atomic_rmw %q, %i {kind = add}", "atomic_cas %q, %i, %i"}) {
    const std::string text = std::string(R"(kernel k(%x: ptr<i32>) {
  option check_bounds = true
  %i = arange {start = 0, end = 40}
  %p = splat %x {shape = [40]}
  %q = addptr %p, %i
  %old = )") + op + "\n}\n";
    expect_same_failure(text, {random_buffer(dsl::ElementType::kI32, 33, 1, false)}, "index 33 is outside `x`");
  }
}

TEST(CheckBounds, GatherIndices) {
  for (const char* type : {"i32", "u8", "i64"}) {
    TextKernel k("%x: ptr<f32> readonly, %i: ptr<" + std::string(type) + "> readonly, %out: ptr<f32>");
    const std::string source = k.op("load " + k.pointers("%x", {50}));
    const std::string index = k.op("load " + k.pointers("%i", {70}));
    k.line("store " + k.pointers("%out", {70}) + ", " + k.op("gather " + source + ", " + index + " {axis = 0}"));
    const auto element = *dsl::parse_element_type(type);
    for (int64_t bad : {50, 200, -1}) {
      if (bad < 0 && type[0] == 'u') continue;
      TestArgument indices = random_buffer(element, 70, 1, false);
      const auto bytes = static_cast<size_t>(dsl::info(element).bytes);
      for (size_t lane = 0; lane < 70; ++lane) {
        const int64_t value = lane == 66 ? bad : static_cast<int64_t>(lane % 50);
        std::memcpy(indices.buffer.data() + lane * bytes, &value, bytes);
      }
      expect_same_failure(with_checks(k), {random_buffer(kF32, 50, 2), indices, random_buffer(kF32, 70, 3)},
                          "gather: index " + std::to_string(bad) + " of lane 66 is outside 0…49");
    }
  }
}

// A pointer chosen at run time: it may point into either buffer, and nowhere else.
TEST(CheckBounds, SelectedPointersAreCheckedAgainstAllBuffers) {
  TextKernel k("%x: ptr<f32>, %y: ptr<f32>, %out: ptr<f32>, %n: i32");
  const TextKernel::Shape shape = {40};
  const std::string even = k.op("cmp " + k.along(shape, 0) + ", " + k.splat("%n", shape) + " {pred = lt}");
  const std::string chosen = k.op("select " + even + ", " + k.splat("%x", shape) + ", " + k.splat("%y", shape));
  const std::string value = k.op("load " + k.op("addptr " + chosen + ", " + k.along(shape, 0)));
  k.line("store " + k.pointers("%out", shape) + ", " + value);
  const std::string text = with_checks(k);
  expect_same(
      text,
      {{random_buffer(kF32, 20, 1), random_buffer(kF32, 40, 2), random_buffer(kF32, 40, 3), int_scalar(20)}, kExact});
  expect_same_failure(
      text, {random_buffer(kF32, 20, 1), random_buffer(kF32, 40, 2), random_buffer(kF32, 40, 3), int_scalar(30)},
      "load: the address of lane 20 is outside every buffer", FailureMatch::kCode);
}

// Tiles that another build reads straight from memory: operands of a dot, in a loop, behind masks.
TEST(CheckBounds, OperandsOfDotsAndLoops) {
  TextKernel k("%a: ptr<f32> readonly, %b: ptr<f32> readonly, %out: ptr<f32>, %n: i32");
  const TextKernel::Shape shape = {16, 16};
  const std::string zero = k.constant("0", "i32"), one = k.constant("1", "i32");
  const std::string mask = k.mask(shape, {"%n", ""});
  const std::string a = k.pointers("%a", shape), b = k.pointers("%b", shape);
  const std::string start = k.fill("0", "f32", shape), width = k.constant("256", "i32");
  k.line("%sum = for %i = " + zero + " to %n step " + one + " carry (%acc = " + start + ") {");
  k.line("%far = mul %i, " + width);
  k.line("%offset = splat %far {shape = [16, 16]}");
  k.line("%ap = addptr " + a + ", %offset");
  k.line("%x = load %ap, " + mask);
  k.line("%y = load " + b);
  k.line("%next = dot %x, %y, %acc");
  k.line("yield %next");
  k.line("}");
  k.line("store " + k.pointers("%out", shape) + ", %sum");
  const std::string text = with_checks(k);
  expect_same(text, {{random_buffer(kF32, 3 * 256, 1, false), random_buffer(kF32, 256, 2, false),
                      random_buffer(kF32, 256, 3), int_scalar(3)},
                     {1e-4, 1e-4, false}});
  // With masked rows, five blocks read up to row 4 of the fifth, but four are there.
  expect_same_failure(text,
                      {random_buffer(kF32, 4 * 256, 1, false), random_buffer(kF32, 256, 2, false),
                       random_buffer(kF32, 256, 3), int_scalar(5)},
                      "load: index 1024 is outside `a`, which has 1024 elements");
}

// Where nobody told the extents nothing is checked: run_compiled does not.
TEST(CheckBounds, UnknownExtentsAreNotChecked) {
  const dsl::Kernel kernel = parse_kernel(copy_text({10}, "0", "0"));
  auto artifact = compile(kernel, {});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::vector<TestArgument> arguments = {random_buffer(kF32, 10, 1), random_buffer(kF32, 10, 2), int_scalar(10)};
  auto done = run_compiled(kernel, *artifact, arguments);
  EXPECT_TRUE(done.ok()) << done.error().message;
}

}  // namespace
}  // namespace kiln::test
