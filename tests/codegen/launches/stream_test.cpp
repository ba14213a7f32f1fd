// Products whose iterations are dealt out to workers (the schedule option stream_k), against the interpreter, which
// runs the kernel as it was written: on CPUs, in AMD's machine code, and in the emulator of the lowering for GPUs.
#include "launches/stream.h"

#include "product_kernels.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using namespace dsl::lang;

struct Dealt {
  int64_t workers, chunks = 1;
  dsl::ConstexprValues config(dsl::ConstexprValues blocks = {}) const {
    blocks["stream_k"] = workers;
    if (chunks > 1) blocks["split_k"] = chunks;
    return blocks;
  }
};

std::vector<int64_t> chunks(const dsl::Kernel& kernel, const dsl::ConstexprValues& config) {
  return chunks_of(gpu_launches(kernel, config));
}

void expect_dealt_as_interpreted(const dsl::Kernel& kernel, const dsl::ConstexprValues& config,
                                 const std::vector<TestArgument>& arguments) {
  EXPECT_EQ(chunks(kernel, config).size(), 2u);
  expect_product_as_interpreted(kernel, config, arguments);
}

struct Shape {
  int64_t m, n, k;
};

std::vector<TestArgument> arguments_of(const Shape& shape, ElementType type = ElementType::kF32,
                                       ElementType result = ElementType::kF32) {
  const auto size = [](int64_t a, int64_t b) { return static_cast<size_t>(std::max<int64_t>(a * b, 1)); };
  return {random_buffer(type, size(shape.m, shape.k), 1, false),
          random_buffer(type, size(shape.k, shape.n), 2, false),
          random_buffer(result, size(shape.m, shape.n), 3, false),
          int_scalar(shape.m),
          int_scalar(shape.n),
          int_scalar(shape.k)};
}

const dsl::Kernel& matmul() { return *kernels::matmul<lang::f32>().ir(); }
const dsl::ConstexprValues kBlocks = {{"BM", 32}, {"BN", 16}, {"BK", 32}};

// 6 programs of 5 iterations, the last ones cut: 30 iterations.
TEST(StreamProduct, WorkersThatDivideTheIterationsOrDoNot) {
  for (const Dealt& dealt : {Dealt{4}, {7}, {1}, {5, 2}, {7, 2}, {12, 2}, {11, 3}}) {
    SCOPED_TRACE(std::to_string(dealt.workers) + " of " + std::to_string(dealt.chunks));
    expect_dealt_as_interpreted(matmul(), dealt.config(kBlocks), arguments_of({70, 30, 150}));
  }
}

TEST(StreamProduct, MoreWorkersThanChunksOrIterations) {
  for (const Dealt& dealt : {Dealt{100}, {100, 3}, {1024, 8}}) {
    SCOPED_TRACE(std::to_string(dealt.workers) + " of " + std::to_string(dealt.chunks));
    expect_dealt_as_interpreted(matmul(), dealt.config(kBlocks), arguments_of({70, 30, 150}));
  }
}

TEST(StreamProduct, NoIterationsOneAndOneProgram) {
  for (const Dealt& dealt : {Dealt{4}, {5, 2}, {3, 4}}) {
    for (const Shape& shape : {Shape{70, 30, 0}, {70, 30, 1}, {70, 30, 32}, {20, 10, 33}, {20, 10, 300}, {20, 10, 0}}) {
      SCOPED_TRACE(std::to_string(dealt.workers) + " of " + std::to_string(dealt.chunks) + ", " +
                   std::to_string(shape.m) + " by " + std::to_string(shape.k));
      expect_dealt_as_interpreted(matmul(), dealt.config(kBlocks), arguments_of(shape));
    }
  }
}

TEST(StreamProduct, OfOtherTypes) {
  expect_dealt_as_interpreted(*kernels::matmul<lang::i8>().ir(),
                              Dealt{5, 2}.config({{"BM", 64}, {"BN", 32}, {"BK", 32}}),
                              arguments_of({100, 40, 208}, ElementType::kI8, ElementType::kI32));
  expect_dealt_as_interpreted(*kernels::matmul<lang::bf16>().ir(),
                              Dealt{5, 2}.config({{"BM", 64}, {"BN", 32}, {"BK", 32}}),
                              arguments_of({100, 40, 208}, ElementType::kBF16, ElementType::kBF16));
}

TEST(StreamProduct, GridsOfTwoAxes) {
  const auto count = [](int64_t x) { return static_cast<size_t>(x); };
  const int64_t batch = 3, m = 40, n = 20, k = 100;
  expect_dealt_as_interpreted(*kernels::batched_matmul<lang::f32>().ir(), Dealt{7, 2}.config(kBlocks),
                              {random_buffer(ElementType::kF32, count(batch * m * k), 1, false),
                               random_buffer(ElementType::kF32, count(batch * k * n), 2, false),
                               random_buffer(ElementType::kF32, count(batch * m * n), 3, false), int_scalar(batch),
                               int_scalar(m), int_scalar(n), int_scalar(k)});
}

