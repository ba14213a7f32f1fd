// Plans of CPUs: long reductions, top-k and sorts in stages through a workspace, against the interpreter, which runs
// the kernel as it was written; and equal bits for every number of threads.
#include <cmath>

#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/kernels.h"
#include "kiln/dsl/text.h"
#include "launch_harness.h"
#include "launches/launch_sequence.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using dsl::ElementType;

constexpr int64_t kWhole = 131072, kRagged = 3 * 65536 + 1234;

codegen::LaunchSequence launches_of(const std::string& text) {
  auto kernel = dsl::instantiate(parse_kernel(text), {}, {});
  EXPECT_TRUE(kernel.ok());
  return codegen::make_launches(*kernel);
}

void expect_steps(const std::string& text, const std::vector<int64_t>& chunks) {
  EXPECT_EQ(chunks_of(launches_of(text)), chunks) << text;
}

TEST(Plan, WhatIsSplitAndWhatIsNot) {
  const std::string sum = "{kind = sum, axis = 0}";
  expect_steps(reduce_text("f32", "f32", kWhole, sum), {2, 1});
  expect_steps(reduce_text("f32", "f32", kRagged, sum), {4, 1});
  expect_steps(reduce_text("f32", "f32", kWhole - 1, sum), {1});
  std::string many = reduce_text("f32", "f32", kWhole, sum);
  expect_steps(many.replace(many.find("[1, 1, 1]"), 9, "[9, 1, 1]"), {1});
  std::string few = reduce_text("f32", "f32", kWhole, sum);
  expect_steps(few.replace(few.find("[1, 1, 1]"), 9, "[4, 2, 1]"), {2, 1});
  std::string unknown = reduce_text("f32", "f32", kWhole, sum);
  expect_steps(unknown.replace(unknown.find("[1, 1, 1]"), 9, "[n, 1, 1]"), {1});
  std::string checked = reduce_text("f32", "f32", kWhole, sum);
  expect_steps(checked.insert(checked.find("  grid"), "  option check_bounds = true\n"), {1});
  // What was written before may be what is read.
  std::string written = reduce_text("f32", "f32", kWhole, sum);
  expect_steps(written.insert(written.find("  %t0"), "  %w = constant {value = 1, type = f32}\n  store %out, %w\n"),
               {1});
}

// The stages as text: a golden test. Values are numbered by the canonical order.
TEST(Plan, StagesOfALongSum) {
  const codegen::LaunchSequence sequence = launches_of(R"(kernel k(%x: ptr<f16> readonly, %out: ptr<f16>) {
  %i = arange {start = 0, end = 131072}
  %p = splat %x {shape = [131072]}
  %q = addptr %p, %i
  %v = load %q
  %s = reduce %v {kind = sum, axis = 0}
  store %out, %s
})");
  ASSERT_EQ(sequence.steps.size(), 2u);
  EXPECT_EQ(sequence.steps[0].entry, "kiln_stage_0");
  EXPECT_EQ(sequence.steps[1].entry, "kiln_entry");
  EXPECT_EQ(sequence.workspace_bytes, 64);
  auto without_names = [](dsl::Kernel kernel) {
    for (dsl::Value& value : kernel.values) value.name.clear();
    return dsl::print(kernel);
  };
  auto expect_step = [&](size_t i, const std::string& text) {
    auto wanted = dsl::instantiate(parse_kernel(text), {}, {});
    ASSERT_TRUE(wanted.ok()) << wanted.error().message;
    EXPECT_EQ(without_names(sequence.steps[i].kernel), without_names(*wanted));
  };
  expect_step(0, R"(kernel k(%x: ptr<f16> readonly, %out: ptr<f16>, %chunk: i32, %partial0: ptr<f32>) {
  %zero = constant {value = 0, type = i32}
  %one = constant {value = 1, type = i32}
  %c = mul %chunk, %one
  %d = add %zero, %c
  %r = addptr %partial0, %d
  %p = splat %x {shape = [65536]}
  %size = constant {value = 65536, type = i32}
  %first = mul %chunk, %size
  %f = splat %first {shape = [65536]}
  %i = arange {start = 0, end = 65536}
  %j = add %f, %i
  %q = addptr %p, %j
  %v = load %q
  %w = cast %v {to = f32}
  %s = reduce %w {kind = sum, axis = 0}
  store %r, %s
})");
  expect_step(1, R"(kernel k(%x: ptr<f16> readonly, %out: ptr<f16>, %chunk: i32, %partial0: ptr<f32>) {
  %p = splat %partial0 {shape = [2]}
  %i = arange {start = 0, end = 2}
  %one = constant {value = 1, type = i32}
  %o = splat %one {shape = [2]}
  %j = mul %i, %o
  %q = addptr %p, %j
  %v = load %q
  %s = reduce %v {kind = sum, axis = 0}
  %t = cast %s {to = f16}
  store %out, %t
})");
}

