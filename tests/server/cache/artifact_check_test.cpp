// What a worker calls code must be code of that form.
#include "cache/artifact_check.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace kiln::server {
namespace {

Result<void> checked(const char* emit, const std::string& code) {
  abi::Metadata metadata;
  metadata.emit = emit;
  metadata.entry = "kiln_entry";
  return check_artifact(metadata, std::as_bytes(std::span(code)));
}

TEST(ArtifactCheck, CodeIsWhatItIsSaidToBe) {
  std::string elf(std::filesystem::file_size("/proc/self/exe"), '\0');
  std::ifstream("/proc/self/exe", std::ios::binary).read(elf.data(), static_cast<long>(elf.size()));
  for (const char* emit : {"so", "obj", "cubin", "hsaco"}) {
    EXPECT_TRUE(checked(emit, elf)) << emit;
    EXPECT_FALSE(checked(emit, elf.substr(0, elf.size() / 2))) << "its table of sections is at the end";
    EXPECT_FALSE(checked(emit, elf.substr(0, 40)));
    EXPECT_FALSE(checked(emit, std::string(500, 'x')));
    EXPECT_FALSE(checked(emit, ""));
  }
  EXPECT_TRUE(checked("ptx", ".visible .entry kiln_entry(\n.param .u64 a)"));
  EXPECT_FALSE(checked("ptx", ".visible .entry kiln_entry_2(\n.param .u64 a)"));
  EXPECT_FALSE(checked("ptx", ".visible .func kiln_entry("));
  EXPECT_TRUE(checked("llvm", "define"));
  EXPECT_FALSE(checked("llvm", ""));
  EXPECT_TRUE(check_artifact({}, std::as_bytes(std::span("x"))));
}

}  // namespace
}  // namespace kiln::server
