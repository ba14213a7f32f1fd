// Code for AArch64, run by qemu's user-mode emulator and compared with the interpreter: random kernels of every op, and
// kernels of the library. Skipped, with the reason, where the emulator or the cross compiler is not installed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kiln/codegen/compile.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/kernels.h"
#include "random/facts.h"
#include "random/generator.h"
#include "random/shrink.h"
#include "supported.h"

namespace kiln::test {
namespace {

using random_kernel::Case;
using random_kernel::Input;

constexpr const char* kQemu = KILN_QEMU;      // "" where there is none
constexpr const char* kRunner = KILN_RUNNER;  // built by the cross compiler; "" where there is none
constexpr const char* kSysroot = "/usr/aarch64-linux-gnu";

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

struct Machine {
  const char* name;        // of the test
  const char* target;      // of the code
  const char* cpu;         // that the emulator is
  int sve_bits;            // which that has
  const char* needs = "";  // what code for one length alone asks of its host
};

class OnAarch64 : public testing::TestWithParam<Machine> {
 protected:
  void SetUp() override {
    if (*kQemu == 0) GTEST_SKIP() << "qemu-aarch64 is not installed (Debian: qemu-user)";
    if (*kRunner == 0) GTEST_SKIP() << "aarch64-linux-gnu-gcc is not installed (Debian: gcc-aarch64-linux-gnu)";
    static const bool warm = (codegen::warm_up(), true);
    (void)warm;
    std::string name = (std::filesystem::temp_directory_path() / "kiln-aarch64-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override {
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  Result<Artifact> compiled(const Case& test, const char* emit = "so") const {
    auto request = dsl::encode_request({test.kernel, GetParam().target, test.config, test.facts, emit});
    if (!request) return request.error();
    return codegen::compile(request->canonical, request->debug, {});
  }

  // The arguments after the emulator ran the case.
  Result<std::vector<Input>> emulated(const Case& test, const char* emit = "so") const {
    auto artifact = compiled(test, emit);
    if (!artifact) return artifact.error();
    auto kernel = random_kernel::instantiated(test);
    if (!kernel) return kernel.error();
    auto grid = random_kernel::grid_of(*kernel, test.inputs);
    if (!grid) return grid.error();
    const std::string code = (directory_ / "kernel.so").string(), launch = (directory_ / "case").string();
    std::ofstream(code, std::ios::binary)
        .write(reinterpret_cast<const char*>(artifact->code.data()),
               static_cast<std::streamsize>(artifact->code.size()));
    write_case(launch, *kernel, artifact->metadata, *grid, test.inputs);
    auto output = runner_says(code + " " + artifact->metadata.entry + " " + launch);
    if (!output) return output.error();
    return read_buffers(launch, test.inputs);
  }

  Result<std::string> runner_says(const std::string& arguments) const {
    const std::string command =
        std::string(kQemu) + " -cpu " + GetParam().cpu + " -L " + kSysroot + " " + kRunner + " " + arguments + " 2>&1";
    FILE* pipe = ::popen(command.c_str(), "r");
    std::string output;
    for (int c; pipe != nullptr && (c = std::fgetc(pipe)) != EOF;) output += static_cast<char>(c);
    const int status = pipe != nullptr ? ::pclose(pipe) : -1;
    if (status == 0) return output;
    return internal_error("the emulated runner ended with status " + std::to_string(status) + ": " + output);
  }

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

 private:
  static void write_case(const std::string& path, const dsl::Kernel& kernel, const abi::Metadata& metadata,
                         const std::array<uint32_t, 3>& grid, const std::vector<Input>& inputs) {
    std::ofstream file(path, std::ios::binary);
    auto put = [&](uint64_t number) { file.write(reinterpret_cast<const char*>(&number), sizeof number); };
    put(static_cast<uint64_t>(metadata.params_bytes));
    put(static_cast<uint64_t>(metadata.scratch_bytes.value_or(0)));
    put(static_cast<uint64_t>(metadata.workspace_bytes.value_or(0)));
    for (uint32_t extent : grid) put(extent);
    put(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const dsl::Type& type = kernel.params[i].type;
      put(metadata.params[i].offset);
      put(type.pointer ? 8 : static_cast<uint64_t>(dsl::info(type.element).bytes));
      put(inputs[i].buffer.size());
      put(inputs[i].bits);
      file.write(reinterpret_cast<const char*>(inputs[i].buffer.data()),
                 static_cast<std::streamsize>(inputs[i].buffer.size()));
    }
  }

  static Result<std::vector<Input>> read_buffers(const std::string& path, std::vector<Input> inputs) {
    std::ifstream file(path, std::ios::binary);
    for (Input& input : inputs) {
      file.read(reinterpret_cast<char*>(input.buffer.data()), static_cast<std::streamsize>(input.buffer.size()));
    }
    if (!file) return internal_error("the emulated runner wrote too little");
    return inputs;
  }

  std::filesystem::path directory_;
};

TEST_P(OnAarch64, RandomKernelsAgreeWithTheInterpreter) {
  const uint32_t count = number_from("KILN_AARCH64_KERNELS", 25), first = number_from("KILN_RANDOM_SEED", 1);
  for (uint32_t seed = first; seed < first + count && !HasFailure(); ++seed) expect_agreement(seed);
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

// Code for scalable vectors of 256 and 512 bits, and of 128, which runs whatever their length is.
constexpr Machine kMachines[] = {
    {"generic", "cpu:aarch64", "cortex-a53", 0},
    {"neoverse_n1", "cpu:neoverse-n1", "neoverse-n1", 0},
    {"neoverse_v2", "cpu:neoverse-v2", "max,sve128=on", 128},
    {"any_length", "cpu:neoverse-v1;sve=128", "max,sve512=on", 512},
    {"neoverse_v1", "cpu:neoverse-v1", "max,sve256=on", 256, "sve256"},
    {"a64fx", "cpu:a64fx", "a64fx", 512, "sve512"},
    {"sve2_of_256", "cpu:neoverse-v2;sve=256", "max,sve256=on", 256, "sve256"},
    {"sve2_of_512", "cpu:neoverse-v2;sve=512", "max,sve512=on", 512, "sve512"},
};
INSTANTIATE_TEST_SUITE_P(Targets, OnAarch64, testing::ValuesIn(kMachines),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace kiln::test
