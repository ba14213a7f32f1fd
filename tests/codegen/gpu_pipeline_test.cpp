// Loops whose loads are copied ahead, and products of several warps that run on, on the emulator: against the
// interpreter.
#include "differential.h"
#include "kiln/dsl/kernels.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;
using dsl::ElementType;
using dsl::ParamFact;

dsl::Facts aligned(const dsl::Kernel& kernel) {
  dsl::Facts out;
  for (const dsl::Param& param : kernel.params) {
    out.push_back(param.type.pointer                  ? ParamFact::kAlign16
                  : dsl::is_float(param.type.element) ? ParamFact::kNone
                                                      : ParamFact::kMultiple16);
  }
  return out;
}

struct Shape {
  const char* target;
  int stages;
};
const Shape kShapes[] = {{"gpu:warps=4,groups=1", 2}, {"gpu:warps=4,groups=1", 4}, {"gpu:warps=8,groups=1", 3},
                         {"gpu:warps=4,groups=0", 3}, {"gpu:warps=2,groups=0", 2}, {"gpu:warps=4,lanes=64", 3}};

void expect_agreement(const dsl::Kernel& kernel, dsl::ConstexprValues config, const dsl::Facts& facts,
                      const std::vector<TestArgument>& arguments, size_t result, const Match& match) {
  std::vector<TestArgument> expected = arguments;
  const auto interpreted = run_interpreted(kernel, config, facts, expected);
  ASSERT_TRUE(interpreted.ok()) << interpreted.error().message;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(std::string(shape.target) + ", stages " + std::to_string(shape.stages));
    config["num_stages"] = shape.stages;
    const auto artifact = compile(kernel, config, facts, shape.target);
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

// Extents are multiples of 16 and no multiples of the blocks: tiles are clipped on every side.
template <class T>
void multiply(const dsl::ConstexprValues& config, const Match& match, bool with_facts = true) {
  const auto& def = lang::kernels::matmul<T>();
  const dsl::Kernel kernel = *def.ir();
  constexpr int64_t kM = 80, kN = 48, kK = 80;
  const ElementType in = kernel.params[0].type.element, out = kernel.params[2].type.element;
  std::vector<TestArgument> arguments = {random_buffer(in, kM * kK, 1, false),
                                         random_buffer(in, kK * kN, 2, false),
                                         random_buffer(out, kM * kN, 3, false),
                                         int_scalar(kM),
                                         int_scalar(kN),
                                         int_scalar(kK)};
  expect_agreement(kernel, config, with_facts ? aligned(kernel) : dsl::Facts(), arguments, 2, match);
}

TEST(GpuPipelines, ProductsOfHalves) {
  multiply<lang::f16>({{"BM", 64}, {"BN", 64}, {"BK", 32}}, {2e-3, 2e-2});
  multiply<lang::f16>({{"BM", 128}, {"BN", 32}, {"BK", 64}}, {2e-3, 2e-2});
}

TEST(GpuPipelines, ProductsOfBrainFloats) {
  multiply<lang::bf16>({{"BM", 64}, {"BN", 128}, {"BK", 16}}, {2e-2, 1e-1});
  multiply<lang::bf16>({{"BM", 64}, {"BN", 64}, {"BK", 64}}, {2e-2, 1e-1}, false);
}

// The instruction wants both operands with k running fastest: the second is turned round on its way.
TEST(GpuPipelines, ProductsOfBytes) { multiply<lang::i8>({{"BM", 64}, {"BN", 64}, {"BK", 64}}, kExact); }

// Three whole blocks of keys, the products of one with values behind the next one's with keys, and a part of one.
TEST(GpuPipelines, Attention) {
  const auto& def = lang::kernels::attention<lang::bf16>();
  const dsl::Kernel kernel = *def.ir();
  constexpr int64_t kBatch = 1, kHeads = 1, kSeq = 112, kD = 64, kElements = kBatch * kHeads * kSeq * kD;
  for (int64_t causal : {0, 1}) {
    std::vector<TestArgument> arguments = {random_buffer(ElementType::kBF16, kElements, 1, false),
                                           random_buffer(ElementType::kBF16, kElements, 2, false),
                                           random_buffer(ElementType::kBF16, kElements, 3, false),
                                           random_buffer(ElementType::kBF16, kElements, 4, false),
                                           buffer(std::vector<int32_t>{101}),
                                           int_scalar(kBatch),
                                           int_scalar(kHeads),
                                           int_scalar(kHeads),
                                           int_scalar(kSeq),
                                           scalar_bits(std::bit_cast<uint32_t>(0.125F))};
    dsl::Facts facts = aligned(kernel);
    for (size_t i : {5, 6, 7}) facts[i] = ParamFact::kNone;
    // By one group of warps, and by two that may drift apart.
    const int64_t groups = causal + 1;
    const dsl::ConstexprValues config = {
        {"D", kD}, {"CAUSAL", causal}, {"BM", 64 * groups}, {"BN", 32}, {"num_warps", 4 * groups}};
    expect_agreement(kernel, config, facts, arguments, 3, {2e-2, 2e-2});
  }
}

}  // namespace
}  // namespace kiln::test
