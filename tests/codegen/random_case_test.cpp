// Random kernels of all that the CPU backend and the lowering for GPUs compile, against the interpreter: exact where
// the language is exact. KILN_RANDOM_KERNELS sets how many, KILN_RANDOM_SEED the first seed. A failure is shrunk before
// it is shown, unless KILN_RANDOM_AS_IT_IS is set: a smaller kernel may crash.
#include <gtest/gtest.h>

#include <cstdlib>

#include "harness.h"
#include "random/shrink.h"
#include "random_cases.h"

namespace kiln::test {
namespace {

using random_kernel::Case;

// Kernel after kernel on the targets by turns.
void check_seeds(uint32_t count, const random_kernel::Options& options, const std::vector<std::string>& targets) {
  count = number_from("KILN_RANDOM_KERNELS", count);
  const uint32_t first = number_from("KILN_RANDOM_SEED", 1);
  for (uint32_t seed = first; seed < first + count; ++seed) {
    const std::string& target = targets[seed % targets.size()];
    const Case test = random_kernel::generate(seed, options);
    if (std::getenv("KILN_RANDOM_VERBOSE")) std::fprintf(stderr, "seed %u %s\n", seed, target.c_str());
    const std::string difference = run_case(test, target).wrong;
    if (difference.empty()) continue;
    if (std::getenv("KILN_RANDOM_AS_IT_IS")) {
      ADD_FAILURE() << "seed " << seed << " " << target << ": " << difference;
      continue;
    }
    const auto fails = [&](const Case& candidate) { return !run_case(candidate, target).wrong.empty(); };
    const Case small = random_kernel::shrink(test, fails, {300, true});
    ADD_FAILURE() << "seed " << seed << " " << target << ": " << run_case(small, target).wrong << "\n"
                  << random_kernel::reproducer(small);
    if (!std::getenv("KILN_RANDOM_KEEP_GOING")) return;
  }
}

TEST(RandomOnCpu, EveryOpAgreesWithTheInterpreter) { check_seeds(1700, cpu_options(), {""}); }
TEST(RandomOnGpu, EveryOpAgreesWithTheInterpreter) { check_seeds(150, {}, {"gpu"}); }

#ifdef KILN_AMDGCN
// The processor goes with the seed, so that a seed fails as it did.
TEST(RandomOnAmd, EveryOpAgreesWithTheInterpreter) {
  check_seeds(40, {}, {"amd:gfx942", "amd:gfx1100", "amd:gfx90a", "amd:gfx1200", "amd:gfx906"});
}
#endif

// Each found a bug once: divisors with lanes nobody asks for, the sign of a NaN of f8, scans of long rows across an
// axis and of operands of several widths, comparisons of halves that LLVM turned round.
TEST(RandomOnCpu, SeedsThatFoundBugs) {
  const random_kernel::Options options = cpu_options();
  for (uint64_t seed : {207328, 1101355, 400837, 1103203, 1302706, 1406554, 101430, 1502413, 7201278, 5403401}) {
    const Case test = random_kernel::generate(seed, options);
    EXPECT_EQ(run_case(test, "").wrong, "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace kiln::test
