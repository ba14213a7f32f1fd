// Products that sum up in tensor memory, on the emulator of sm_100a and sm_103a: against the interpreter. No such
// device is at hand, so the emulator says what the code may not do as well (tensor_memory.h there).
#include "differential.h"
#include "kiln/dsl/kernels.h"
#include "nvptx/aligned_facts.h"
#include "sampled.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;
using dsl::ElementType;
using dsl::ParamFact;
using lang::Value;

// One group of warps and two; copies by the threads, by warps of their own, in persistent blocks, by two consumer
// groups.
std::vector<std::string> shapes() {
  return {"gpu:like=sm_100a,warps=4,copying=0", "gpu:like=sm_100a,warps=8,copying=0",
          "gpu:like=sm_103a,warps=4,copying=1", "gpu:like=sm_100a,warps=8,copying=2",
          "gpu:like=sm_103a,warps=4,copying=3", "gpu:like=sm_100a,warps=4,copying=4"};
}

void expect_agreement(const dsl::Kernel& kernel, dsl::ConstexprValues config, const dsl::Facts& facts,
                      const std::vector<TestArgument>& arguments, size_t result, const Match& match) {
  if (!wants_targets("gpu")) GTEST_SKIP() << "other targets are asked for";
  std::vector<TestArgument> expected = arguments;
  const auto interpreted = run_interpreted(kernel, config, facts, expected);
  ASSERT_TRUE(interpreted.ok()) << interpreted.error().message;
  config.try_emplace("num_stages", 3);
  for (const std::string& shape : sampled(shapes(), 3)) {
    SCOPED_TRACE(kernel.name + " on " + shape);
    const auto artifact = compile(kernel, config, facts, shape);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    std::vector<TestArgument> actual = arguments;
    const auto done = run_compiled(kernel, *artifact, actual);
    ASSERT_TRUE(done.ok()) << done.error().message;
    std::string explanation;
    EXPECT_EQ(count_differences(kernel.params[result].type.element, actual[result].buffer, expected[result].buffer,
                                match, explanation),
              0u)
        << explanation;
  }
}

// No multiples of the blocks: tiles are clipped on every side.
void multiply_by(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, const Match& match,
                 bool with_facts = true) {
  constexpr int64_t kM = 144, kN = 80, kK = 176;
  const ElementType in = kernel.params[0].type.element, out = kernel.params[2].type.element;
  const std::vector<TestArgument> arguments = {random_buffer(in, kM * kK, 1, false),
                                               random_buffer(in, kK * kN, 2, false),
                                               random_buffer(out, kM * kN, 3, false),
                                               int_scalar(kM),
                                               int_scalar(kN),
                                               int_scalar(kK)};
  expect_agreement(kernel, config, with_facts ? aligned_facts(kernel) : dsl::Facts(), arguments, 2, match);
}

constexpr Match kHalf = {2e-3, 2e-2}, kBrain = {2e-2, 1e-1};

TEST(TensorMemory, ProductsOfHalves) {
  multiply_by(*lang::kernels::matmul<lang::f16>().ir(), {{"BM", 128}, {"BN", 64}, {"BK", 64}}, kHalf);
  multiply_by(*lang::kernels::matmul<lang::bf16>().ir(), {{"BM", 128}, {"BN", 32}, {"BK", 32}}, kBrain);
  multiply_by(*lang::kernels::matmul<lang::bf16>().ir(), {{"BM", 256}, {"BN", 32}, {"BK", 16}}, kBrain);
}

// Columns that are no power of two are loaded in parts; those of padding nobody multiplies.
TEST(TensorMemory, ProductsOfTilesThatAreNoPowersOfTwo) {
  multiply_by(*lang::kernels::matmul<lang::bf16>().ir(), {{"BM", 128}, {"BN", 80}, {"BK", 48}}, kBrain);
  multiply_by(*lang::kernels::matmul<lang::f16>().ir(), {{"BM", 128}, {"BN", 96}, {"BK", 64}}, kHalf);
}

TEST(TensorMemory, ProductsOfTurnedFactors) {
  const dsl::ConstexprValues blocks = {{"BM", 128}, {"BN", 64}, {"BK", 32}};
  multiply_by(*lang::kernels::matmul_nt<lang::bf16>().ir(), blocks, kBrain);
  multiply_by(*lang::kernels::matmul_tn<lang::bf16>().ir(), blocks, kBrain);
  multiply_by(*lang::kernels::matmul_nt<lang::f16>().ir(), blocks, kHalf, false);
}

// The instruction wants both operands with k running fastest. sm_103a multiplies no bytes so.
TEST(TensorMemory, ProductsOfBytes) {
  const dsl::ConstexprValues blocks = {{"BM", 128}, {"BN", 64}, {"BK", 64}};
  multiply_by(*lang::kernels::matmul<lang::i8>().ir(), blocks, kExact);
  multiply_by(*lang::kernels::matmul_tn<lang::i8>().ir(), blocks, kExact);
}

// Sums that begin with something, that a loop reads as it goes, of two products in turn and of one that goes on with
// the sums of another; of words, rounded to tf32.
template <class T, class Body>
auto sum_of(const char* name, Body body) {
  return lang::kernel(name, {"A", "B", "C", "M", "N", "K", "BM=128", "BN=64", "BK=32"},
                      [body](lang::Ptr<const T> A, lang::Ptr<const T> B, lang::Ptr<lang::f32> C, lang::i32 M,
                             lang::i32 N, lang::i32 K, lang::Const BM, lang::Const BN, lang::Const BK) {
                        lang::grid(lang::cdiv(M, BM), lang::cdiv(N, BN));
                        const Value m = lang::program_id(0) * BM, n = lang::program_id(1) * BN;
                        const lang::Tile to = lang::tile(C, {M, N});
                        lang::Var sums = to.load({m, n}, {BM, BN});
                        lang::Var seen = lang::zeros(lang::f32_t, {BM, BN});
                        for (Value k : lang::range(0, K, BK).stages(2)) {
                          const Value a = lang::tile(A, {M, K}).load({m, k}, {BM, BK});
                          const Value b = lang::tile(B, {K, N}).load({k, n}, {BK, BN});
                          body(a, b, sums, seen);
                        }
                        to.store({m, n}, sums + seen);
                      });
}

