// Plans of GPUs: long reductions, top-k and sorts in chunks that a block holds, and their stores in chunks too, against
// the interpreter, which runs the kernel as it was written.
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/kernels.h"
#include "kiln/dsl/text.h"
#include "launch_harness.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using Shape = TextKernel::Shape;

// The shortest that is reduced or sorted by a plan.
constexpr int64_t kReduced = 1 << 16, kSorted = 1 << 15, kChunk = 1 << 13;

void expect_chunks(const std::string& text, const std::vector<int64_t>& chunks) {
  EXPECT_EQ(chunks_of(gpu_launches(parse_kernel(text))), chunks) << text;
}

std::string with(std::string text, const std::string& what, const std::string& instead) {
  return text.replace(text.find(what), what.size(), instead);
}

std::string sum_text(int64_t elements) { return reduce_text("f32", "f32", elements, "{kind = sum, axis = 0}"); }

// Reduces a tile along an axis.
std::string tile_text(const Shape& shape, size_t axis, const std::string& kind) {
  TextKernel k("%x: ptr<i32> readonly, %out: ptr<i32>");
  const Shape rest = {shape[1 - axis]};
  const std::string x = k.op("load " + k.pointers("%x", shape));
  k.line("store " + k.pointers("%out", rest) + ", " +
         k.op("reduce " + x + " {kind = " + kind + ", axis = " + std::to_string(axis) + "}"));
  return k.text();
}

TEST(GpuPlan, WhatIsSplitAndWhatIsNot) {
  expect_chunks(sum_text(kReduced), {8, 1});
  expect_chunks(sum_text(kReduced - 1), {1});
  expect_chunks(sum_text(kReduced + 1), {9, 1});
  expect_chunks(with(sum_text(kReduced), "[1, 1, 1]", "[8, 8, 1]"), {8, 1});
  expect_chunks(with(sum_text(kReduced), "[1, 1, 1]", "[65, 1, 1]"), {1});
  // Nobody knows of how many programs: what a block cannot hold anyway.
  expect_chunks(with(sum_text(4 * kReduced - 1), "[1, 1, 1]", "[n, 1, 1]"), {1});
  expect_chunks(with(sum_text(4 * kReduced), "[1, 1, 1]", "[n, 1, 1]"), {32, 1});
  // What the host is told is told by the kernel as it was written.
  expect_chunks(with(sum_text(kReduced), "  grid", "  option check_bounds = true\n  grid"), {1});
  expect_chunks(with(sum_text(kReduced), "  store", "  print %n {message = \"n\"}\n  store"), {1});
  // Elements are those of the tile.
  expect_chunks(tile_text({3, kReduced / 2}, 1, "sum"), {16, 1});
  expect_chunks(tile_text({kReduced / 2, 3}, 0, "sum"), {16, 1});
  expect_chunks(tile_text({512, 512}, 1, "sum"), {1});
}

// What is stored first has nothing to do with it.
TEST(GpuPlan, WhatComesBehindAStore) {
  TextKernel k("%x: ptr<i32> readonly, %sum: ptr<i32>, %most: ptr<i32>");
  const std::string x = k.op("load " + k.pointers("%x", {kReduced}));
  k.line("store %sum, " + k.op("reduce " + x + " {kind = sum, axis = 0}"));
  k.line("store %most, " + k.op("reduce " + x + " {kind = max, axis = 0}"));
  expect_chunks(k.text(), {8, 1});
  expect_as_interpreted(parse_kernel(k.text()),
                        {{random_buffer(ElementType::kI32, kReduced, 5), random_buffer(ElementType::kI32, 1, 6),
                          random_buffer(ElementType::kI32, 1, 7)}});
}

// Stages that load the same are one, also where the last chunk has a length of its own; others stay by themselves.
TEST(GpuPlan, ChunksOfOneTileAreLoadedOnce) {
  for (int64_t n : {kReduced, kReduced + 77}) {
    for (bool is_same : {true, false}) {
      TextKernel k("%x: ptr<i32> readonly, %y: ptr<i32> readonly, %out: ptr<i32>");
      const std::string x = k.op("load " + k.pointers("%x", {n}));
      const std::string y = is_same ? x : k.op("load " + k.pointers("%y", {n}));
      const std::string sum = k.op("reduce " + x + " {kind = sum, axis = 0}");
      const std::string most = k.op("reduce " + y + " {kind = argmax, axis = 0}");
      k.line("store %out, " + k.op("xor " + sum + ", " + most));
      const int64_t chunks = (n + kChunk - 1) / kChunk;
      expect_chunks(k.text(), is_same ? std::vector{chunks, int64_t{1}} : std::vector{chunks, chunks, int64_t{1}});
      expect_as_interpreted(parse_kernel(k.text()), {{random_buffer(ElementType::kI32, static_cast<size_t>(n), 5),
                                                      random_buffer(ElementType::kI32, static_cast<size_t>(n), 6),
                                                      random_buffer(ElementType::kI32, 1, 7)}});
    }
  }
}

