// Kernels of very many ops (growth/families.h): what a target makes of them computes what they say.
#pragma once

#include <cmath>

#include "differential.h"
#include "growth/families.h"
#include "kiln/dsl/canonical.h"

namespace kiln::test {

// As requests have it; an empty one where the family makes none.
inline dsl::Kernel grown(const growth::Family& family, int count) {
  const auto kernel = family.kernel(count);
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  return kernel ? dsl::canonicalise(*kernel) : dsl::Kernel();
}

// Small numbers, so that sums in another order are the same; the iterations of nested loops multiply.
inline std::vector<TestArgument> grown_arguments(const growth::Family& family, int count) {
  const auto type = family.is_int ? dsl::ElementType::kI32 : dsl::ElementType::kF32;
  std::vector<uint32_t> x(static_cast<size_t>(growth::elements(family, count)));
  for (size_t i = 0; i < x.size(); ++i) {
    const auto number = static_cast<int64_t>(i % 8);
    x[i] = static_cast<uint32_t>(family.is_int ? dsl::bits_from_int(type, number)
                                               : dsl::bits_from_double(type, static_cast<double>(number)));
  }
  return {buffer(x), buffer(std::vector<uint32_t>(x.size())), int_scalar(family.most ? 1 : 2)};
}

inline bool is_near(const growth::Family& family, uint32_t x, uint32_t y) {
  if (x == y || family.is_int) return x == y;
  const double a = dsl::double_from_bits(dsl::ElementType::kF32, x);
  const double b = dsl::double_from_bits(dsl::ElementType::kF32, y);
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return !family.is_exact && std::abs(a - b) <= 1e-3 * (1 + std::abs(b));
}

inline void expect_grown_computes(const growth::Family& family, int count, const std::string& target) {
  const dsl::Kernel kernel = grown(family, count);
  const auto artifact = compile(kernel, {}, {}, target);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::vector<TestArgument> made = grown_arguments(family, count), meant = made;
  const auto run = run_compiled(kernel, *artifact, made);
  ASSERT_TRUE(run.ok()) << run.error().message;
  const auto interpreted = run_interpreted(kernel, {}, {}, meant);
  ASSERT_TRUE(interpreted.ok()) << interpreted.error().message;
  const auto actual = values_of<uint32_t>(made[1]), expected = values_of<uint32_t>(meant[1]);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(is_near(family, actual[i], expected[i]))
        << "element " << i << ": " << std::hex << actual[i] << ", not " << expected[i];
  }
}

}  // namespace kiln::test
