// Loops whose loads are copied ahead, and products of several warps that run on, on the emulator or a device: against
// the interpreter.
#include "cuda_device.h"
#include "differential.h"
#include "kiln/dsl/kernels.h"
#include "nvptx/aligned_facts.h"
#include "sampled.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;
using dsl::ElementType;
using dsl::ParamFact;

struct Shape {
  const char* target;
  int stages;
  int warps = 0;    // 0: as the target says, or the config
  int copying = 0;  // on a device: warps of their own copy
  int cluster = 1;
};
std::vector<Shape> shapes() {
  if (on_cuda())
    return {{"", 2},          {"", 4},       {"", 2, 2},    {"", 3, 4},    {"", 3, 8},
            {"", 2, 4, 1},    {"", 3, 8, 1}, {"", 2, 4, 2}, {"", 3, 8, 2}, {"", 2, 4, 2, 2},
            {"", 3, 8, 2, 2}, {"", 2, 4, 3}, {"", 3, 8, 3}, {"", 2, 4, 4}, {"", 3, 4, 4}};
  return {{"gpu:warps=4,groups=1,copying=0", 2}, {"gpu:warps=4,groups=1,copying=0", 4},
          {"gpu:warps=8,groups=1,copying=0", 3}, {"gpu:warps=4,groups=0,copying=0", 3},
          {"gpu:warps=2,groups=0,copying=0", 2}, {"gpu:warps=4,lanes=64,copying=0", 3},
          {"gpu:warps=4,groups=1,copying=1", 2}, {"gpu:warps=8,groups=1,copying=1", 3},
          {"gpu:warps=2,groups=0,copying=1", 2}, {"gpu:warps=4,groups=1,copying=2", 3},
          {"gpu:warps=8,groups=1,copying=2", 2}, {"gpu:warps=4,groups=1,copying=3", 3},
          {"gpu:warps=8,groups=1,copying=3", 2}, {"gpu:warps=4,groups=1,copying=4", 2},
          {"gpu:warps=4,groups=1,copying=4", 3}, {"gpu:warps=4,groups=0,copying=4", 3}};
}

