// Configs of launches of which nothing was measured: what is taken of few, and when it is none.
#include "kiln/autotune/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "batch_helpers.h"
#include "kiln/autotune/jobs.h"
#include "kiln/autotune/predict.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/kernel.h"
#include "model/hardware.h"

namespace kiln::autotune {
namespace {

using testing::HasSubstr;

constexpr const char* kH200 = "cuda:sm_90a";
constexpr const char* kCpu = "cpu:znver5,+avx512f";

Machine machine(const std::string& target) {
  if (target == kH200) return *sheet_machine(kH200, "NVIDIA H200; cuda:sm_90a");
  Machine out = *nominal_machine("cpu", "");
  out.target = target;
  out.parallel = 2;
  return out;
}

Job job(const std::string& line, const std::string& target) {
  JobSpec spec = std::move(expect_ok(parse_job(nlohmann::json::parse(line), ".")).front());
  return {spec.name, spec.kernel, spec.workload, target, {}};
}

Config fallback(const Job& job) {
  return expect_ok(dsl::complete_constexprs(job.kernel, job.workload.fixed, job.target));
}

Choice chosen(const Job& job, const Choosing& choosing = {}) {
  return expect_ok(choose(job, machine(job.target), choosing));
}

const char* const kFewRows = R"({"kernel": "matmul_nt", "type": "bf16", "shape": {"M": 33, "N": 4099, "K": 1023}})";
const char* const kSquare = R"({"kernel": "matmul_nt", "type": "bf16", "shape": {"M": 6144, "N": 6144, "K": 6144}})";

TEST(Choose, FewRowsTakeNoTileOfManyRows) {
  for (const char* target : {kH200, kCpu}) {
    const Job few = job(kFewRows, target);
    const Choice choice = chosen(few);
    EXPECT_EQ(choice.source, "predicted") << target << ": " << choice.why;
    EXPECT_LE(choice.config.at("BM"), 64) << to_string(choice.config);
    EXPECT_LT(choice.terms.us(), choice.default_terms.us() / 1.15);
    EXPECT_THAT(choice.why, HasSubstr("less time than the default"));
    EXPECT_LE(choice.candidates, 64u);
  }
}

TEST(Choose, TheDefaultStaysWhereNothingPromisesEnough) {
  const Job square = job(kSquare, kH200);
  const Choice choice = chosen(square, {.winners = {{fallback(square), 5, "shipped"}}});
  EXPECT_EQ(choice.source, "default");
  EXPECT_EQ(choice.config, fallback(square));
}

TEST(Choose, WhatIsCompiledIsTakenWhereItIsAboutAsGood) {
  const Job few = job(kFewRows, kH200);
  const Config best = chosen(few).config;
  Config other = best;
  other["GROUP"] = 1;  // of which the model knows nothing
  EXPECT_EQ(chosen(few, {.compiled = {other}}).config, other);
  // But not what is far from it.
  Config wide = fallback(few);
  wide["BN"] = wide["BN"] == 64 ? 128 : 64;
  EXPECT_EQ(chosen(few, {.compiled = {wide}}).config, best);
}

TEST(Choose, WithoutRoomOnlyWhatIsCompiledIsTaken) {
  const Job few = job(kFewRows, kH200);
  EXPECT_EQ(chosen(few, {.more = false}).source, "default");
  const Config best = chosen(few).config;
  const Choice again = chosen(few, {.compiled = {best}, .more = false});
  EXPECT_EQ(again.config, best);
  EXPECT_EQ(again.source, "predicted");
}

TEST(Choose, AWinnerNearByIsTakenAndAFarOneWeighed) {
  const Job few = job(kFewRows, kH200);
  Config odd = fallback(few);
  odd["GROUP"] = 1;
  const Choice near = chosen(few, {.winners = {{odd, 0.9, "tuned"}}});
  EXPECT_EQ(near.config, odd);
  EXPECT_EQ(near.source, "tuned");
  EXPECT_EQ(chosen(few, {.winners = {{odd, 3, "tuned"}}}).source, "default");
  // One of another version of the kernel says nothing.
  EXPECT_EQ(chosen(few, {.winners = {{{{"GONE", 1}}, 0.1, "tuned"}}}).source, "default");
}

TEST(Choose, WhatDependsOnDataKeepsTheDefault) {
  const Job looked_up = job(R"({"kernel": "embedding", "shape": {"tokens": 3, "cols": 40}})", kCpu);
  const Choice choice = chosen(looked_up);
  EXPECT_EQ(choice.source, "default");
}

// Of two launches of a class one may be twice as large.
TEST(Choose, AGridThatWouldOverflowIsNotTaken) {
  namespace lang = dsl::lang;
  const auto ir = lang::kernel("second_axis", {"x", "n", "B=64"},
                               [](lang::Ptr<lang::f32> x, lang::i32 n, lang::Const B) {
                                 lang::grid(1, lang::cdiv(n, B));
                                 const lang::Value start = lang::program_id(1) * B;
                                 const auto place = lang::tile(x, {n});
                                 place.store({start}, place.load({start}, {B}) + 1.0f);
                               })
                      .space({{"B", {1, 64}}})
                      .array("x", "n")
                      .ir();
  const dsl::Kernel kernel = expect_ok(ir);
  const auto candidates = [&](int64_t n) {
    const Job sized{"second_axis", kernel, expect_ok(make_workload(kernel, {{"n", n}})), kCpu, {}};
    return chosen(sized).candidates;
  };
  EXPECT_EQ(candidates(20000), 2u);
  EXPECT_EQ(candidates(50000), 1u);
}

TEST(Choose, AConfigOfAnotherHandleIsNone) {
  const Job attention = job(R"({"kernel": "attention", "type": "bf16", "set": {"D": 128, "CAUSAL": 0},
    "shape": {"batch": 1, "heads": 4, "kv_heads": 4, "seq": 1000, "scale": 0.1}})",
                            kH200);
  Config other = fallback(attention);
  other["D"] = 64;
  EXPECT_EQ(chosen(attention, {.compiled = {other}, .more = false}).config, fallback(attention));
}