// What programs look up before the loop is looked up for each program anew.
TEST(StreamProduct, WhatProgramsLoadBeforeTheLoop) {
  const auto& grouped = kernels::grouped_matmul<lang::f32>().ir();
  ASSERT_TRUE(grouped.ok());
  const int64_t m = 50, n = 40, k = 70;
  expect_dealt_as_interpreted(
      *grouped, Dealt{5}.config({{"BM", 16}, {"BN", 32}, {"BK", 32}, {"GROUPS", 4}}),
      {random_buffer(ElementType::kF32, m * k, 1, false), random_buffer(ElementType::kF32, 3 * k * n, 2, false),
       buffer(std::vector<int32_t>{17, 0, 30}), random_buffer(ElementType::kF32, m * n, 3, false), int_scalar(m),
       int_scalar(n), int_scalar(k), int_scalar(3)});
}

// Programs of a grid of three axes.
constexpr ProductGrid kBatches = {.columns = 48, .batches = 2};

dsl::Kernel make_kernel(const ProductBody& body) { return product_kernel(kBatches, body); }
std::vector<TestArgument> arguments_of(int64_t k) { return product_arguments(kBatches, k); }

// Sums that do not begin at zero.
void with_bias(const ProductParts& p) {
  const Value row = load(p.bias + program_id(2) * 16 + arange(0, 16));
  const Value begin = zeros(f32_t, {16, 16}) + expand_dims(row, 1);
  store_block(p, max(product(p, begin), 0));
}

TEST(StreamProduct, GridsOfThreeAxesAndWhatComesBehindTheLoop) {
  const auto of_two = [](const ProductParts& p) { gated(p, 32); };
  for (const ProductBody& body :
       {ProductBody(plain), ProductBody(with_bias), ProductBody(normalised), ProductBody(of_two)}) {
    expect_dealt_as_interpreted(make_kernel(body), Dealt{7}.config(), arguments_of(130));
    expect_dealt_as_interpreted(make_kernel(body), Dealt{17, 2}.config(), arguments_of(200));
  }
  expect_dealt_as_interpreted(make_kernel(with_bias), Dealt{7}.config(), arguments_of(0));
}

// Sums of several types, which lie in the workspace as words.
TEST(StreamProduct, SumsOfTwoTypes) {
  const auto def = kernel("k", {"a", "i", "c", "d"}, [](Ptr<const f32> a, Ptr<const i8> i, Ptr<f32> c, Ptr<i32> d) {
    grid(3);
    Var x = zeros(f32_t, {16, 16}), y = zeros(i32_t, {16, 16});
    const Value at = program_id(0) * 16;
    for (Value k : range(0, 128, 32)) {
      const Value block = tile(a, {48, 128}).load({at, k}, {16, 32});
      const Value bytes = tile(i, {48, 128}).load({at, k}, {16, 32});
      x = dot(block, trans(block), x);
      y = dot(bytes, trans(bytes), y);
    }
    tile(c, {48, 16}).store({at, 0}, x);
    tile(d, {48, 16}).store({at, 0}, y);
  });
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  expect_dealt_as_interpreted(
      *def.ir(), Dealt{2}.config(),
      {random_buffer(ElementType::kF32, 48 * 128, 1, false), random_buffer(ElementType::kI8, 48 * 128, 2, false),
       buffer(std::vector<float>(48 * 16, -77)), buffer(std::vector<int32_t>(48 * 16, -77))});
}

TEST(StreamProduct, WhatIsSplitAndWhatIsNot) {
  const dsl::Kernel kernel = make_kernel(plain);
  EXPECT_EQ(chunks(kernel, Dealt{4}.config()), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(chunks(kernel, Dealt{4, 3}.config()), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(chunks(kernel, {{"stream_k", 0}}), (std::vector<int64_t>{1}));
  EXPECT_EQ(chunks(kernel, {{"stream_k", 0}, {"split_k", 3}}), (std::vector<int64_t>{3, 1}));
  const auto of_own_length = [](const ProductParts& p) {
    Var sum = zeros(f32_t, {16, 16});
    for (Value k : range(program_id(0) * 32, p.K, 32)) sum = step_product(p, k, sum);
    store_block(p, sum);
  };
  EXPECT_EQ(chunks(make_kernel(of_own_length), Dealt{4, 2}.config()), (std::vector<int64_t>{1}));
  const auto of_loaded_length = [](const ProductParts& p) {
    Var sum = zeros(f32_t, {16, 16});
    for (Value k : range(0, cast(load(p.bias), i32_t), 32)) sum = step_product(p, k, sum);
    store_block(p, sum);
  };
  EXPECT_EQ(chunks(make_kernel(of_loaded_length), Dealt{4, 2}.config()), (std::vector<int64_t>{1}));
}

// One slot more than chunks; the last stage is cut by rows.
TEST(StreamProduct, HasRoomForWhatAProgramsWorkersHave) {
  const codegen::LaunchSequence sequence =
      gpu_launches(*kernels::matmul<lang::bf16>().ir(), Dealt{132, 2}.config({{"BM", 128}, {"BN", 128}, {"BK", 64}}));
  EXPECT_EQ(chunks_of(sequence), (std::vector<int64_t>{2, 8}));
  EXPECT_EQ(sequence.workspace_bytes, 3 * 128 * 128 * 4);
  EXPECT_EQ(sequence.steps[0].kernel.params.size(), sequence.kernel_params + 1);
}

TEST(StreamProduct, SumsDoNotDependOnTheNumberOfThreads) {
  if (!wants_targets("cpu")) GTEST_SKIP() << "of CPUs";
  expect_alike_by_all_threads(make_kernel(plain), Dealt{17, 2}.config(), arguments_of(1000), {1, 2, 7, 2, 1});
}

}  // namespace
}  // namespace kiln::test