void expect_agreement(const dsl::Kernel& kernel, dsl::ConstexprValues config, const dsl::Facts& facts,
                      const std::vector<TestArgument>& arguments, size_t result, const Match& match,
                      const std::vector<Shape>& blocks = {}) {
  std::vector<TestArgument> expected = arguments;
  const auto interpreted = run_interpreted(kernel, config, facts, expected);
  ASSERT_TRUE(interpreted.ok()) << interpreted.error().message;
  for (const Shape& shape : blocks.empty() ? sampled(shapes(), 2) : blocks) {
    SCOPED_TRACE(std::string(shape.target) + ", stages " + std::to_string(shape.stages) + ", warps " +
                 std::to_string(shape.warps) + ", copying " + std::to_string(shape.copying) + ", cluster " +
                 std::to_string(shape.cluster));
    config["num_stages"] = shape.stages;
    if (shape.warps > 0) config["num_warps"] = shape.warps;
    if (shape.copying > 0) config["warp_specialise"] = shape.copying;
    config["cluster"] = shape.cluster;
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

struct Extents {
  int64_t m, n, k;
};

// No multiples of the blocks: tiles are clipped on every side.
void multiply_by(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, const Match& match, const Extents& of,
                 bool with_facts) {
  const auto [kM, kN, kK] = of;
  const ElementType in = kernel.params[0].type.element, out = kernel.params[2].type.element;
  std::vector<TestArgument> arguments = {random_buffer(in, kM * kK, 1, false),
                                         random_buffer(in, kK * kN, 2, false),
                                         random_buffer(out, kM * kN, 3, false),
                                         int_scalar(kM),
                                         int_scalar(kN),
                                         int_scalar(kK)};
  expect_agreement(kernel, config, with_facts ? aligned_facts(kernel) : dsl::Facts(), arguments, 2, match);
}

// A product whose extents are multiples of no more than 16.
void multiply_by(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, const Match& match,
                 bool with_facts = true) {
  multiply_by(kernel, config, match, {80, 48, 80}, with_facts);
}

template <class T>
void multiply(const dsl::ConstexprValues& config, const Match& match, bool with_facts = true) {
  multiply_by(*lang::kernels::matmul<T>().ir(), config, match, with_facts);
}

TEST(GpuPipelines, ProductsOfHalves) {
  multiply<lang::f16>({{"BM", 64}, {"BN", 64}, {"BK", 32}}, {2e-3, 2e-2});
  multiply<lang::f16>({{"BM", 128}, {"BN", 32}, {"BK", 64}}, {2e-3, 2e-2});
}

TEST(GpuPipelines, ProductsOfBrainFloats) {
  multiply<lang::bf16>({{"BM", 64}, {"BN", 128}, {"BK", 16}}, {2e-2, 1e-1});
  multiply<lang::bf16>({{"BM", 64}, {"BN", 64}, {"BK", 64}}, {2e-2, 1e-1}, false);
}

// Sixteen programs and one that has more of them than the other: buffers and the order of the groups go round several
// times. Rows of bias are in memory of each consumer group's own.
TEST(GpuPipelines, ConsumerGroupsAlternateInManyPrograms) {
  const std::vector<Shape> consumer_groups =
      on_cuda() ? std::vector<Shape>{{"", 2, 4, 4}, {"", 3, 4, 4}}
                : std::vector<Shape>{{"gpu:warps=4,groups=1,copying=4", 2}, {"gpu:warps=4,groups=1,copying=4", 3}};
  const dsl::ConstexprValues blocks = {{"BM", 64}, {"BN", 64}, {"BK", 32}};
  for (const auto& [m, n, k] : {Extents{256, 256, 144}, Extents{208, 320, 32}}) {
    SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
    const dsl::Kernel &plain = *lang::kernels::matmul<lang::bf16>().ir(),
                      &biased = *lang::kernels::matmul_bias_act<lang::bf16>().ir();
    const TestArgument a = random_buffer(ElementType::kBF16, m * k, 1, false),
                       b = random_buffer(ElementType::kBF16, k * n, 2, false),
                       bias = random_buffer(ElementType::kBF16, n, 3, false),
                       c = random_buffer(ElementType::kBF16, m * n, 4, false);
    const TestArgument rows = int_scalar(m), columns = int_scalar(n), inner = int_scalar(k);
    for (const bool is_biased : {false, true}) {
      const dsl::Kernel& kernel = is_biased ? biased : plain;
      std::vector<TestArgument> arguments = {a, b, c, rows, columns, inner};
      if (is_biased) arguments.insert(arguments.begin() + 2, bias);
      expect_agreement(kernel, blocks, aligned_facts(kernel), arguments, is_biased ? 3 : 2, {2e-2, 1e-1},
                       sampled(consumer_groups, 1));
    }
  }
}

// The instruction wants both operands with k running fastest: the second is turned round on its way.
TEST(GpuPipelines, ProductsOfBytes) { multiply<lang::i8>({{"BM", 64}, {"BN", 64}, {"BK", 64}}, kExact); }

// Where nothing is known of the arguments, factors come in loops of a few elements, and the result leaves in one.
TEST(GpuPipelines, ProductsOfWhichNothingIsKnown) {
  const dsl::ConstexprValues blocks = {{"BM", 128}, {"BN", 128}, {"BK", 64}};
  multiply_by(*lang::kernels::matmul<lang::f16>().ir(), blocks, {2e-3, 2e-2}, {129, 131, 1}, false);
  multiply_by(*lang::kernels::matmul<lang::i8>().ir(), blocks, kExact, {77, 99, 75}, false);
  multiply_by(*lang::kernels::matmul_nt<lang::bf16>().ir(), blocks, {2e-2, 1e-1}, {77, 99, 75}, false);
  multiply_by(*lang::kernels::matmul_tn<lang::bf16>().ir(), blocks, {2e-2, 1e-1}, {77, 7, 65}, false);
}

// Factors whose lines run along the other axis: those of halves are read as they lie, those of bytes turned round.
TEST(GpuPipelines, ProductsOfTurnedFactors) {
  const dsl::ConstexprValues blocks = {{"BM", 64}, {"BN", 64}, {"BK", 32}};
  for (const dsl::Kernel& kernel :
       {*lang::kernels::matmul_nt<lang::bf16>().ir(), *lang::kernels::matmul_tn<lang::bf16>().ir()}) {
    SCOPED_TRACE(kernel.name);
    multiply_by(kernel, blocks, {2e-2, 1e-1});
  }
  multiply_by(*lang::kernels::matmul_tn<lang::f16>().ir(), blocks, {2e-3, 2e-2}, false);
  multiply_by(*lang::kernels::matmul_nt<lang::i8>().ir(), blocks, kExact);
  multiply_by(*lang::kernels::matmul_tn<lang::i8>().ir(), blocks, kExact);
}

// Weights that are widened behind the copies, from bytes and halves of bytes.
const auto& widened_second() {
  static const auto def = lang::kernel(
      "widened_second", {"A", "B", "scale", "C", "M", "N", "K", "BM=64", "BN=64", "BK=32"},
      [](lang::Ptr<const lang::bf16> A, lang::Ptr<const lang::i8> B, lang::Ptr<const lang::f32> scale,
         lang::Ptr<lang::bf16> C, lang::i32 M, lang::i32 N, lang::i32 K, lang::Const BM, lang::Const BN,
         lang::Const BK) {
        lang::grid(lang::cdiv(M, BM), lang::cdiv(N, BN));
        const lang::Value m = lang::program_id(0) * BM, n = lang::program_id(1) * BN;
        lang::Var sums = lang::zeros(lang::f32_t, {BM, BN});
        for (lang::Value k : lang::range(0, K, BK).stages(3)) {
          const lang::Value weights = lang::cast(lang::tile(B, {N, K}).load({n, k}, {BN, BK}), lang::bf16_t);
          sums = lang::dot(lang::tile(A, {M, K}).load({m, k}, {BM, BK}), lang::trans(weights), sums);
        }
        const lang::Value factors = lang::expand_dims(lang::tile(scale, {N}).load({n}, {BN}), 0);
        lang::tile(C, {M, N}).store({m, n}, lang::cast(sums * factors, lang::bf16_t));
      });
  return def;
}

TEST(GpuPipelines, ProductsOfWidenedWeights) {
  constexpr int64_t kM = 48, kN = 80, kK = 160, kLine = kK / 2 + 16;
  const auto check = [&](const dsl::Kernel& kernel, TestArgument weights, TestArgument scales, bool in_lines,
                         const dsl::ConstexprValues& config) {
    SCOPED_TRACE(kernel.name);
    const ElementType type = kernel.params[0].type.element;
    std::vector<TestArgument> arguments = {random_buffer(type, kM * kK, 1, false),
                                           std::move(weights),
                                           std::move(scales),
                                           random_buffer(type, kM * kN, 4, false),
                                           int_scalar(kM),
                                           int_scalar(kN),
                                           int_scalar(kK)};
    if (in_lines) arguments.push_back(int_scalar(kLine));
    expect_agreement(kernel, config, aligned_facts(kernel), arguments, 3, {2e-2, 1e-1});
  };
  const dsl::ConstexprValues config = {{"BM", 32}, {"BN", 64}, {"BK", 32}};
  check(*lang::kernels::matmul_w8<lang::bf16>().ir(), random_buffer(ElementType::kI8, kN * kK, 2, false),
        random_buffer(ElementType::kF32, kN, 3, false), false, config);
  check(*lang::kernels::matmul_w4<lang::f16>().ir(), random_buffer(ElementType::kU8, kN * kLine, 2, false),
        random_buffer(ElementType::kF16, kN * 2, 3, false), true, config);
  // Its second operand, which becomes the first.
  check(*widened_second().ir(), random_buffer(ElementType::kI8, kN * kK, 2, false),
        random_buffer(ElementType::kF32, kN, 3, false), false, {{"BM", 64}, {"BN", 64}, {"BK", 32}});
}

// Tiles in panels of lines of 64, 128 and 32 bytes, of which there are three or five; a product's last step that is
// partly padding; rows that are padding; columns that two groups of warps share.
TEST(GpuPipelines, ProductsOfTilesThatAreNoPowersOfTwo) {
  multiply<lang::bf16>({{"BM", 64}, {"BN", 96}, {"BK", 96}}, {2e-2, 1e-1});
  multiply<lang::f16>({{"BM", 64}, {"BN", 192}, {"BK", 48}}, {2e-3, 2e-2});
  multiply<lang::f16>({{"BM", 128}, {"BN", 80}, {"BK", 32}}, {2e-3, 2e-2});
  multiply<lang::f16>({{"BM", 96}, {"BN", 32}, {"BK", 24}}, {2e-3, 2e-2});
  multiply<lang::f16>({{"BM", 64}, {"BN", 40}, {"BK", 96}}, {2e-3, 2e-2}, false);
  multiply<lang::i8>({{"BM", 64}, {"BN", 96}, {"BK", 96}}, kExact);
}

// The same of words, whose operands change places instead (gpu/passes/swap_operands.h), in each order of their lines.
void multiply_words(const dsl::ConstexprValues& config) {
  constexpr int64_t kM = 80, kN = 112, kK = 80;
  for (const bool a_turned : {false, true}) {
    for (const bool b_turned : {false, true}) {
      const auto def =
          lang::kernel("product_of_words", {"A", "B", "C", "M", "N", "K", "BM=64", "BN=128", "BK=32"},
                       [&](lang::Ptr<const lang::f32> A, lang::Ptr<const lang::f32> B, lang::Ptr<lang::f32> C,
                           lang::i32 M, lang::i32 N, lang::i32 K, lang::Const BM, lang::Const BN, lang::Const BK) {
                         lang::grid(lang::cdiv(M, BM), lang::cdiv(N, BN));
                         const lang::Value m = lang::program_id(0) * BM, n = lang::program_id(1) * BN;
                         lang::Var acc = lang::zeros(lang::f32_t, {BM, BN});
                         for (lang::Value k : lang::range(0, K, BK).stages(3)) {
                           const lang::Value a = a_turned ? lang::trans(lang::tile(A, {K, M}).load({k, m}, {BK, BM}))
                                                          : lang::tile(A, {M, K}).load({m, k}, {BM, BK});
                           const lang::Value b = b_turned ? lang::trans(lang::tile(B, {N, K}).load({n, k}, {BN, BK}))
                                                          : lang::tile(B, {K, N}).load({k, n}, {BK, BN});
                           acc = lang::dot(a, b, acc, dsl::Precision::kTf32);
                         }
                         lang::tile(C, {M, N}).store({m, n}, acc);
                       });
      ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
      SCOPED_TRACE(std::string(a_turned ? "A turned" : "A") + (b_turned ? ", B turned" : ", B"));
      const std::vector<TestArgument> arguments = {random_buffer(ElementType::kF32, kM * kK, 1, false),
                                                   random_buffer(ElementType::kF32, kK * kN, 2, false),
                                                   random_buffer(ElementType::kF32, kM * kN, 3, false),
                                                   int_scalar(kM),
                                                   int_scalar(kN),
                                                   int_scalar(kK)};
      expect_agreement(*def.ir(), config, facts_of(*def.ir(), arguments), arguments, 2, {2e-3, 2e-2});
    }
  }
}

TEST(GpuPipelines, ProductsOfWordsInAnyOrder) { multiply_words({}); }

TEST(GpuPipelines, ProductsOfWordsInAnyOrderAndTilesThatAreNoPowersOfTwo) { multiply_words({{"BN", 96}, {"BK", 48}}); }

// Arrays in lines that are longer than they are wide: an engine's boxes are clipped inside 16 bytes of each line.
TEST(GpuPipelines, LinesThatEndInside16Bytes) {
  const auto def = lang::kernel(
      "product_of_lines", {"A", "B", "C", "M", "N", "K", "lda", "ldb", "BM=64", "BN=64", "BK=32"},
      [](lang::Ptr<const lang::f16> A, lang::Ptr<const lang::f16> B, lang::Ptr<lang::f32> C, lang::i32 M, lang::i32 N,
         lang::i32 K, lang::i32 lda, lang::i32 ldb, lang::Const BM, lang::Const BN, lang::Const BK) {
        lang::grid(lang::cdiv(M, BM), lang::cdiv(N, BN));
        const lang::Value m = lang::program_id(0) * BM, n = lang::program_id(1) * BN;
        lang::Var acc = lang::zeros(lang::f32_t, {BM, BN});
        for (lang::Value k : lang::range(0, K, BK).stages(3)) {
          acc = lang::dot(lang::tile(A, {M, K}, {lda, 1}).load({m, k}, {BM, BK}),
                          lang::tile(B, {K, N}, {ldb, 1}).load({k, n}, {BK, BN}), acc);
        }
        lang::tile(C, {M, N}).store({m, n}, acc);
      });
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  constexpr int64_t kM = 70, kN = 83, kK = 75, kLine = 96;
  const std::vector<TestArgument> arguments = {random_buffer(ElementType::kF16, kM * kLine, 1, false),
                                               random_buffer(ElementType::kF16, kK * kLine, 2, false),
                                               random_buffer(ElementType::kF32, kM * kN, 3, false),
                                               int_scalar(kM),
                                               int_scalar(kN),
                                               int_scalar(kK),
                                               int_scalar(kLine),
                                               int_scalar(kLine)};
  const dsl::Facts facts = facts_of(*def.ir(), arguments);
  if (on_cuda()) {
    const auto artifact = compile(*def.ir(), {}, facts);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    EXPECT_EQ(artifact->metadata.device->tensor_maps.size(), 2u) << "these are no bulk loads";
  }
  expect_agreement(*def.ir(), {}, facts, arguments, 2, {1e-4, 1e-3});
}

// Whole blocks of keys, the products of one with values behind the next one's with keys, and a part of one.
void attend(int64_t width, int64_t keys) {
  SCOPED_TRACE("heads of " + std::to_string(width) + ", blocks of " + std::to_string(keys) + " keys");
  const dsl::Kernel kernel = *lang::kernels::attention<lang::bf16>().ir();
  constexpr int64_t kBatch = 1, kHeads = 1, kSeq = 112;
  const auto elements = static_cast<size_t>(kBatch * kHeads * kSeq * width);
  for (int64_t causal : {0, 1}) {
    std::vector<TestArgument> arguments = {random_buffer(ElementType::kBF16, elements, 1, false),
                                           random_buffer(ElementType::kBF16, elements, 2, false),
                                           random_buffer(ElementType::kBF16, elements, 3, false),
                                           random_buffer(ElementType::kBF16, elements, 4, false),
                                           buffer(std::vector<int32_t>{101}),
                                           int_scalar(kBatch),
                                           int_scalar(kHeads),
                                           int_scalar(kHeads),
                                           int_scalar(kSeq),
                                           scalar_bits(std::bit_cast<uint32_t>(0.125F))};
    dsl::Facts facts = aligned_facts(kernel);
    for (size_t i : {5, 6, 7}) facts[i] = ParamFact::kNone;
    // By one group of warps, and by two that may drift apart.
    const int64_t groups = causal + 1;
    const dsl::ConstexprValues config = {
        {"D", width}, {"CAUSAL", causal}, {"BM", 64 * groups}, {"BN", keys}, {"num_warps", 4 * groups}};
    expect_agreement(kernel, config, facts, arguments, 3, {2e-2, 2e-2});
  }
}

TEST(GpuPipelines, Attention) { attend(64, 32); }

// Steps and columns of products that would be padding are left out, and so are panels of it.
TEST(GpuPipelines, AttentionOfHeadsThatAreNoPowersOfTwo) {
  attend(96, 32);
  attend(80, 48);
}

// Blocks that take one program after another: some have no iterations, or none but masked ones, and rings go on where
// the last program left them, in each of their slots and phases.
TEST(GpuPipelines, AttentionOfPersistentBlocks) {
  const dsl::Kernel kernel = *lang::kernels::attention_with_lse<lang::bf16>().ir();
  constexpr int64_t kBatch = 4, kHeads = 2, kKeyHeads = 1, kSeq = 144;
  const auto arguments_of = [](int64_t width) -> std::vector<TestArgument> {
    const auto queries = static_cast<size_t>(kBatch * kHeads * kSeq * width);
    const auto keys = static_cast<size_t>(kBatch * kKeyHeads * kSeq * width);
    return {random_buffer(ElementType::kBF16, queries, 1, false),
            random_buffer(ElementType::kBF16, keys, 2, false),
            random_buffer(ElementType::kBF16, keys, 3, false),
            random_buffer(ElementType::kBF16, queries, 4, false),
            random_buffer(ElementType::kF32, kBatch * kHeads * kSeq, 5, false),
            buffer(std::vector<int32_t>{144, 0, 13, 129}),
            int_scalar(kBatch),
            int_scalar(kHeads),
            int_scalar(kKeyHeads),
            int_scalar(kSeq),
            scalar_bits(std::bit_cast<uint32_t>(0.125F))};
  };
  dsl::Facts facts = aligned_facts(kernel);
  for (size_t i : {6, 7, 8}) facts[i] = ParamFact::kNone;
  const std::vector<Shape> blocks =
      on_cuda() ? std::vector<Shape>{{"", 2, 4, 2}, {"", 3, 4, 2}}
                : std::vector<Shape>{{"gpu:warps=4,groups=1,copying=2", 2}, {"gpu:warps=8,groups=1,copying=2", 3}};
  for (const auto& [causal, window, width] : {std::tuple(0, 0, 32), std::tuple(1, 0, 32), std::tuple(1, 40, 32),
                                              std::tuple(0, 24, 32), std::tuple(1, 0, 96)}) {
    SCOPED_TRACE("causal " + std::to_string(causal) + ", window " + std::to_string(window) + ", heads of " +
                 std::to_string(width));
    const dsl::ConstexprValues config = {{"D", width},       {"CAUSAL", causal},
                                         {"WINDOW", window}, {"BM", causal == 0 ? 64 : 128},
                                         {"BN", 32},         {"TOGETHER", causal}};
    if (!on_cuda()) {
      const auto artifact = compile(kernel, config, facts, blocks[0].target);
      ASSERT_TRUE(artifact.ok()) << artifact.error().message;
      EXPECT_TRUE(artifact->metadata.offsets.contains(abi::LaunchField::kGrid));
    }
    expect_agreement(kernel, config, facts, arguments_of(width), 3, {2e-2, 2e-2}, sampled(blocks, 1));
  }
}

TestArgument numbers_below(int32_t bound, size_t count) {
  std::vector<int32_t> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<int32_t>((i * 37 + 11) % static_cast<size_t>(bound));
  return buffer(out);
}

// A table names the rows of each block, and another one where the block's rows begin: both are looked up ahead of the
// copies, and not behind the tables' ends.
TEST(GpuPipelines, RowsThatATableNames) {
  const auto def = lang::kernel(
      "product_of_rows", {"A", "B", "rows", "starts", "C", "K", "BM=16", "BN=64", "BK=32"},
      [](lang::Ptr<const lang::f16> A, lang::Ptr<const lang::f16> B, lang::Ptr<const lang::i32> rows,
         lang::Ptr<const lang::i32> starts, lang::Ptr<lang::f32> C, lang::i32 K, lang::Const BM, lang::Const BN,
         lang::Const BK) {
        const lang::Value lane = lang::arange(0, BN);
        lang::Var acc = lang::zeros(lang::f32_t, {BM, BN});
        for (lang::Value k : lang::range(0, K, BK).stages(3)) {
          const lang::Value at = k + lang::arange(0, BK), is_row = at < K;
          const lang::Value row = lang::load(starts + k / BK) + lang::load(rows + at, {.mask = is_row});
          const lang::Value b = lang::load(B + (lang::expand_dims(row * BN, 1) + lang::expand_dims(lane, 0)),
                                           {.mask = lang::expand_dims(is_row, 1)});
          acc = lang::dot(lang::tile(A, {BM, K}).load({0, k}, {BM, BK}), b, acc);
        }
        lang::tile(C, {BM, BN}).store({0, 0}, acc);
      });
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  constexpr int64_t kK = 112, kRows = 50, kBlocks = 4;
  const std::vector<TestArgument> arguments = {random_buffer(ElementType::kF16, 16 * kK, 1, false),
                                               random_buffer(ElementType::kF16, (kRows + kBlocks) * 64, 2, false),
                                               numbers_below(kRows, kK),
                                               numbers_below(kBlocks, kBlocks),
                                               random_buffer(ElementType::kF32, 16 * 64, 4, false),
                                               int_scalar(kK)};
  expect_agreement(*def.ir(), {}, facts_of(*def.ir(), arguments), arguments, 4, {2e-3, 2e-2},
                   on_cuda() ? shapes()
                             : std::vector<Shape>{{"gpu:warps=4,groups=1,copying=0", 2},
                                                  {"gpu:warps=8,groups=1,copying=0", 3},
                                                  {"gpu:warps=2,groups=0,copying=1", 3},
                                                  {"amd:gfx942", 3},
                                                  {"amd:gfx1100", 2}});
}

// A block has more threads than its program where the only pipelined loop is copied in bulk.
TEST(GpuPipelines, OnlyBulkCopiesHaveWarpsOfTheirOwn) {
  if (on_cuda()) GTEST_SKIP() << "the same on the emulator";
  const dsl::Kernel kernel = *lang::kernels::matmul<lang::f16>().ir();
  const dsl::ConstexprValues config = {{"BM", 64}, {"BN", 64}, {"BK", 32}, {"num_stages", 2}};
  const auto threads = [&](const dsl::Facts& facts, const char* target) {
    const auto artifact = compile(kernel, config, facts, target);
    return artifact ? artifact->metadata.device->threads.value_or(0) : 0;
  };
  EXPECT_EQ(threads(aligned_facts(kernel), "gpu:warps=4,groups=1,copying=1"), 5 * 32);
  EXPECT_EQ(threads(aligned_facts(kernel), "gpu:warps=4,groups=1,copying=0"), 4 * 32);
  EXPECT_EQ(threads({}, "gpu:warps=4,groups=1,copying=1"), 4 * 32);
}

TEST(GpuPipelines, TilesThatAreNoPowersOfTwoAreCopiedInBulk) {
  if (on_cuda()) GTEST_SKIP() << "the same on the emulator";
  const auto threads = [&](const dsl::Kernel& kernel, const dsl::ConstexprValues& config) {
    const auto artifact = compile(kernel, config, aligned_facts(kernel), "gpu:warps=4,groups=1,copying=1");
    return artifact ? artifact->metadata.device->threads.value_or(0) : 0;
  };
  const dsl::Kernel matmul = *lang::kernels::matmul<lang::f16>().ir();
  EXPECT_EQ(threads(matmul, {{"BM", 64}, {"BN", 96}, {"BK", 96}, {"num_stages", 2}}), 5 * 32);
  EXPECT_EQ(threads(matmul, {{"BM", 64}, {"BN", 160}, {"BK", 48}, {"num_stages", 2}}), 5 * 32);
  // Lines end inside 32 bytes; a step's padding would not be zeros.
  EXPECT_EQ(threads(matmul, {{"BM", 64}, {"BN", 40}, {"BK", 32}, {"num_stages", 2}}), 4 * 32);
  EXPECT_EQ(threads(matmul, {{"BM", 64}, {"BN", 64}, {"BK", 24}, {"num_stages", 2}}), 4 * 32);
  const dsl::Kernel attention = *lang::kernels::attention<lang::bf16>().ir();
  EXPECT_EQ(threads(attention, {{"D", 96}, {"BM", 64}, {"BN", 32}, {"num_stages", 2}}), 5 * 32);
}

}  // namespace
}  // namespace kiln::test