// The second stage takes up what the first one stores.
TEST(GpuPlan, ChainsStayInTheirOrder) { expect_chunks(softmax_text(kReduced), {8, 8, 8}); }

TEST(GpuPlan, WhatIsPutInOrder) {
  expect_chunks(topk_text(kSorted, 5, true), {4, 1});
  expect_chunks(topk_text(kSorted - 1, 5, true), {1});
  expect_chunks(topk_text(kSorted + 5, 5, true), {5, 1});
  expect_chunks(topk_text(kSorted + 4, 5, true), {4, 1});  // the last chunk has the rest too
  expect_chunks(topk_text(kSorted, kChunk / 16 + 1, true), {1});
  expect_chunks(topk_text(16 * kSorted, kChunk / 16, true), {64, 4, 1});  // of so many candidates again
  expect_chunks(sort_text("f32", kSorted, false, true), {4, 4, 4});
  expect_chunks(sort_text("f32", kSorted + 1, false, true), {5, 5, 5});
  expect_chunks(sort_text("f32", kSorted - 1, false, true), {1});
}

TEST(GpuPlan, LongStoresAreCutToo) { expect_chunks(softmax_text(kReduced + 1), {9, 9, 9}); }

void expect_reduced(const std::string& type, const std::string& out, const std::string& kind, const Match& match,
                    bool specials) {
  SCOPED_TRACE(type + " " + kind);
  const auto element = *dsl::parse_element_type(type), result = *dsl::parse_element_type(out);
  for (int64_t elements : {kReduced, kReduced + kChunk + 77}) {
    const std::string text = reduce_text(type, out, elements, "{kind = " + kind + ", axis = 0}");
    const int64_t n = elements == kReduced ? elements : elements / 2 + 7;
    expect_as_interpreted(parse_kernel(text), {{random_buffer(element, static_cast<size_t>(elements), 5, specials),
                                                random_buffer(result, 1, 6), int_scalar(n)},
                                               match});
  }
}

TEST(GpuPlan, ReductionsOfEveryKind) {
  expect_reduced("f32", "f32", "sum", {1e-4, 2e-2, false}, false);
  expect_reduced("bf16", "bf16", "sum", {1e-2, 2e-2, false}, false);
  expect_reduced("i64", "i64", "prod", kExact, true);
  expect_reduced("f16", "f16", "min", {0, 0, true}, false);
  expect_reduced("u8", "u8", "xor", kExact, true);
  expect_reduced("i1", "i1", "or", kExact, true);
  expect_reduced("f32", "i32", "argmax", kExact, true);
}

// The extreme and its index are handed on as words of one type, the wider one's.
TEST(GpuPlan, PartialResultsOfSeveralTypes) {
  for (const char* type : {"f64", "i64", "f16", "bf16", "i8", "u16"})
    expect_reduced(type, "i32", "argmin", kExact, true);
}

TEST(GpuPlan, CustomReductionsKeepTheirOrder) {
  // Not commutative: the left one's first, the right one's last; and of two types.
  TextKernel k("%x: ptr<i16> readonly, %y: ptr<f32> readonly, %out: ptr<i16>, %last: ptr<f32>");
  const Shape shape = {kReduced + 1};
  const std::string x = k.op("load " + k.pointers("%x", shape)), y = k.op("load " + k.pointers("%y", shape));
  k.line("%a, %b = reduce " + x + ", " + y + " {kind = custom, axis = 0} (%l0, %l1, %r0, %r1) {");
  k.line("  yield %l0, %r1");
  k.line("}");
  k.line("store %out, %a");
  k.line("store %last, %b");
  const auto n = static_cast<size_t>(shape[0]);
  expect_as_interpreted(parse_kernel(k.text()),
                        {{random_buffer(ElementType::kI16, n, 3), random_buffer(ElementType::kF32, n, 4),
                          random_buffer(ElementType::kI16, 1, 5), random_buffer(ElementType::kF32, 1, 6)}});
}

