// Kernels of very many ops: no stage dies of their length or depth, and what they are compiled to computes what they
// say. That none takes a time that grows faster than they do, bench-compile --grow shows; here a test that it does
// would end past its deadline. KILN_TEST_GROWTH=1 takes ten times as many ops.
#include <gtest/gtest.h>

#include <cstdlib>

#include "differential.h"
#include "growth/families.h"
#include "kiln/dsl/canonical.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"

namespace kiln::test {
namespace {

using growth::Family;

int scale() { return std::getenv("KILN_TEST_GROWTH") ? 10 : 1; }

std::vector<TestArgument> arguments_of(const Family& family, int count) {
  const auto elements = static_cast<size_t>(growth::elements(family, count));
  // Small numbers, so that sums in another order are the same.
  std::vector<uint32_t> x(elements);
  for (size_t i = 0; i < elements; ++i) {
    const auto number = static_cast<uint32_t>(i % 8);
    x[i] = family.is_int ? number : static_cast<uint32_t>(dsl::bits_from_double(dsl::ElementType::kF32, number));
  }
  return {buffer(x), buffer(std::vector<uint32_t>(elements)), int_scalar(family.most ? 1 : 2)};
}

// Through every stage before a target.
dsl::Kernel prepared(const dsl::Kernel& kernel) {
  const auto valid = dsl::verify(kernel);
  EXPECT_TRUE(valid.ok()) << valid.error().message;
  dsl::Kernel canonical = dsl::canonicalise(kernel);
  const std::string text = dsl::print(canonical);
  const auto parsed = dsl::parse(text, "grown.kiln");
  if (!parsed.ok()) {
    ADD_FAILURE() << parsed.error().message;
    return canonical;
  }
  EXPECT_TRUE(dsl::print(*parsed) == text);
  const auto decoded = dsl::decode_kernel(dsl::encode_kernel(canonical));
  EXPECT_TRUE(decoded.ok() && dsl::print(*decoded) == text);
  return canonical;
}

void expect_compiled_as_interpreted(const Family& family, int count) {
  if (!wants_targets("cpu")) GTEST_SKIP();
  const auto kernel = family.kernel(count);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const dsl::Kernel canonical = prepared(*kernel);
  const auto artifact = compile(canonical, {});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::vector<TestArgument> compiled = arguments_of(family, count), interpreted = compiled;
  const auto ran = run_compiled(canonical, *artifact, compiled);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  const auto meant = run_interpreted(canonical, {}, {}, interpreted);
  ASSERT_TRUE(meant.ok()) << meant.error().message;
  const auto type = family.is_int ? dsl::ElementType::kI32 : dsl::ElementType::kF32;
  std::string explanation;
  const Match match = family.is_exact ? kExact : Match{1e-3, 1e-3};
  EXPECT_EQ(count_differences(type, compiled[1].buffer, interpreted[1].buffer, match, explanation), 0u) << explanation;
}

class Growth : public testing::TestWithParam<Family> {};

// Long enough for parts, calls and cuts of what one nest evaluates.
TEST_P(Growth, CompiledAsInterpreted) {
  const Family& family = GetParam();
  expect_compiled_as_interpreted(family, family.most ? family.most - 1 : 1000 * scale());
}

INSTANTIATE_TEST_SUITE_P(Families, Growth, testing::ValuesIn(growth::families().begin(), growth::families().end()),
                         [](const auto& info) { return std::string(info.param.name); });

// Work lists, where a walk by recursion takes a frame an op.
TEST(GrowthOfChains, LongerThanTheStack) {
  for (const char* name : {"adds_f32", "adds_i32"}) {
    SCOPED_TRACE(name);
    expect_compiled_as_interpreted(*growth::find_family(name), 100000);
  }
}

}  // namespace
}  // namespace kiln::test