void expect_reduced(const std::string& type, const std::string& out, const std::string& reduce, const Match& match,
                    bool specials) {
  SCOPED_TRACE(type + " " + reduce);
  const auto element = *dsl::parse_element_type(type), result = *dsl::parse_element_type(out);
  for (int64_t elements : {kWhole, kRagged}) {
    const int64_t n = elements == kWhole ? elements : elements / 2 + 7;
    const std::string text = reduce_text(type, out, elements, reduce);
    EXPECT_GT(launches_of(text).steps.size(), 1u);
    expect_same(text, {{random_buffer(element, static_cast<size_t>(elements), 5, specials), random_buffer(result, 1, 6),
                        int_scalar(n)},
                       match,
                       {""}});
  }
}

TEST(Plan, ReductionsOfEveryKind) {
  const Match close{1e-4, 2e-2, false};
  expect_reduced("f32", "f32", "{kind = sum, axis = 0}", close, false);
  expect_reduced("f64", "f64", "{kind = sum, axis = 0}", {1e-9, 1e-9, false}, false);
  expect_reduced("bf16", "bf16", "{kind = sum, axis = 0}", {1e-2, 2e-2, false}, false);
  expect_reduced("i32", "i32", "{kind = sum, axis = 0}", kExact, true);
  expect_reduced("i64", "i64", "{kind = prod, axis = 0}", kExact, true);
  expect_reduced("f32", "f32", "{kind = max, axis = 0}", {0, 0, true}, true);
  expect_reduced("f16", "f16", "{kind = min, axis = 0}", {0, 0, true}, false);
  expect_reduced("u8", "u8", "{kind = xor, axis = 0}", kExact, true);
  expect_reduced("f32", "i32", "{kind = argmax, axis = 0}", kExact, false);
  expect_reduced("f32", "i32", "{kind = argmin, axis = 0}", kExact, true);
}

TEST(Plan, CustomReductionsKeepTheirOrder) {
  // Not commutative: the left one's first, the right one's last.
  TextKernel k("%x: ptr<i32> readonly, %out: ptr<i32>");
  const TextKernel::Shape shape = {kRagged};
  const std::string x = k.op("load " + k.pointers("%x", shape));
  k.line("%a, %b = reduce " + x + ", " + x + " {kind = custom, axis = 0} (%l0, %l1, %r0, %r1) {");
  k.line("  yield %l0, %r1");
  k.line("}");
  k.line("store %out, " + k.op("sub %a, %b"));
  expect_same(k.text(), {{random_buffer(ElementType::kI32, kRagged, 3, false), buffer<int32_t>({0})}, kExact, {""}});
}

TEST(Plan, AxesOfLargerTiles) {
  for (int axis : {0, 1}) {
    const TextKernel::Shape shape = axis == 0 ? TextKernel::Shape{kRagged, 3} : TextKernel::Shape{3, kRagged};
    for (const char* kind : {"sum", "argmin"}) {
      TextKernel k("%x: ptr<i32> readonly, %out: ptr<i32>");
      k.grid = "2, 1, 1";
      const std::string pid = k.op("program_id {axis = 0}");
      const std::string three = k.op("mul " + pid + ", " + k.constant("3", "i32"));
      const std::string x = k.op("load " + k.pointers("%x", shape));
      const std::string moved = k.op("xor " + x + ", " + k.splat(pid, shape));
      const std::string sum = k.op("reduce " + moved + " {kind = " + kind + ", axis = " + std::to_string(axis) + "}");
      k.line("store " + k.op("addptr " + k.pointers("%out", {3}) + ", " + k.splat(three, {3})) + ", " + sum);
      EXPECT_EQ(launches_of(k.text()).steps.size(), 2u);
      expect_same(
          k.text(),
          {{random_buffer(ElementType::kI32, 3 * kRagged, 1, false), buffer(std::vector<int32_t>(6))}, kExact, {""}});
    }
  }
}