TEST(GpuPlan, AxesOfLargerTiles) {
  for (const char* kind : {"sum", "argmax"}) {
    for (size_t axis : {0, 1}) {
      const int64_t extent = kReduced / 2 + 100;
      const std::string text = tile_text(axis == 0 ? Shape{extent, 3} : Shape{3, extent}, axis, kind);
      expect_as_interpreted(parse_kernel(text), {{random_buffer(ElementType::kI32, static_cast<size_t>(3 * extent), 1),
                                                  random_buffer(ElementType::kI32, 3, 2)}});
    }
  }
}

// Each program of the grid has its part of the workspace.
TEST(GpuPlan, SeveralPrograms) {
  TextKernel k("%x: ptr<i32> readonly, %out: ptr<i32>");
  k.grid = "2, 1, 2";
  const Shape shape = {kReduced};
  const std::string plane = k.op("mul " + k.op("program_id {axis = 2}") + ", " + k.constant("2", "i32"));
  const std::string program = k.op("add " + k.op("program_id {axis = 0}") + ", " + plane);
  const std::string x = k.op("xor " + k.op("load " + k.pointers("%x", shape)) + ", " + k.splat(program, shape));
  k.line("store " + k.op("addptr %out, " + program) + ", " + k.op("reduce " + x + " {kind = sum, axis = 0}"));
  expect_as_interpreted(parse_kernel(k.text()),
                        {{random_buffer(ElementType::kI32, kReduced, 1), random_buffer(ElementType::kI32, 4, 2)}});
}

TEST(GpuPlan, ChainsOfReductions) {
  for (int64_t n : {kReduced + kChunk / 2, int64_t{1}, int64_t{0}}) {
    const int64_t columns = kReduced + kChunk;
    const auto count = static_cast<size_t>(columns);
    expect_as_interpreted(
        parse_kernel(softmax_text(columns)),
        {{random_buffer(ElementType::kF32, count, 1, false), random_buffer(ElementType::kF32, count, 2), int_scalar(n)},
         {1e-4, 1e-9, true}});
  }
}

// In place, with a mean that is stored too.
TEST(GpuPlan, StoresInPlaceAndLittleOnes) {
  TextKernel k("%x: ptr<f32>, %mean: ptr<f32>");
  const Shape shape = {kReduced + 3};
  const std::string at = k.pointers("%x", shape), x = k.op("load " + at);
  const std::string sum = k.op("reduce " + x + " {kind = sum, axis = 0}");
  const std::string mean = k.op("mul " + sum + ", " + k.constant("0.0000152587890625", "f32"));
  k.line("store " + at + ", " + k.op("sub " + x + ", " + k.splat(mean, shape)));
  k.line("store %mean, " + mean);
  expect_chunks(k.text(), {9, 9});
  expect_as_interpreted(parse_kernel(k.text()),
                        {{random_buffer(ElementType::kF32, static_cast<size_t>(shape[0]), 1, false),
                          random_buffer(ElementType::kF32, 1, 2)},
                         {1e-4, 1e-4, true}});
}

// A program may not store what another one still has to load.
TEST(GpuPlan, ReversedInPlaceIsStoredByOneProgram) {
  TextKernel k("%x: ptr<i32>");
  const Shape shape = {kReduced};
  const std::string x = k.op("load " + k.pointers("%x", shape));
  const std::string sum = k.op("reduce " + x + " {kind = sum, axis = 0}");
  const std::string last = k.fill(std::to_string(kReduced - 1), "i32", shape);
  const std::string from_end = k.op("sub " + last + ", " + k.along(shape, 0));
  const std::string to = k.op("addptr " + k.splat("%x", shape) + ", " + from_end);
  k.line("store " + to + ", " + k.op("sub " + x + ", " + k.splat(sum, shape)));
  expect_chunks(k.text(), {8, 1});
}

TEST(GpuPlan, TopkOfCandidates) {
  for (bool largest : {false, true}) {
    for (int64_t k : {1, 5, 64}) {
      const int64_t elements = kSorted + (largest ? 3 : 1000);
      const auto n = static_cast<size_t>(k);
      expect_as_interpreted(parse_kernel(topk_text(elements, k, largest)),
                            {{random_buffer(ElementType::kI32, static_cast<size_t>(elements), 1, false),
                              buffer(std::vector<int32_t>(n)), buffer(std::vector<int32_t>(n))}});
    }
  }
}

