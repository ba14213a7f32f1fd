// Kernels whose loop adds up products, which split_k and stream_k deal out: what their tests have in common.
#pragma once

#include <functional>

#include "kiln/dsl/kernels.h"
#include "launch_harness.h"

namespace kiln::test {

// Batches of [32, K] by [K, columns] into c [batches, 32, columns], a block of 16 by 16 a program.
struct ProductGrid {
  int64_t columns = 32, batches = 1;
};

struct ProductParts {
  dsl::lang::Ptr<const dsl::lang::f32> a, b, bias;
  dsl::lang::Ptr<dsl::lang::f32> c;
  dsl::lang::i32 K;
  int64_t columns;
};
using ProductBody = std::function<void(const ProductParts&)>;

dsl::Kernel product_kernel(const ProductGrid& grid, const ProductBody& body);
std::vector<TestArgument> product_arguments(const ProductGrid& grid, int64_t k);

// The program's block: sum and the product of 32 of K from k on, all of them and `first`, and where it goes.
dsl::lang::Value step_product(const ProductParts& p, const dsl::lang::Value& k, const dsl::lang::Value& sum);
dsl::lang::Value product(const ProductParts& p, const dsl::lang::Value& first);
void store_block(const ProductParts& p, const dsl::lang::Value& x);

void plain(const ProductParts& p);
// Rows need each other: what is behind the loop is one program's.
void normalised(const ProductParts& p);
// Two sums, of products from `first` on.
void gated(const ProductParts& p, int64_t first);

// As expect_as_interpreted, on blocks of several shapes.
void expect_product_as_interpreted(const dsl::Kernel& kernel, const dsl::ConstexprValues& config,
                                   const std::vector<TestArgument>& arguments);
// On a CPU, bit for bit.
void expect_alike_by_all_threads(const dsl::Kernel& kernel, const dsl::ConstexprValues& config,
                                 const std::vector<TestArgument>& arguments, const std::vector<int>& threads);

}  // namespace kiln::test