// GPUs cut shorter tiles (gpu_sequences_test.cpp).
constexpr char kOfCpus[] = "of CPUs";

// The second reduction's chunks take up the first one's partial results.
TEST(Plan, ChainsOfReductionsTakeAStageEach) {
  const std::string text = softmax_text(kRagged);
  expect_steps(text, {4, 4, 1});
  expect_same(text, {{random_buffer(ElementType::kF32, kRagged, 1, false), random_buffer(ElementType::kF32, kRagged, 2),
                      int_scalar(kRagged - 99)},
                     {1e-4, 1e-9, true},
                     {"", "cpu:x86-64-v2"}});
}

TEST(Plan, TopkOfCandidates) {
  if (!wants_targets("cpu")) GTEST_SKIP() << kOfCpus;
  for (bool largest : {false, true}) {
    for (int k_value : {1, 5, 32}) {
      for (int64_t elements : {kWhole, kRagged}) {
        const std::string text = topk_text(elements, k_value, largest);
        EXPECT_EQ(launches_of(text).steps.size(), 2u);
        const auto n = static_cast<size_t>(k_value);
        expect_same(text, {{random_buffer(ElementType::kI32, static_cast<size_t>(elements), 1, false),
                            buffer(std::vector<int32_t>(n)), buffer(std::vector<int32_t>(n))},
                           kExact,
                           {""}});
      }
    }
  }
}

constexpr int64_t kRuns = 8 * 65536, kRaggedRuns = 9 * 65536 + 1234;

TEST(Plan, SortsOfRuns) {
  if (!wants_targets("cpu")) GTEST_SKIP() << kOfCpus;
  EXPECT_EQ(launches_of(sort_text("f32", kRuns - 1, false, true)).steps.size(), 1u);
  for (const char* type : {"f32", "i32", "u64", "bf16", "f64", "f8e4m3"}) {
    for (bool descending : {false, true}) {
      if (!is_sampled(3)) continue;
      SCOPED_TRACE(std::string(type) + (descending ? " descending" : ""));
      const auto element = *dsl::parse_element_type(type);
      const int64_t elements = descending ? kRaggedRuns : kRuns;
      const auto n = static_cast<size_t>(elements);
      // Among few different keys are many equal ones, which must keep their order across runs.
      const bool specials = dsl::is_float(element);
      const std::string text = sort_text(type, elements, descending, true);
      ASSERT_EQ(chunks_of(launches_of(text)).size(), 3u);
      expect_same(text, {{random_buffer(element, n, 7, specials), random_buffer(element, n, 8),
                          buffer(std::vector<int32_t>(n))},
                         {0, 0, true},
                         {""}});
    }
  }
}

TEST(Plan, SortsOfKeysAlone) {
  if (!wants_targets("cpu")) GTEST_SKIP() << kOfCpus;
  const auto n = static_cast<size_t>(kRaggedRuns);
  expect_same(sort_text("f32", kRaggedRuns, false, false),
              {{random_buffer(ElementType::kF32, n, 7, true), random_buffer(ElementType::kF32, n, 8),
                buffer(std::vector<int32_t>(1))},
               {0, 0, true},
               {""}});
  // Most keys are one: its copies are divided among the runs.
  std::vector<int32_t> few(n, 5);
  for (size_t i = 0; i < n; i += 1000) few[i] = static_cast<int32_t>(i % 7);
  expect_same(sort_text("i32", kRaggedRuns, false, true),
              {{buffer(few), buffer(std::vector<int32_t>(n)), buffer(std::vector<int32_t>(n))}, kExact, {""}});
}

void expect_equal_bits(const dsl::Kernel& kernel, const dsl::ConstexprValues& values,
                       const std::vector<TestArgument>& arguments, const client::LaunchOptions& options = {}) {
  auto artifact = compile(kernel, values);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::vector<std::vector<std::byte>> first;
  for (int threads = 1; threads <= 8; ++threads) {
    auto actual = arguments;
    client::LaunchOptions launch = options;
    launch.threads = threads;
    auto done = run_launched(kernel, *artifact, actual, launch);
    ASSERT_TRUE(done.ok()) << done.error().message;
    for (size_t i = 0; i < actual.size(); ++i) {
      if (threads == 1) first.push_back(actual[i].buffer);
      EXPECT_TRUE(actual[i].buffer == first[i]) << "argument " << i << ", threads " << threads;
    }
  }
}