TEST(Choose, SpacesOfProductsAreThinned) {
  for (const char* target : {kH200, kCpu}) {
    const Job square = job(kSquare, target);
    const auto few = expect_ok(few_configs(square));
    EXPECT_LE(few.size(), 64u) << target;
    EXPECT_GE(few.size(), 9u) << target;
    EXPECT_EQ(few.front(), fallback(square));
  }
}

TEST(Terms, AreSaidLargestFirst) {
  const Terms terms{.memory = 3, .products = 12, .launch = 2.5, .fill = 1.5};
  EXPECT_EQ(to_string(terms), "products 12, memory 3, launch 2.5; × 1.5 for idle processors");
  EXPECT_DOUBLE_EQ(terms.us(), 2.5 + 1.5 * (12 + 0.2 * 2));
}

TEST(NominalMachine, IsByNameElseByTarget) {
  EXPECT_GT(sheet_machine(kH200, "NVIDIA H200; cuda:sm_90a; 132")->read_bytes_per_us,
            sheet_machine(kH200, "NVIDIA H100; cuda:sm_90a")->read_bytes_per_us);
  EXPECT_TRUE(nominal_machine("cuda:sm_80", "NVIDIA A800"));
  EXPECT_FALSE(nominal_machine("cuda:sm_75", "NVIDIA T4"));
  const Machine cpu = *nominal_machine("cpu:znver5", "");
  EXPECT_GE(cpu.parallel, 1);
  EXPECT_GT(cpu.f32_flops_per_us, 0);
  EXPECT_EQ(cpu.target, "cpu:znver5");
}

}  // namespace
}  // namespace kiln::autotune