TEST(TensorMemory, SumsThatBeginWithSomething) {
  multiply_by(
      *sum_of<lang::bf16>("adds", [](Value a, Value b, lang::Var& sums, lang::Var&) { sums = lang::dot(a, b, sums); })
           .ir(),
      {}, kHalf);
  multiply_by(*sum_of<lang::f32>("words", [](Value a, Value b, lang::Var& sums,
                                             lang::Var&) { sums = lang::dot(a, b, sums, dsl::Precision::kTf32); })
                   .ir(),
              {}, kHalf);
}

TEST(TensorMemory, SumsThatThreadsReadOnTheWay) {
  multiply_by(*sum_of<lang::bf16>(
                   "halves", [](Value a, Value b, lang::Var& sums, lang::Var&) { sums = lang::dot(a, b, sums * 0.5F); })
                   .ir(),
              {}, kHalf);
  multiply_by(*sum_of<lang::bf16>("two",
                                  [](Value a, Value b, lang::Var& sums, lang::Var& seen) {
                                    sums = lang::dot(a, b, sums);
                                    seen = seen + lang::max(lang::dot(a, b), 0.0F);
                                  })
                   .ir(),
              {}, kHalf);
  multiply_by(*sum_of<lang::bf16>("on",
                                  [](Value a, Value b, lang::Var& sums, lang::Var&) {
                                    sums = lang::dot(a, b, sums);
                                    sums = lang::dot(a, b, sums);
                                  })
                   .ir(),
              {}, kHalf);
}

// More columns than there are: the last product multiplies otherwise.
TEST(TensorMemory, ProductsThatFindNoColumns) {
  const auto def = lang::kernel("many", {"A", "B", "C", "M", "N", "K"},
                                [](lang::Ptr<const lang::bf16> A, lang::Ptr<const lang::bf16> B, lang::Ptr<lang::f32> C,
                                   lang::i32 M, lang::i32 N, lang::i32 K) {
                                  lang::grid(1);
                                  lang::Var sum = lang::zeros(lang::f32_t, {128, 128});
                                  for (int i = 0; i < 5; ++i) {
                                    const Value a = lang::tile(A, {M, K}).load({0, 16 * i}, {128, 16});
                                    const Value b = lang::tile(B, {K, N}).load({16 * i, 0}, {16, 128});
                                    sum = sum + lang::max(lang::dot(a, b), 0.0F);
                                  }
                                  lang::tile(C, {M, N}).store({0, 0}, sum);
                                });
  multiply_by(*def.ir(), {}, kHalf);
}

// Where a check fails all threads end: the columns are given back, or the emulator would say so.
TEST(TensorMemory, IsReleasedWhereACheckFails) {
  if (!wants_targets("gpu")) GTEST_SKIP() << "other targets are asked for";
  dsl::Kernel kernel = *lang::kernels::matmul<lang::bf16>().ir();
  kernel.options.check_bounds = true;
  const std::vector<TestArgument> arguments = {random_buffer(ElementType::kBF16, 128 * 64, 1, false),
                                               random_buffer(ElementType::kBF16, 64 * 64, 2, false),
                                               random_buffer(ElementType::kBF16, 128 * 64, 3, false),
                                               int_scalar(128),
                                               int_scalar(64),
                                               int_scalar(64)};
  const auto artifact = compile(kernel, {{"BM", 128}, {"BN", 64}, {"BK", 32}}, {}, "gpu:like=sm_100a,warps=4");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::vector<TestArgument> actual = arguments;
  const auto done = run_compiled(kernel, *artifact, actual);
  EXPECT_TRUE(done.ok()) << done.error().message;
}

void attend(int64_t width, int64_t keys) {
  SCOPED_TRACE("heads of " + std::to_string(width) + ", blocks of " + std::to_string(keys) + " keys");
  const dsl::Kernel kernel = *lang::kernels::attention<lang::bf16>().ir();
  constexpr int64_t kSeq = 144;
  const auto elements = static_cast<size_t>(kSeq * width);
  for (int64_t causal : {0, 1}) {
    const std::vector<TestArgument> arguments = {random_buffer(ElementType::kBF16, elements, 1, false),
                                                 random_buffer(ElementType::kBF16, elements, 2, false),
                                                 random_buffer(ElementType::kBF16, elements, 3, false),
                                                 random_buffer(ElementType::kBF16, elements, 4, false),
                                                 buffer(std::vector<int32_t>{131}),
                                                 int_scalar(1),
                                                 int_scalar(1),
                                                 int_scalar(1),
                                                 int_scalar(kSeq),
                                                 scalar_bits(std::bit_cast<uint32_t>(0.125F))};
    dsl::Facts facts = aligned_facts(kernel);
    for (size_t i : {5, 6, 7}) facts[i] = ParamFact::kNone;
    expect_agreement(kernel, {{"D", width}, {"CAUSAL", causal}, {"BM", 128}, {"BN", keys}}, facts, arguments, 3,
                     {2e-2, 2e-2});
  }
}

TEST(TensorMemory, Attention) {
  attend(64, 32);
  attend(80, 48);
}

}  // namespace
}  // namespace kiln::test
