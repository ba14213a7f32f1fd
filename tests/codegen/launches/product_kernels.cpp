#include "product_kernels.h"

#include <algorithm>

namespace kiln::test {

using dsl::ElementType;
using namespace dsl::lang;

namespace {

constexpr int64_t kRows = 32, kBlock = 16, kStep = 32;

bool results_are_bf16(const dsl::Kernel& kernel) {
  return std::ranges::any_of(kernel.params, [](const dsl::Param& param) {
    return param.type.pointer && !param.readonly && param.type.element == ElementType::kBF16;
  });
}

}  // namespace

dsl::Kernel product_kernel(const ProductGrid& of, const ProductBody& body) {
  const auto def = kernel("k", {"a", "b", "bias", "c", "K"},
                          [&](Ptr<const f32> a, Ptr<const f32> b, Ptr<const f32> bias, Ptr<f32> c, i32 K) {
                            grid(kRows / kBlock, of.columns / kBlock, of.batches);
                            body({a, b, bias, c, K, of.columns});
                          });
  auto ir = def.ir();
  EXPECT_TRUE(ir.ok()) << ir.error().message;
  return *ir;
}

std::vector<TestArgument> product_arguments(const ProductGrid& of, int64_t k) {
  const auto factor = static_cast<size_t>(2 * of.columns * std::max<int64_t>(k, 1));
  const auto results = static_cast<size_t>(of.batches * kRows * of.columns);
  return {random_buffer(ElementType::kF32, factor, 1, false), random_buffer(ElementType::kF32, factor, 2, false),
          random_buffer(ElementType::kF32, 32, 3, false), buffer(std::vector<float>(results, -77)), int_scalar(k)};
}

Value step_product(const ProductParts& p, const Value& k, const Value& sum) {
  return dot(tile(p.a + program_id(2) * kRows * p.K, {kRows, p.K}).load({program_id(0) * kBlock, k}, {kBlock, kStep}),
             tile(p.b, {p.K, p.columns}).load({k, program_id(1) * kBlock}, {kStep, kBlock}), sum);
}

Value product(const ProductParts& p, const Value& first) {
  Var sum = first;
  for (Value k : range(0, p.K, kStep).stages(2)) sum = step_product(p, k, sum);
  return sum;
}

void store_block(const ProductParts& p, const Value& x) {
  tile(p.c + program_id(2) * kRows * p.columns, {kRows, p.columns})
      .store({program_id(0) * kBlock, program_id(1) * kBlock}, x);
}

void plain(const ProductParts& p) { store_block(p, product(p, zeros(f32_t, {kBlock, kBlock}))); }

void normalised(const ProductParts& p) {
  const Value x = product(p, zeros(f32_t, {kBlock, kBlock}));
  store_block(p, x - expand_dims(sum(x, 0), 0) / kBlock);
}

void gated(const ProductParts& p, int64_t first) {
  Var x = zeros(f32_t, {kBlock, kBlock}), y = zeros(f32_t, {kBlock, kBlock});
  for (Value k : range(first, p.K, kStep)) {
    x = step_product(p, k, x);
    y = step_product({p.b, p.a, p.bias, p.c, p.K, p.columns}, k, y);
  }
  store_block(p, x * y);
}

void expect_product_as_interpreted(const dsl::Kernel& kernel, const dsl::ConstexprValues& config,
                                   const std::vector<TestArgument>& arguments) {
  expect_as_interpreted(kernel, {arguments,
                                 // bf16 rounds sums of another order to its other neighbour
                                 {results_are_bf16(kernel) ? 8e-3 : 1e-4, 2e-3, true},
                                 config,
                                 {"gpu:warps=4,groups=1", "gpu:warps=4,groups=1,copying=1", "gpu:warps=2,groups=0"}});
}

void expect_alike_by_all_threads(const dsl::Kernel& kernel, const dsl::ConstexprValues& config,
                                 const std::vector<TestArgument>& arguments, const std::vector<int>& threads) {
  auto artifact = compile(kernel, config);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::vector<TestArgument> first;
  for (int count : threads) {
    auto own = arguments;
    auto done = run_launched(kernel, *artifact, own, {.threads = count});
    ASSERT_TRUE(done.ok()) << done.error().message;
    if (first.empty()) first = own;
    for (size_t i = 0; i < own.size(); ++i) EXPECT_EQ(own[i].buffer, first[i].buffer) << count << " threads";
  }
}

}  // namespace kiln::test
