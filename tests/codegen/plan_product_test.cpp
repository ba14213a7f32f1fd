// Products whose loop is split (the launch option split_k), against the interpreter, which runs the kernel as it was
// written: on CPUs, in AMD's machine code, and in the emulator of the lowering for GPUs, which takes stages as kernels.
#include "plan_product.h"

#include "kiln/dsl/kernels.h"
#include "plan_harness.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using namespace dsl::lang;

dsl::ConstexprValues with_parts(dsl::ConstexprValues config, int64_t parts) {
  config["split_k"] = parts;
  return config;
}

codegen::Plan split_plan(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, int64_t parts) {
  return gpu_plan(kernel, with_parts(config, parts));
}

// A loop over k that multiplies [16, 32] by [32, 16], and what is done with the sums.
struct Parts {
  Ptr<const f32> a, b, bias;
  Ptr<f32> c;
  i32 K;
};
using Body = std::function<void(const Parts&)>;

dsl::Kernel make_kernel(const Body& body) {
  const auto def = kernel("k", {"a", "b", "bias", "c", "K"},
                          [&](Ptr<const f32> a, Ptr<const f32> b, Ptr<const f32> bias, Ptr<f32> c, i32 K) {
                            grid(2, 2);
                            body({a, b, bias, c, K});
                          });
  auto ir = def.ir();
  EXPECT_TRUE(ir.ok()) << ir.error().message;
  return *ir;
}

// Of the program's rows of a [32, K] and columns of b [K, 32].
Value step_product(const Parts& p, const Value& k, const Value& sum) {
  return dot(tile(p.a, {32, p.K}).load({program_id(0) * 16, k}, {16, 32}),
             tile(p.b, {p.K, 32}).load({k, program_id(1) * 16}, {32, 16}), sum);
}

Value product(const Parts& p, const Value& first) {
  Var sum = first;
  for (Value k : range(0, p.K, 32).stages(2)) sum = step_product(p, k, sum);
  return sum;
}

void store_block(const Parts& p, const Value& x) {
  tile(p.c, {32, 32}).store({program_id(0) * 16, program_id(1) * 16}, x);
}

void plain(const Parts& p) { store_block(p, product(p, zeros(f32_t, {16, 16}))); }

// Sums that do not begin at zero, rows and columns of something else.
void with_bias(const Parts& p) {
  const Value column = load(p.bias + program_id(1) * 16 + arange(0, 16));
  const Value row = load(p.bias + arange(0, 16));
  const Value begin = zeros(f32_t, {16, 16}) + expand_dims(row, 1);
  store_block(p, max(product(p, begin) + column, 0));
}

// Rows need each other: what is behind the loop is one program's.
void normalised(const Parts& p) {
  const Value x = product(p, zeros(f32_t, {16, 16}));
  store_block(p, x - expand_dims(sum(x, 0), 0) / 16);
}

// Two sums, of different extents.
void gated(const Parts& p) {
  Var x = zeros(f32_t, {16, 16}), y = zeros(f32_t, {16, 16});
  for (Value k : range(0, p.K, 32)) {
    x = step_product(p, k, x);
    y = step_product({p.b, p.a, p.bias, p.c, p.K}, k, y);
  }
  store_block(p, x * y);
}

std::vector<TestArgument> arguments_of(int64_t k) {
  const auto count = static_cast<size_t>(32 * std::max<int64_t>(k, 1));
  return {random_buffer(ElementType::kF32, count, 1, false), random_buffer(ElementType::kF32, count, 2, false),
          random_buffer(ElementType::kF32, 32, 3, false), buffer(std::vector<float>(1024, -77)), int_scalar(k)};
}

void expect_split_as_interpreted(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, int64_t parts,
                                 const std::vector<TestArgument>& arguments) {
  expect_as_interpreted(kernel, {arguments,
                                 {1e-4, 2e-3, true},
                                 with_parts(config, parts),
                                 {"gpu:warps=4,groups=1", "gpu:warps=4,groups=1,copying=1", "gpu:warps=2,groups=0"}});
}

TEST(SplitProduct, LengthsThatPartsDoNotDivide) {
  for (int64_t k : {0, 1, 31, 32, 33, 64, 100, 300}) {
    SCOPED_TRACE(k);
    expect_split_as_interpreted(make_kernel(plain), {}, 3, arguments_of(k));
  }
}

TEST(SplitProduct, WhatComesBehindTheLoop) {
  for (const Body& body : {Body(with_bias), Body(normalised), Body(gated)}) {
    expect_split_as_interpreted(make_kernel(body), {}, 4, arguments_of(200));
  }
}

