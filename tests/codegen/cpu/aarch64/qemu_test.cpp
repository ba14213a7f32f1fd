// Random kernels of every op, and kernels of the library, on AArch64 against the interpreter.
#include <cmath>
#include <numeric>

#include "kiln/dsl/kernels.h"
#include "on_aarch64.h"
#include "random/facts.h"
#include "random/generator.h"
#include "random/shrink.h"
#include "sampled.h"
#include "supported.h"

namespace kiln::test {
namespace {

uint32_t number_from(const char* variable, uint32_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? static_cast<uint32_t>(std::strtoul(text, nullptr, 10)) : otherwise;
}

random_kernel::Options supported_options() {
  random_kernel::Options options;
  options.allowed = [](const dsl::Kernel& kernel, const dsl::Op& op) {
    dsl::Kernel one;
    one.options = kernel.options;
    one.values = kernel.values;
    one.body.ops = {op};
    return codegen::check_supported(one, {.family = target::Family::kAarch64}, "cpu").ok();
  };
  return options;
}

class OnAarch64 : public Aarch64Test {
 protected:
  // Of the random kernel of a seed with the interpreter; some are of the quick form.
  void expect_agreement(uint32_t seed) const {
    auto wrong = [&](const Case& test) -> std::string {
      auto expected = random_kernel::interpreted(test);
      if (!expected) return "";
      auto actual = emulated(test, seed % 4 == 0 ? "quick" : "so");
      return actual ? random_kernel::differences(test, *actual, *expected) : actual.error().message;
    };
    const Case test = random_kernel::generate(seed, supported_options());
    if (wrong(test).empty()) return;
    const Case small =
        random_kernel::shrink(test, [&](const Case& candidate) { return !wrong(candidate).empty(); }, {100, true});
    ADD_FAILURE() << "seed " << seed << ": " << wrong(small) << "\n" << random_kernel::reproducer(small);
  }
};

TEST_P(OnAarch64, RandomKernelsAgreeWithTheInterpreter) {
  constexpr size_t kOfDefaultRun = 10;
  std::vector<uint32_t> seeds(number_from("KILN_AARCH64_KERNELS", 25));
  std::iota(seeds.begin(), seeds.end(), number_from("KILN_RANDOM_SEED", 1));
  for (const uint32_t seed : sampled(seeds, std::getenv("KILN_AARCH64_KERNELS") ? seeds.size() : kOfDefaultRun)) {
    if (!HasFailure()) expect_agreement(seed);
  }
}

// Integers that are gathered and extended; 16 lanes that lie seven elements apart.
TEST_P(OnAarch64, SeedsThatFoundBugs) {
  for (uint32_t seed : {1023, 1078, 5190}) expect_agreement(seed);
}

// Elements of f32 in [-2, 2).
Input floats(size_t count, uint64_t seed) {
  random_kernel::Random random(seed);
  std::vector<uint64_t> bits(count);
  for (uint64_t& one : bits) {
    one = dsl::bits_from_double(dsl::ElementType::kF32, static_cast<double>(random() % 4096) / 1024 - 2);
  }
  return random_kernel::elements(dsl::ElementType::kF32, bits);
}
Input ints(uint64_t value) { return random_kernel::scalar(value); }

struct LibraryCase {
  const char* kernel;
  std::vector<Input> inputs;
};

TEST_P(OnAarch64, KernelsOfTheLibrary) {
  const uint64_t eps = dsl::bits_from_double(dsl::ElementType::kF32, 1e-5);
  const LibraryCase cases[] = {
      {"vector_add", {floats(1000, 1), floats(1000, 2), floats(1000, 3), ints(999)}},
      {"gelu", {floats(1000, 1), floats(1000, 2), ints(999)}},
      {"softmax", {floats(5 * 300, 1), floats(5 * 300, 2), ints(5), ints(297), ints(300)}},
      {"layer_norm",
       {floats(3 * 200, 1), floats(200, 2), floats(200, 3), floats(3 * 200, 4), ints(3), ints(200), ints(200),
        ints(eps)}},
      {"matmul_f32", {floats(33 * 40, 1), floats(40 * 37, 2), floats(33 * 37, 3), ints(33), ints(37), ints(40)}},
      {"matmul_bias_act",
       {floats(17 * 40, 1), floats(40 * 37, 2), floats(37, 5), floats(17 * 37, 3), ints(17), ints(37), ints(40)}},
      {"transpose", {floats(30 * 41, 1), floats(30 * 41, 2), ints(30), ints(41)}},
  };
  for (const LibraryCase& one : cases) {
    for (const dsl::LibraryKernel& kernel : dsl::library_kernels()) {
      if (kernel.name != one.kernel) continue;
      ASSERT_TRUE(kernel.ir->ok()) << one.kernel;
      const Case test{**kernel.ir, {}, {}, one.inputs};
      auto expected = random_kernel::interpreted(test);
      ASSERT_TRUE(expected.ok()) << one.kernel << ": " << expected.error().message;
      auto actual = emulated(test);
      ASSERT_TRUE(actual.ok()) << one.kernel << ": " << actual.error().message;
      for (size_t i = 0; i < actual->size(); ++i) {
        for (size_t at = 0; at < (*actual)[i].buffer.size() / 4; ++at) {
          auto value = [&](const std::vector<Input>& all) {
            return dsl::double_from_bits(dsl::ElementType::kF32,
                                         random_kernel::element_at(dsl::ElementType::kF32, all[i], at));
          };
          const double a = value(*actual), e = value(*expected);
          ASSERT_LE(std::fabs(a - e), 1e-5 + 1e-5 * std::fabs(e))
              << one.kernel << " argument " << i << " [" << at << "]";
        }
      }
    }
  }
}

TEST_P(OnAarch64, MetadataNamesTheArchitecture) {
  const Case test{**dsl::library_kernels().back().ir, {}, {}, {}};
  auto artifact = compiled(test);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  EXPECT_EQ(artifact->metadata.needs->architecture, "aarch64");
}

// Code for vectors of one length is for machines that have it, and the launcher's question finds it out.
TEST_P(OnAarch64, CodeForOneLengthAsksForIt) {
  const Case test{**dsl::library_kernels().back().ir, {}, {}, {}};
  auto artifact = compiled(test);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::string lengths;
  for (const std::string& feature : artifact->metadata.needs->features) {
    if (feature.starts_with("sve") && feature != "sve" && feature != "sve2") lengths += feature;
  }
  EXPECT_EQ(lengths, GetParam().needs);
  auto said = runner_says("--sve-bits");
  ASSERT_TRUE(said.ok()) << said.error().message;
  EXPECT_EQ(*said, std::to_string(GetParam().sve_bits) + "\n");
}

INSTANTIATE_TEST_SUITE_P(Targets, OnAarch64, testing::ValuesIn(kMachines),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace kiln::test
