// The errors of the compiler.
#include "differential.h"

namespace kiln::test {
namespace {

constexpr char kCopy[] = "kernel k(%x: ptr<f32>) {\n  %v = load %x\n  store %x, %v\n}\n";

void expect_error(const std::string& text, const std::string& target, ErrorCode code,
                  const std::vector<std::string>& parts, const std::string& emit = "so") {
  auto artifact = compile(parse_kernel(text), {}, {}, target, emit);
  ASSERT_FALSE(artifact.ok()) << text;
  EXPECT_EQ(artifact.error().code, code) << artifact.error().message;
  for (const std::string& part : parts) {
    EXPECT_NE(artifact.error().message.find(part), std::string::npos)
        << part << " is not in: " << artifact.error().message;
  }
}

TEST(CompileErrors, UnknownTargets) {
  expect_error(kCopy, "nvptx:sm_90", ErrorCode::kInvalidArgument, {"nvptx:sm_90", "cpu:aarch64"});
  expect_error(kCopy, "cpu:pentium-9", ErrorCode::kInvalidArgument, {"pentium-9", "cpu:x86-64-v2"});
  expect_error(kCopy, "cpu:sapphirerapid", ErrorCode::kInvalidArgument, {"the nearest is sapphirerapids"});
  expect_error(kCopy, "cpu:neoverse-n9", ErrorCode::kInvalidArgument,
               {"LLVM knows no CPU named `neoverse-n9`; the nearest are neoverse-n1, "});
  expect_error(kCopy, "cpu:", ErrorCode::kInvalidArgument, {"CPU"});
  expect_error(kCopy, "cpu:generic", ErrorCode::kInvalidArgument, {"generic"});
  expect_error(kCopy, "cpu:i686", ErrorCode::kInvalidArgument, {"`i686` is no 64-bit CPU"});
  expect_error(kCopy, "cpu:x86-64-v3,+warp", ErrorCode::kInvalidArgument, {"feature `+warp`"});
  expect_error(kCopy, "cpu:cortex-a76,+avx2", ErrorCode::kInvalidArgument, {"feature `+avx2`"});
}

TEST(CompileTargets, CpusByName) {
  for (const auto& [target, architecture] : {std::pair<std::string, std::string>{"cpu:sapphirerapids", "x86_64"},
                                             {"cpu:znver4", "x86_64"},
                                             {"cpu:x86-64-v3,+avxvnni", "x86_64"},
                                             {"cpu:aarch64", "aarch64"},
                                             {"cpu:cortex-a76", "aarch64"},
                                             {"cpu:neoverse-n1,-lse", "aarch64"}}) {
    auto artifact = compile(parse_kernel(kCopy), {}, {}, target);
    ASSERT_TRUE(artifact.ok()) << target << ": " << artifact.error().message;
    EXPECT_EQ(artifact->metadata.needs->architecture, architecture) << target;
  }
}

TEST(CompileTargets, MetadataListsWhatTheHostMustHave) {
  auto artifact = compile(parse_kernel(kCopy), {}, {}, "cpu:x86-64-v3");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::vector<std::string>& features = artifact->metadata.needs->features;
  const std::set<std::string> needed(features.begin(), features.end());
  EXPECT_TRUE(needed.contains("avx2") && needed.contains("fma") && !needed.contains("avx512f"));
}

TEST(CompilePhases, EachIsTimed) {
  auto artifact = compile(parse_kernel(kCopy), {});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const auto& phases = artifact->metadata.phases_us;
  for (const char* phase :
       {"decode", "target", "instantiate", "fuse_precision", "contract", "expand_descriptors", "simplify_masks", "fold",
        "cse", "licm", "dce", "lower", "optimise", "codegen", "link", "total"}) {
    EXPECT_TRUE(phases.contains(phase)) << phase;
  }
}

TEST(CompileDumps, TheIrAfterAPass) {
  auto artifact = compile(parse_kernel(kCopy), {}, {}, "", "ir:fold");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::string text(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size());
  EXPECT_EQ(text.find("kernel k("), 0u) << text;
  expect_error(kCopy, "", ErrorCode::kInvalidArgument, {"`unroll`", "expand_descriptors", "licm"}, "ir:unroll");
}

}  // namespace
}  // namespace kiln::test
