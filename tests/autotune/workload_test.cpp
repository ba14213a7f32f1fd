// Workloads from JSON: scalars, the sizes of arrays, facts, and buckets.
#include "kiln/autotune/workload.h"

#include <gtest/gtest.h>

#include "kiln/dsl/kernels.h"
#include "kiln/dsl/text.h"

namespace kiln::autotune {
namespace {

const dsl::Kernel& attention() { return *kernels::attention<lang::f32>().ir(); }
const dsl::Kernel& matmul() { return *kernels::matmul<lang::bf16>().ir(); }
const nlohmann::json kAttention = {{"batch", 2}, {"heads", 8}, {"kv_heads", 4}, {"seq", 100}, {"scale", 0.5}};

std::string failure(const dsl::Kernel& kernel, const nlohmann::json& scalars, const nlohmann::json& arrays = {},
                    const dsl::ConstexprValues& fixed = {}) {
  auto made = make_workload(kernel, scalars, arrays, fixed);
  return made ? "none" : made.error().message;
}

TEST(Workload, ArraysHaveTheSizesThatTheKernelDeclares) {
  auto workload = make_workload(attention(), kAttention, {}, {{"D", 128}});
  ASSERT_TRUE(workload) << workload.error().message;
  EXPECT_EQ(workload->arguments[0].elements, 2 * 8 * 100 * 128);
  EXPECT_EQ(workload->arguments[1].elements, 2 * 4 * 100 * 128);
  EXPECT_EQ(workload->arguments[4].elements, 2);
  EXPECT_EQ(workload->arguments[4].range, (std::pair<int64_t, int64_t>(100, 101)));
  EXPECT_EQ(workload->arguments[9].bits, dsl::bits_from_double(dsl::ElementType::kF32, 0.5));
  EXPECT_EQ(workload->fixed.at("D"), 128);
}

TEST(Workload, AnArraySuitsEveryConfigOfTheSpace) {
  auto kernel = dsl::parse(R"(kernel parts(%x: ptr<f32>, %n: i32) {
    constexpr PART = 64
    space PART = [16, 128]
    array x = div(PART + n - 1, PART)
    grid [1, 1, 1]
  })",
                           "parts");
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_EQ(make_workload(*kernel, {{"n", 160}})->arguments[0].elements, 10);
  EXPECT_EQ(make_workload(*kernel, {{"n", 160}}, {}, {{"PART", 128}})->arguments[0].elements, 2);
}

TEST(Workload, ArraysCanBeStated) {
  auto workload = make_workload(matmul(), {{"M", 8}, {"N", 8}, {"K", 8}},
                                {{"A", 100}, {"B", "N*K + 1"}, {"C", {{"elements", "M"}, {"low", 0}, {"high", "N"}}}});
  ASSERT_TRUE(workload) << workload.error().message;
  EXPECT_EQ(workload->arguments[0].elements, 100);
  EXPECT_EQ(workload->arguments[1].elements, 65);
  EXPECT_EQ(workload->arguments[2].elements, 8);
  EXPECT_EQ(workload->arguments[2].range, (std::pair<int64_t, int64_t>(0, 8)));
}

TEST(Workload, ErrorsNameTheParameter) {
  const nlohmann::json sizes = {{"M", 8}, {"N", 8}, {"K", 8}};
  EXPECT_EQ(failure(matmul(), {{"M", 8}, {"N", 8}}), "kernel `matmul`: parameter `K` has no value");
  EXPECT_EQ(failure(matmul(), {{"M", 8}, {"N", 8}, {"K", "8"}}),
            "kernel `matmul`: parameter `K` is an integer, not \"8\"");
  EXPECT_EQ(failure(matmul(), {{"M", 8}, {"N", 8}, {"K", int64_t{1} << 40}}),
            "kernel `matmul`: parameter `K`: 1099511627776 is no value of i32");
  EXPECT_EQ(failure(matmul(), {{"M", 8}, {"N", 8}, {"K", 8}, {"Q", 1}}),
            "kernel `matmul`: it has no scalar parameter `Q`");
  EXPECT_EQ(failure(matmul(), sizes, {{"D", 1}}), "kernel `matmul`: it has no pointer parameter `D`");
  EXPECT_EQ(failure(matmul(), sizes, {{"A", -1}}), "kernel `matmul`: array `A`: it has -1 elements");
  EXPECT_EQ(failure(matmul(), sizes, {{"A", {{"elements", 1}, {"low", 3}, {"high", 3}}}}),
            "kernel `matmul`: array `A`: no value is in [3, 3)");
  EXPECT_EQ(failure(matmul(), sizes, {}, {{"X", 1}}), "kernel `matmul`: it has no constexpr `X`");
}

TEST(Workload, FactsAreThoseOfAlignedArraysAndTheInts) {
  auto workload = make_workload(attention(), kAttention);
  const dsl::Facts facts = facts_of(attention(), *workload);
  using enum dsl::ParamFact;
  EXPECT_EQ(facts,
            (dsl::Facts{kAlign16, kAlign16, kAlign16, kAlign16, kAlign16, kNone, kMultiple8, kNone, kNone, kNone}));
  auto sizes = make_workload(matmul(), {{"M", 1}, {"N", 48}, {"K", 7}});
  EXPECT_EQ(facts_of(matmul(), *sizes), (dsl::Facts{kAlign16, kAlign16, kAlign16, kOne, kMultiple16, kNone}));
}

TEST(Workload, BucketsTellShapesApartAsFarAsAsked) {
  auto a = make_workload(matmul(), {{"M", 1}, {"N", 48}, {"K", 100}});
  auto b = make_workload(matmul(), {{"M", 1}, {"N", 64}, {"K", 90}});
  EXPECT_EQ(bucket_text(matmul(), *a, Bucket::kExact), "M=1,N=48,K=100;bf16");
  EXPECT_EQ(bucket_text(matmul(), *a, Bucket::kPowers), "M=1/one,N=64/x16,K=128;bf16");
  EXPECT_EQ(bucket_text(matmul(), *a, Bucket::kPowers), bucket_text(matmul(), *b, Bucket::kPowers));
  EXPECT_EQ(bucket_text(matmul(), *b, Bucket::kFacts), "M=one,N=x16,K=;bf16");
  auto other_data = make_workload(attention(), kAttention, {{"lengths", {{"elements", 2}, {"low", 1}, {"high", 50}}}});
  EXPECT_EQ(bucket_text(attention(), *other_data, Bucket::kExact),
            "batch=2,heads=8,kv_heads=4,seq=100;lengths=2 in [1,50);f32,i32");
}

}  // namespace
}  // namespace kiln::autotune
