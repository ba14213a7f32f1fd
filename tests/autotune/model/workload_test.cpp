// Workloads from JSON: scalars, the sizes of arrays, facts, and buckets.
#include "kiln/autotune/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "batch_helpers.h"
#include "kiln/autotune/runner_protocol.h"
#include "kiln/dsl/kernels.h"
#include "kiln/dsl/text.h"

namespace kiln::autotune {
namespace {

using ::testing::HasSubstr;

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

// Values from a file are those of the array, and a shape of their own for the records.
TEST(Workload, AnArrayMayBeAFile) {
  const ScratchDirectory directory;
  const auto write = [&](const char* name, dsl::ElementType type, std::byte value) {
    auto array = expect_ok(client::NpyArray::make({2, 3}, type));
    std::fill_n(array.data(), array.bytes, value);
    expect_ok(client::write_npy(directory.file(name), array));
  };
  write("a.npy", dsl::ElementType::kBF16, std::byte{1});
  write("b.npy", dsl::ElementType::kBF16, std::byte{2});
  write("wide.npy", dsl::ElementType::kF32, std::byte{1});
  const nlohmann::json sizes = {{"M", 2}, {"N", 2}, {"K", 3}};
  const auto of = [&](const std::string& file, const std::optional<std::string>& from) {
    return make_workload(matmul(), sizes, {{"A", "@" + file}}, {}, from);
  };
  const Workload a = expect_ok(of("a.npy", directory.path())), b = expect_ok(of("b.npy", directory.path()));
  EXPECT_EQ(a.arguments[0].elements, 6);
  EXPECT_TRUE(has_file(a));
  EXPECT_NE(bucket_text(matmul(), a, Bucket::kExact), bucket_text(matmul(), b, Bucket::kExact));
  EXPECT_EQ(bucket_text(matmul(), a, Bucket::kPowers), bucket_text(matmul(), b, Bucket::kPowers));
  EXPECT_EQ(read_array(matmul().params[0], a.arguments[0])->data()[5], std::byte{1});
  EXPECT_EQ(expect_ok(workload_from_json(workload_to_json(a))).arguments, a.arguments);

  const auto failure_of = [&](const std::string& file) { return of(file, directory.path()).error().message; };
  EXPECT_THAT(failure_of("none.npy"), HasSubstr("kernel `matmul`: array `A`: " + directory.file("none.npy")));
  EXPECT_THAT(failure_of("wide.npy"), HasSubstr("it holds '<f4', but the parameter points to bf16"));
  EXPECT_EQ(of("a.npy", std::nullopt).error().message, "kernel `matmul`: array `A`: no file is read here");
  write("a.npy", dsl::ElementType::kBF16, std::byte{3});
  EXPECT_THAT(read_array(matmul().params[0], a.arguments[0]).error().message,
              HasSubstr("it has changed since the jobs were read"));
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
