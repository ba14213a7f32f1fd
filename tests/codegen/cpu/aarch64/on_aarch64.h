// Code for AArch64, run by qemu's user-mode emulator. Skipped, with the reason, where the emulator or the cross
// compiler is not installed.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kiln/codegen/compile.h"
#include "kiln/dsl/binary.h"
#include "random/case.h"
#include "run_elsewhere.h"

namespace kiln::test {

inline constexpr const char* kQemu = KILN_QEMU;      // "" where there is none
inline constexpr const char* kRunner = KILN_RUNNER;  // built by the cross compiler; "" where there is none
inline constexpr const char* kSysroot = "/usr/aarch64-linux-gnu";

struct Machine {
  const char* name;        // of the test
  const char* target;      // of the code
  const char* cpu;         // that the emulator is
  int sve_bits;            // which that has
  const char* needs = "";  // what code for one length alone asks of its host
};

class Aarch64Test : public testing::TestWithParam<Machine> {
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

  // `units`: behind the name of the target.
  Result<Artifact> compiled(const Case& test, const char* emit = "so", const std::string& units = "") const {
    auto request = dsl::encode_request({test.kernel, GetParam().target + units, test.config, test.facts, emit});
    if (!request) return request.error();
    return codegen::compile(request->canonical, request->debug, {});
  }

  // The arguments after the emulator ran the case.
  Result<std::vector<Input>> emulated(const Case& test, const char* emit = "so", const std::string& units = "") const {
    auto artifact = compiled(test, emit, units);
    if (!artifact) return artifact.error();
    const std::string code = (directory_ / "kernel.so").string();
    std::ofstream(code, std::ios::binary)
        .write(reinterpret_cast<const char*>(artifact->code.data()),
               static_cast<std::streamsize>(artifact->code.size()));
    return run_elsewhere(test, artifact->metadata, (directory_ / "case").string(),
                         [&](const std::string& arguments) { return runner_says(code + " " + arguments); });
  }

  Result<std::string> runner_says(const std::string& arguments) const {
    return output_of(std::string(kQemu) + " -cpu " + GetParam().cpu + " -L " + kSysroot + " " + kRunner + " " +
                     arguments);
  }

 private:
  std::filesystem::path directory_;
};

// Code for scalable vectors of 256 and 512 bits, and of 128, which runs whatever their length is.
inline constexpr Machine kMachines[] = {
    {"generic", "cpu:aarch64", "cortex-a53", 0},
    {"neoverse_n1", "cpu:neoverse-n1", "neoverse-n1", 0},
    {"neoverse_v2", "cpu:neoverse-v2", "max,sve128=on", 128},
    {"any_length", "cpu:neoverse-v1;sve=128", "max,sve512=on", 512},
    {"neoverse_v1", "cpu:neoverse-v1", "max,sve256=on", 256, "sve256"},
    {"a64fx", "cpu:a64fx", "a64fx", 512, "sve512"},
    {"sve2_of_256", "cpu:neoverse-v2;sve=256", "max,sve256=on", 256, "sve256"},
    {"sve2_of_512", "cpu:neoverse-v2;sve=512", "max,sve512=on", 512, "sve512"},
};

}  // namespace kiln::test
