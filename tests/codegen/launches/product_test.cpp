// Products whose loop is split (the schedule option split_k), against the interpreter, which runs the kernel as it was
// written: on CPUs, in AMD's machine code, and in the emulator of the lowering for GPUs, which takes stages as kernels.
#include "launches/product.h"

#include "product_kernels.h"

namespace kiln::test {
namespace {

using dsl::ElementType;
using namespace dsl::lang;

dsl::ConstexprValues with_parts(dsl::ConstexprValues config, int64_t parts) {
  config["split_k"] = parts;
  return config;
}

codegen::LaunchSequence split_launches(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, int64_t parts) {
  return gpu_launches(kernel, with_parts(config, parts));
}

dsl::Kernel make_kernel(const ProductBody& body) { return product_kernel({}, body); }
std::vector<TestArgument> arguments_of(int64_t k) { return product_arguments({}, k); }

// Sums that do not begin at zero, rows and columns of something else.
void with_bias(const ProductParts& p) {
  const Value column = load(p.bias + program_id(1) * 16 + arange(0, 16));
  const Value row = load(p.bias + arange(0, 16));
  const Value begin = zeros(f32_t, {16, 16}) + expand_dims(row, 1);
  store_block(p, max(product(p, begin) + column, 0));
}

void of_two(const ProductParts& p) { gated(p, 0); }

void expect_split_as_interpreted(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, int64_t parts,
                                 const std::vector<TestArgument>& arguments) {
  expect_product_as_interpreted(kernel, with_parts(config, parts), arguments);
}

TEST(SplitProduct, LengthsThatPartsDoNotDivide) {
  for (int64_t k : {0, 1, 31, 32, 33, 64, 100, 300}) {
    SCOPED_TRACE(k);
    expect_split_as_interpreted(make_kernel(plain), {}, 3, arguments_of(k));
  }
}

TEST(SplitProduct, WhatComesBehindTheLoop) {
  for (const ProductBody& body : {ProductBody(with_bias), ProductBody(normalised), ProductBody(of_two)}) {
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
  const auto chunks = [](const ProductBody& body, int64_t parts) {
    return chunks_of(split_launches(make_kernel(body), {}, parts));
  };
  EXPECT_EQ(chunks(plain, 4), (std::vector<int64_t>{4, 1}));  // of so few elements one program stores all
  EXPECT_EQ(chunks(normalised, 4), (std::vector<int64_t>{4, 1}));
  EXPECT_EQ(chunks(of_two, 2), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(chunks(plain, 1), (std::vector<int64_t>{1}));
  const auto carries_more = [](const ProductParts& p) {
    Var x = zeros(f32_t, {16, 16}), most = zeros(f32_t, {16, 16});
    for (Value k : range(0, p.K, 32)) {
      x = step_product(p, k, x);
      most = max(most, x);
    }
    store_block(p, most);
  };
  EXPECT_EQ(chunks(carries_more, 4), (std::vector<int64_t>{1}));
  const auto writes_before = [](const ProductParts& p) {
    store(p.c, 1.0f);
    plain(p);
  };
  EXPECT_EQ(chunks(writes_before, 4), (std::vector<int64_t>{1}));
  const auto prints = [](const ProductParts& p) {
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
  const codegen::LaunchSequence sequence = split_launches(*matmul, config, 4);
  EXPECT_EQ(chunks_of(sequence), (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(sequence.workspace_bytes, 4 * 128 * 128 * 4);
  EXPECT_EQ(sequence.steps[0].kernel.params.size(), sequence.kernel_params + 1);
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
    return chunks_of(split_launches(*ir, {}, 2));
  };
  EXPECT_EQ(in_place(true), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(in_place(false), (std::vector<int64_t>{2, 2}));
}

TEST(SplitProduct, SumsDoNotDependOnTheNumberOfThreads) {
  if (!wants_targets("cpu")) GTEST_SKIP() << "of CPUs";
  expect_alike_by_all_threads(make_kernel(plain), {{"split_k", 5}}, arguments_of(1000), {1, 2, 7});
}

}  // namespace
}  // namespace kiln::test