// Two rows of wide keys, of whose places nobody asks, or somebody does; few of a row are not alike.
TEST(GpuPlan, TopkOfRows) {
  constexpr int64_t kColumns = 12 * 1024;
  for (bool wants_indices : {false, true}) {
    TextKernel k("%x: ptr<u64> readonly, %v: ptr<u64>, %i: ptr<i32>");
    const Shape shape = {2, kColumns}, out = {2, 20};
    k.line("%a, %b = topk " + k.op("load " + k.pointers("%x", shape)) + " {k = 20, axis = 1}");
    k.line("store " + k.pointers("%v", out) + ", %a");
    if (wants_indices) k.line("store " + k.pointers("%i", out) + ", %b");
    expect_chunks(k.text(), {3, 1});
    std::vector<uint64_t> keys = values_of<uint64_t>(random_buffer(ElementType::kU64, 2 * kColumns, 3, false));
    for (size_t i = kColumns; i < keys.size(); ++i) {
      if (i % 1000 != 0) keys[i] = 0;
    }
    expect_as_interpreted(parse_kernel(k.text()), {{buffer(keys), random_buffer(ElementType::kU64, 40, 1),
                                                    random_buffer(ElementType::kI32, 40, 2)}});
  }
}

// It counts and selects in one stage, from two classes, of which one has fewer members than are wanted.
TEST(GpuPlan, SamplerOfALongSet) {
  constexpr int64_t kElements = 36'000, kRows = 8, kColumns = 3, kBatch = 2;
  std::vector<int32_t> labels(kElements, 0);
  for (size_t i : {7, 20'000, 20'001, 35'999}) labels[i] = 1;
  LaunchTrial trial{{buffer(labels), random_buffer(ElementType::kF32, kElements * kColumns, 1, false),
                     random_buffer(ElementType::kI32, kBatch * 2 * kRows, 2),
                     random_buffer(ElementType::kF32, kBatch * 2 * kRows * kColumns, 3, false),
                     random_buffer(ElementType::kI32, kBatch * 2, 4), int_scalar(kBatch), int_scalar(kElements),
                     int_scalar(kColumns), int_scalar(7)}};
  trial.config = {{"K", kRows}, {"BLOCK", 36'864}, {"BC", 4}};
  const dsl::Kernel& kernel = *kernels::class_balanced_sampler_long<dsl::lang::f32>().ir();
  EXPECT_EQ(chunks_of(gpu_launches(kernel, trial.config)), (std::vector<int64_t>{9, 1}));
  expect_as_interpreted(kernel, trial);
}

void expect_sorted(const std::string& type, int64_t elements, bool descending,
                   const std::vector<std::string>& compiled) {
  SCOPED_TRACE(type + (descending ? " descending" : ""));
  const auto element = *dsl::parse_element_type(type);
  const auto n = static_cast<size_t>(elements);
  LaunchTrial trial{{random_buffer(element, n, 7, dsl::is_float(element)), random_buffer(element, n, 8),
                     buffer(std::vector<int32_t>(n))},
                    {0, 0, true}};
  trial.compiled = compiled;
  expect_as_interpreted(parse_kernel(sort_text(type, elements, descending, true)), trial);
}

TEST(GpuPlan, SortsOfRuns) {
  expect_sorted("f32", kSorted, false, {"", "amd:gfx942"});
  const std::pair<const char*, int64_t> ragged[] = {{"f32", kSorted + 1}, {"bf16", kSorted + 1234}};
  for (const auto& [type, elements] : ragged) {
    if (is_sampled(2)) expect_sorted(type, elements, true, {""});
  }
}

// Any keys; and most of them one, whose copies are divided among the runs.
TEST(GpuPlan, SortsOfEqualKeys) {
  const size_t n = kSorted + 1234;
  const std::vector<std::string> compiled = {"", "amd:gfx1100"};
  if (is_sampled(2)) expect_sorted("i32", n, false, compiled);
  std::vector<int32_t> few(n, 5);
  for (size_t i = 0; i < n; i += 1000) few[i] = static_cast<int32_t>(i % 7);
  LaunchTrial trial{{buffer(few), buffer(std::vector<int32_t>(n)), buffer(std::vector<int32_t>(n))}};
  trial.compiled = compiled;
  expect_as_interpreted(parse_kernel(sort_text("i32", n, false, true)), trial);
}

// Keys of 64 bits, of which chunks have half as many.
TEST(GpuPlan, SortsOfWideKeys) {
  expect_chunks(sort_text("f64", kSorted / 2, false, true), {4, 4, 4});
  expect_sorted("f64", kSorted / 2 + 77, false, {""});
}

}  // namespace
}  // namespace kiln::test
