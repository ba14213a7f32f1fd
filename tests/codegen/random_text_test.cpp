// Random kernels, compiled against interpreted. KILN_RANDOM_KERNELS sets how many, KILN_RANDOM_SEED the first seed.
#include "random_text.h"

#include <cstdlib>

#include "random_cases.h"

namespace kiln::test {
namespace {

TEST(RandomOnCpu, AgreesWithTheInterpreter) {
  const uint32_t count = number_from("KILN_RANDOM_KERNELS", 160), first = number_from("KILN_RANDOM_SEED", 1);
  const std::vector<std::string> targets = cpu_targets();
  for (uint32_t seed = first; seed < first + count; ++seed) {
    RandomText random(seed);
    const std::string text = random.make();
    Trial run{random.arguments(), {0, 0, true}, {""}};
    if (seed % 3 == 0) run.targets = {targets[seed / 3 % targets.size()]};
    SCOPED_TRACE("seed " + std::to_string(seed));
    if (std::getenv("KILN_RANDOM_VERBOSE")) std::fprintf(stderr, "seed %u\n", seed);
    expect_same(text, run);
    if (testing::Test::HasFatalFailure()) return;
    if (testing::Test::HasFailure() && !std::getenv("KILN_RANDOM_KEEP_GOING")) return;
  }
}

}  // namespace
}  // namespace kiln::test
