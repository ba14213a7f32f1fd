// The compiler's list of passes: each row of each backend is documented, can be dumped, is timed; and the steps
// between.
#include "backend.h"

#include <gmock/gmock.h>

#include <fstream>

#include "requests/requests.h"

namespace kiln::test {
namespace {

using codegen::Backend;
using codegen::PassRow;
using testing::HasSubstr;

std::string target_of(const Backend& backend) {
  const std::string family(backend.family);
  return family == "cuda" ? "cuda:sm_90a" : family == "amd" ? "amd:gfx942" : "cpu:x86-64-v3";
}

std::string dump(const dsl::Kernel& kernel, const Backend& backend, const std::string& pass) {
  auto artifact = compile_kernel(kernel, target_of(backend), {}, {}, "ir:" + pass);
  if (!artifact) return "error: " + artifact.error().message;
  return {reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()};
}

TEST(Backends, EveryPassIsInTheGuide) {
  std::ifstream file(std::string(KILN_SOURCE_DIR) + "/docs/inside/passes.md");
  const std::string guide(std::istreambuf_iterator<char>(file), {});
  for (const Backend* backend : codegen::backends()) {
    for (const PassRow& row : rows_of(*backend)) {
      EXPECT_THAT(guide, HasSubstr("`" + std::string(row.name) + "`")) << backend->family;
      EXPECT_FALSE(row.place.empty()) << row.name;
    }
  }
}

// A product, so that passes about them have something to do. What runs leaves IR of its own level.
TEST(Backends, EveryPassCanBeDumped) {
  const dsl::Kernel kernel = *library_kernel("matmul");
  for (const Backend* backend : codegen::backends()) {
    const auto rows = rows_of(*backend);
    ASSERT_GT(rows.size(), 10u);
    bool is_llvm = false;
    for (const PassRow& row : rows) {
      const std::string text = dump(kernel, *backend, std::string(row.name));
      const bool has_tile_ir = ("\n" + text).find("\nkernel ") != std::string::npos;
      const bool has_llvm_ir = text.find("\ndefine ") != std::string::npos;
      const bool did_not_run = text.find("did not run") != std::string::npos;
      EXPECT_TRUE(has_tile_ir || has_llvm_ir || did_not_run) << backend->family << " " << row.name << "\n" << text;
      EXPECT_FALSE(is_llvm && has_tile_ir) << row.name;
      is_llvm = is_llvm || has_llvm_ir;
    }
    EXPECT_TRUE(is_llvm) << backend->family;
    EXPECT_THAT(dump(kernel, *backend, "unroll"), HasSubstr(std::string(rows.back().name)));
  }
}

TEST(Backends, EveryPassIsTimed) {
  const dsl::Kernel kernel = *library_kernel("matmul");
  for (const Backend* backend : codegen::backends()) {
    auto artifact = compile_kernel(kernel, target_of(*backend), {}, {}, "llvm");
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    for (const char* pass : {"contract", "fold", "split_product", "clean_up"}) {
      EXPECT_TRUE(artifact->metadata.passes_us.contains(pass)) << backend->family << " " << pass;
    }
  }
}

}  // namespace
}  // namespace kiln::test