TEST(Deterministic, EveryNumberOfThreadsGivesTheSameBits) {
  auto floats = [](size_t count, uint32_t seed) { return random_buffer(ElementType::kF32, count, seed, false); };
  for (const char* option : {"", "  option deterministic = true\n"}) {
    std::string sum = reduce_text("f32", "f32", kRagged, "{kind = sum, axis = 0}");
    sum.insert(sum.find("  grid"), option);
    expect_equal_bits(parse_kernel(sum), {}, {floats(kRagged, 1), floats(1, 2), int_scalar(kRagged)});
  }
  expect_equal_bits(parse_kernel(softmax_text(kRagged)), {},
                    {floats(kRagged, 1), floats(kRagged, 2), int_scalar(kRagged)});
  // A reduction and a dot a program.
  TextKernel k("%a: ptr<f32> readonly, %b: ptr<f32> readonly, %out: ptr<f32>");
  k.grid = "24, 1, 1";
  const TextKernel::Shape shape = {16, 16};
  const std::string pid = k.op("program_id {axis = 0}");
  const std::string far = k.op("mul " + pid + ", " + k.constant("256", "i32"));
  auto at = [&](const std::string& param) {
    return k.op("addptr " + k.pointers(param, shape) + ", " + k.splat(far, shape));
  };
  const std::string product =
      k.op("dot " + k.op("load " + at("%a")) + ", " + k.op("load " + at("%b")) + ", " + k.fill("0", "f32", shape));
  const std::string rows = k.op("reduce " + product + " {kind = sum, axis = 1}");
  const std::string column = k.op("expand_dims " + rows + " {axis = 1}");
  k.line("store " + at("%out") + ", " +
         k.op("div " + product + ", " + k.op("broadcast " + column + " {shape = [16, 16]}")));
  expect_equal_bits(parse_kernel(k.text()), {}, {floats(6144, 1), floats(6144, 2), floats(6144, 3)});
}

// An explicit grid gives every stage its programs and each program its part of the workspace.
TEST(Plan, AnExplicitGridCountsForAllStages) {
  TextKernel k("%x: ptr<i32> readonly, %out: ptr<i32>");
  const TextKernel::Shape shape = {kRagged};
  const std::string pid = k.op("program_id {axis = 0}");
  const std::string x = k.op("add " + k.op("load " + k.pointers("%x", shape)) + ", " + k.splat(pid, shape));
  k.line("store " + k.op("addptr %out, " + pid) + ", " + k.op("reduce " + x + " {kind = sum, axis = 0}"));
  const dsl::Kernel kernel = parse_kernel(k.text());
  auto artifact = compile(kernel, {});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::vector<TestArgument> arguments = {buffer(std::vector<int32_t>(kRagged, 1)), buffer(std::vector<int32_t>(5))};
  auto done = run_launched(kernel, *artifact, arguments, {.threads = 3, .grid = {{5, 1, 1}}});
  ASSERT_TRUE(done.ok()) << done.error().message;
  for (int32_t program = 0; program < 5; ++program) {
    EXPECT_EQ(values_of<int32_t>(arguments[1])[static_cast<size_t>(program)],
              (program + 1) * static_cast<int32_t>(kRagged));
  }
}

TEST(Plan, MetadataTellsHowToLaunch) {
  if (!wants_targets("cpu")) GTEST_SKIP() << kOfCpus;
  auto artifact = compile(parse_kernel(reduce_text("f32", "f32", kRagged, "{kind = sum, axis = 0}")), {});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::vector<abi::LaunchStep>& plan = artifact->metadata.plan;
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].entry, "kiln_stage_0");
  EXPECT_EQ(plan[0].chunks, 4);
  EXPECT_EQ(plan[1].entry, "kiln_entry");
  EXPECT_EQ(plan[1].chunks, 1);
  EXPECT_EQ(artifact->metadata.workspace_bytes, 64);
  EXPECT_EQ(artifact->metadata.params.size(), 3u);
}

}  // namespace
}  // namespace kiln::test
