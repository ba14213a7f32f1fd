// Kernels of very many ops for AMD: in parts (gpu/llvm_passes/parts.h), with calls (elementwise/calls.h), they compute
// what they say.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "amd_device.h"
#include "growth/families.h"
#include "harness.h"
#include "kiln/dsl/canonical.h"
#include "kiln/dsl/instantiate.h"

namespace kiln::test {
namespace {

struct Case {
  const char* family;
  int count;
};

struct Arrays {
  std::vector<uint32_t> x, y;
  std::array<dsl::Argument, 3> arguments;

  Arrays(const growth::Family& family, int count)
      : x(static_cast<size_t>(growth::elements(family, count))), y(x.size()) {
    const auto extent = static_cast<int64_t>(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const auto number = static_cast<int64_t>(i % 8);
      x[i] = static_cast<uint32_t>(family.is_int
                                       ? dsl::bits_from_int(dsl::ElementType::kI32, number)
                                       : dsl::bits_from_double(dsl::ElementType::kF32, static_cast<double>(number)));
    }
    arguments = {{{x.data(), extent, 0}, {y.data(), extent, 0}, {nullptr, 0, 2}}};
  }
};

bool matches(const growth::Family& family, uint32_t x, uint32_t y) {
  if (x == y || family.is_int) return x == y;
  const double a = dsl::double_from_bits(dsl::ElementType::kF32, x);
  const double b = dsl::double_from_bits(dsl::ElementType::kF32, y);
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return !family.is_exact && std::abs(a - b) <= 1e-3 * (1 + std::abs(b));
}

class GrowthOnAmd : public testing::TestWithParam<Case> {};

TEST_P(GrowthOnAmd, ComputesWhatItSays) {
  const auto [name, count] = GetParam();
  const growth::Family& family = *growth::find_family(name);
  const auto kernel = family.kernel(count);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const dsl::Kernel canonical = dsl::canonicalise(*kernel);
  const auto concrete = dsl::instantiate(canonical, {}, {});
  ASSERT_TRUE(concrete.ok()) << concrete.error().message;
  const auto artifact = compile(canonical, {}, {}, "amd:gfx942", "so");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  Arrays made(family, count), meant(family, count);
  const auto run = run_on_amd(*artifact, *concrete, made.arguments, {1, 1, 1});
  ASSERT_TRUE(run.ok()) << run.error().message;
  const auto interpreted = dsl::interpret(*concrete, meant.arguments, {1, 1, 1});
  ASSERT_TRUE(interpreted.ok()) << interpreted.error().message;
  for (size_t i = 0; i < meant.y.size(); ++i) {
    ASSERT_TRUE(matches(family, made.y[i], meant.y[i]))
        << "element " << i << ": " << std::hex << made.y[i] << ", not " << meant.y[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GrowthOnAmd,
                         testing::Values(Case{"adds_f32", 20000}, Case{"tanhs", 1000}, Case{"divisions", 1000},
                                         Case{"reductions", 800}, Case{"sums", 500}, Case{"scans", 300},
                                         Case{"stores", 1000}, Case{"loads", 1000}, Case{"updates", 1000},
                                         Case{"branches", 800}, Case{"loops", 500}, Case{"taps", 500}),
                         [](const auto& info) { return std::string(info.param.family); });

}  // namespace
}  // namespace kiln::test