template <class T>
void check_matmul(ElementType type, ElementType result, int64_t k) {
  SCOPED_TRACE(std::string(dsl::info(type).name));
  const auto& def = kernels::matmul<T>().ir();
  ASSERT_TRUE(def.ok());
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  expect_split_as_interpreted(
      *def, {{"BM", 128}, {"BN", 32}, {"BK", 32}}, 4,
      {random_buffer(type, size(100 * k), 1, false), random_buffer(type, size(k * 40), 2, false),
       random_buffer(result, size(100 * 40), 3, false), int_scalar(100), int_scalar(40), int_scalar(k)});
}

TEST(SplitProduct, TheLibrarysProducts) {
  check_matmul<lang::f32>(ElementType::kF32, ElementType::kF32, 333);
  check_matmul<lang::i8>(ElementType::kI8, ElementType::kI32, 336);
}

TEST(SplitProduct, WhatIsSplitAndWhatIsNot) {
  const auto chunks = [](const Body& body, int64_t parts) {
    return chunks_of(split_plan(make_kernel(body), {}, parts));
  };
  EXPECT_EQ(chunks(plain, 4), (std::vector<int64_t>{4, 1}));  // of so few elements one program stores all
  EXPECT_EQ(chunks(normalised, 4), (std::vector<int64_t>{4, 1}));
  EXPECT_EQ(chunks(gated, 2), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(chunks(plain, 1), (std::vector<int64_t>{1}));
  const auto carries_more = [](const Parts& p) {
    Var x = zeros(f32_t, {16, 16}), most = zeros(f32_t, {16, 16});
    for (Value k : range(0, p.K, 32)) {
      x = step_product(p, k, x);
      most = max(most, x);
    }
    store_block(p, most);
  };
  EXPECT_EQ(chunks(carries_more, 4), (std::vector<int64_t>{1}));
  const auto writes_before = [](const Parts& p) {
    store(p.c, 1.0f);
    plain(p);
  };
  EXPECT_EQ(chunks(writes_before, 4), (std::vector<int64_t>{1}));
  const auto prints = [](const Parts& p) {
    plain(p);
    print("done", {p.K});
  };
  EXPECT_EQ(chunks(prints, 4), (std::vector<int64_t>{1}));
}

// Large tiles are stored by rows, in programs of their own, unless these would read what others store.
TEST(SplitProduct, TheLastStageIsCutToo) {
  const auto& matmul = kernels::matmul<lang::bf16>().ir();
  ASSERT_TRUE(matmul.ok());
  const dsl::ConstexprValues config = {{"BM", 128}, {"BN", 128}, {"BK", 64}};
  const codegen::Plan plan = split_plan(*matmul, config, 4);
  EXPECT_EQ(chunks_of(plan), (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(plan.workspace_bytes, 4 * 128 * 128 * 4);
  EXPECT_EQ(plan.stages[0].kernel.params.size(), plan.kernel_params + 1);
  const auto in_place = [](bool moved) {
    const auto def = kernel("k", {"a", "c", "K"}, [&](Ptr<const f32> a, Ptr<f32> c, i32 K) {
      Var sum = zeros(f32_t, {64, 64});
      for (Value k : range(0, K, 32)) {
        const auto block = tile(a, {64, K}).load({0, k}, {64, 32});
        sum = dot(block, trans(block), sum);
      }
      const Value before = tile(c, {64, 64}).load({0, 0}, {64, 64});
      tile(c, {64, 64}).store({0, 0}, sum + (moved ? trans(before) : before));
    });
    auto ir = def.ir();
    EXPECT_TRUE(ir.ok()) << ir.error().message;
    return chunks_of(split_plan(*ir, {}, 2));
  };
  EXPECT_EQ(in_place(true), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(in_place(false), (std::vector<int64_t>{2, 2}));
}

TEST(SplitProduct, SumsDoNotDependOnTheNumberOfThreads) {
  if (!wants_targets("cpu")) GTEST_SKIP() << "of CPUs";
  const dsl::Kernel kernel = make_kernel(plain);
  auto artifact = compile(kernel, {{"split_k", 5}});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::vector<std::byte> first;
  for (int threads : {1, 2, 7}) {
    auto arguments = arguments_of(1000);
    auto done = run_launched(kernel, *artifact, arguments, {.threads = threads});
    ASSERT_TRUE(done.ok()) << done.error().message;
    if (first.empty()) first = arguments[3].buffer;
    EXPECT_EQ(arguments[3].buffer, first) << threads;
  }
}

}  // namespace
}  // namespace kiln::test
