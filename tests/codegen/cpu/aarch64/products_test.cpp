// Products of small numbers on AArch64, by every unit that a machine has, against sums in f64.
#include "on_aarch64.h"
#include "sampled.h"
#include "small_products.h"

namespace kiln::test {
namespace {

class ProductsOnAarch64 : public Aarch64Test {
 protected:
  void check(const Product& t, const std::string& units) const {
    SCOPED_TRACE(name_of(t.a) + "·" + name_of(t.b) + " " + std::to_string(t.m) + "x" + std::to_string(t.n) + "x" +
                 std::to_string(t.k) + (t.b_transposed ? "^T" : "") + units);
    const Case test = case_of(t, static_cast<uint64_t>(t.m * t.n + t.k));
    auto done = emulated(test, "so", units);
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_LE(error_of(t, test.inputs, (*done)[2]), dsl::is_float(t.a) ? 1e-6 : 0);
  }

  std::string assembly(const Product& t, const std::string& units) const {
    auto artifact = compiled(case_of(t, 1), "asm", units);
    EXPECT_TRUE(artifact.ok()) << artifact.error().message;
    return artifact ? std::string(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()) : "";
  }
};

constexpr ElementType kI8 = ElementType::kI8, kU8 = ElementType::kU8, kBF16 = ElementType::kBF16;

// One row, odd rows, several blocks of rows; columns and K that fill vectors and units, and that do not.
const std::vector<std::array<int64_t, 3>> kShapes = {{1, 7, 9}, {2, 4, 8}, {5, 7, 9}, {13, 37, 66}};
const std::vector<std::pair<ElementType, ElementType>> kOtherBytes = {{kU8, kU8}, {kU8, kI8}, {kI8, kU8}};
const std::vector<ElementType> kSmallFloats = {ElementType::kF8E4M3, ElementType::kF8E5M2};

TEST_P(ProductsOnAarch64, OfEveryUnitAreRight) {
  const auto has = [&](ElementType type, const char* unit) {
    return compiled(case_of({type, type, 2, 4, 8}, 1), "so", unit).ok();
  };
  for (const char* unit : {";dot-i8=widen", ";dot-i8=sdot", ";dot-i8=smmla"}) {
    if (!has(kI8, unit)) continue;
    for (const auto& [m, n, k] : sampled(kShapes, 2)) check({kI8, kI8, m, n, k}, unit);
    for (const auto& [a, b] : sampled(kOtherBytes, 1)) check({a, b, 13, 37, 66}, unit);
    check({kI8, kI8, 9, 12, 32, true}, unit);
  }
  for (const char* unit : {";dot-bf16=widen", ";dot-bf16=bfdot", ";dot-bf16=bfmmla"}) {
    if (!has(kBF16, unit)) continue;
    for (const auto& [m, n, k] : sampled(kShapes, 2)) check({kBF16, kBF16, m, n, k}, unit);
    for (const ElementType type : sampled(kSmallFloats, 1)) check({type, type, 13, 37, 66}, unit);
    check({kBF16, kBF16, 9, 12, 32, true}, unit);
  }
}

// What the table of capabilities says of the target's usual units is held against machine code elsewhere; here the
// others, and the signs that it does not tell apart.
TEST_P(ProductsOnAarch64, AreOfTheInstructionsOfTheirUnit) {
  const auto contains = [&](const Product& t, const std::string& units, const char* mnemonic) {
    return assembly(t, units).find(mnemonic) != std::string::npos;
  };
  const auto of = [](ElementType a, ElementType b, int64_t rows) { return Product{a, b, rows, 16, 32}; };
  const std::string target = GetParam().target;
  const bool newer = target.starts_with("cpu:neoverse-v"), dots = newer || target == "cpu:neoverse-n1";
  EXPECT_EQ(contains(of(kI8, kI8, 8), "", "\tsmmla"), newer);
  EXPECT_EQ(contains(of(kU8, kU8, 8), "", "\tummla"), newer);
  EXPECT_EQ(contains(of(kU8, kI8, 8), "", "\tusmmla"), newer);
  EXPECT_EQ(contains(of(kI8, kU8, 8), "", "\tusmmla"), newer);
  EXPECT_EQ(contains(of(kBF16, kBF16, 8), "", "\tbfmmla"), newer);
  // Of a single row half of a block would be for nothing.
  EXPECT_EQ(contains(of(kI8, kI8, 1), "", "\tsdot"), dots);
  EXPECT_EQ(contains(of(kI8, kU8, 1), "", "\tusdot"), newer);
  EXPECT_EQ(contains(of(kBF16, kBF16, 1), "", "\tbfdot"), newer);
  if (!dots) return;
  EXPECT_FALSE(contains(of(kI8, kI8, 8), ";dot-i8=widen", "\tsmmla"));
  EXPECT_TRUE(contains(of(kU8, kU8, 8), ";dot-i8=sdot", "\tudot"));
  if (!newer) return;
  EXPECT_TRUE(contains(of(kBF16, kBF16, 8), ";dot-bf16=bfdot", "\tbfdot"));
  EXPECT_TRUE(contains(of(kBF16, kBF16, 8), ";dot-bf16=widen", "\tfmla"));
}

INSTANTIATE_TEST_SUITE_P(Targets, ProductsOnAarch64, testing::ValuesIn(kMachines),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace kiln::test
