// Random kernels of all that the CPU backend and the lowering for GPUs compile, against the interpreter: exact where
// the language is exact. KILN_RANDOM_KERNELS sets how many, KILN_RANDOM_SEED the first seed. A failure is shrunk before
// it is shown, unless KILN_RANDOM_AS_IT_IS is set: a smaller kernel may crash.
#include <cstdlib>

#include "cpu/supported.h"
#include "differential.h"
#include "gpu/supported.h"
#include "random/facts.h"
#include "random/generator.h"
#include "random/shrink.h"

namespace kiln::test {
namespace {

using random_kernel::Case;

uint32_t number_from(const char* variable, uint32_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? static_cast<uint32_t>(std::strtoul(text, nullptr, 10)) : otherwise;
}

random_kernel::Options cpu_options() {
  random_kernel::Options options;
  options.aligned_buffers = false;  // buffers end at a page here
  options.allowed = [](const dsl::Kernel& kernel, const dsl::Op& op) {
    dsl::Kernel one;
    one.options = kernel.options;
    one.values = kernel.values;
    one.body.ops = {op};
    return codegen::cpu::check_supported(one).ok();
  };
  return options;
}

// A reshape's result is not known yet: whether its extents can be had is seen when it is compiled.
random_kernel::Options gpu_options() {
  random_kernel::Options options;
  options.allowed = [](const dsl::Kernel& kernel, const dsl::Op& op) {
    if (op.code == dsl::OpCode::kReshape) return true;
    dsl::Kernel one;
    one.options = kernel.options;
    one.values = kernel.values;
    one.body.ops = {op};
    return codegen::gpu::check_supported(one, "gpu").ok();
  };
  return options;
}

// What differs, or ""; an error of the compiler too.
std::string wrong(const Case& test, const std::string& target) {
  auto expected = random_kernel::interpreted(test);
  if (!expected) return "interpreter: " + expected.error().message;
  auto artifact = compile(test.kernel, test.config, test.facts, target);
  if (is_refused(artifact)) return "";
  if (!artifact) return artifact.error().message;
  std::vector<TestArgument> arguments;
  for (const random_kernel::Input& input : test.inputs)
    arguments.push_back({input.buffer, input.bits, input.is_buffer});
  if (auto ran = run_compiled(test.kernel, *artifact, arguments); !ran) return ran.error().message;
  std::vector<random_kernel::Input> actual;
  for (TestArgument& argument : arguments)
    actual.push_back({std::move(argument.buffer), argument.bits, argument.is_buffer});
  return random_kernel::differences(test, actual, *expected);
}

void check_seeds(uint32_t count, const random_kernel::Options& options, const std::string& target) {
  count = number_from("KILN_RANDOM_KERNELS", count);
  const uint32_t first = number_from("KILN_RANDOM_SEED", 1);
  for (uint32_t seed = first; seed < first + count; ++seed) {
    const Case test = random_kernel::generate(seed, options);
    const std::string difference = wrong(test, target);
    if (difference.empty()) continue;
    if (std::getenv("KILN_RANDOM_AS_IT_IS")) {
      ADD_FAILURE() << "seed " << seed << ": " << difference;
      continue;
    }
    const auto fails = [&](const Case& candidate) { return !wrong(candidate, target).empty(); };
    const Case small = random_kernel::shrink(test, fails, {300, true});
    ADD_FAILURE() << "seed " << seed << ": " << wrong(small, target) << "\n" << random_kernel::reproducer(small);
    if (!std::getenv("KILN_RANDOM_KEEP_GOING")) return;
  }
}

TEST(RandomOnCpu, EveryOpAgreesWithTheInterpreter) { check_seeds(1700, cpu_options(), ""); }
TEST(RandomOnGpu, EveryOpAgreesWithTheInterpreter) { check_seeds(150, gpu_options(), "gpu"); }

// Each found a bug once: divisors with lanes nobody asks for, the sign of a NaN of f8, scans of long rows across an
// axis and of operands of several widths, comparisons of halves that LLVM turned round.
TEST(RandomOnCpu, SeedsThatFoundBugs) {
  const random_kernel::Options options = cpu_options();
  for (uint64_t seed : {207328, 1101355, 400837, 1103203, 1302706, 1406554, 101430, 1502413, 7201278, 5403401}) {
    const Case test = random_kernel::generate(seed, options);
    EXPECT_EQ(wrong(test, ""), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace kiln::test
