// The inputs that once were findings, and the kernels of the tree, through the function that libFuzzer calls: so that
// every compiler and sanitizer runs them. A broken promise ends the process; the last name printed is the culprit.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include "check.h"

namespace {

namespace fs = std::filesystem;

size_t run_all(const fs::path& folder) {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::cout << entry.path().string() << std::endl;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), 0);
    ++count;
  }
  return count;
}

TEST(FuzzRegressions, NoneComesBack) { EXPECT_GT(run_all(KILN_FUZZ_REGRESSIONS), 0u); }

TEST(FuzzRegressions, FilesOfTheTreeAreSurvived) {
  // Text for the one target, junk for the others.
  EXPECT_GT(run_all(fs::path(KILN_SOURCE_DIR) / "dsl/examples"), 0u);
  EXPECT_GT(run_all(fs::path(KILN_SOURCE_DIR) / "tests/golden"), 0u);
  EXPECT_GT(run_all(fs::path(KILN_SOURCE_DIR) / "tests/golden/graph"), 0u);
}

TEST(FuzzRegressions, EmptyInput) {
  const uint8_t none = 0;
  EXPECT_EQ(LLVMFuzzerTestOneInput(&none, 0), 0);
}

}  // namespace
