// How many warps a kernel gets where its config does not say.
#include "gpu/block/launch_shape.h"

#include <gtest/gtest.h>

#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/text.h"

namespace kiln::test {
namespace {

codegen::gpu::LaunchShape shape(const std::string& text, const dsl::ConstexprValues& config = {}, int lanes = 32) {
  const auto kernel = dsl::parse(text, "k.kiln");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  const auto concrete = dsl::instantiate(*kernel, {}, {});
  EXPECT_TRUE(concrete.ok()) << concrete.error().message;
  return codegen::gpu::launch_shape(*concrete, config, lanes);
}

int warps(const std::string& text, const dsl::ConstexprValues& config = {}, int lanes = 32) {
  return shape(text, config, lanes).warps;
}

int programs(const std::string& text, const dsl::ConstexprValues& config = {}, int lanes = 32) {
  return shape(text, config, lanes).programs;
}

std::string row(int elements) {
  const std::string n = std::to_string(elements);
  return "kernel k(%p: ptr<f32>) { %i = arange {start = 0, end = " + n + "} %s = splat %p {shape = [" + n +
         "]} %q = addptr %s, %i %x = load %q %y = math %x {fn = exp} store %q, %y }";
}

std::string product(int m, int n, int k) {
  const auto shape = [](int rows, int columns) {
    return "{shape = [" + std::to_string(rows) + ", " + std::to_string(columns) + "]}";
  };
  return "kernel k(%p: ptr<f32>, %x: bf16, %z: f32) { %a = splat %x " + shape(m, k) + " %b = splat %x " + shape(k, n) +
         " %c = splat %z " + shape(m, n) + " %d = dot %a, %b, %c %q = splat %p " + shape(m, n) + " store %q, %d }";
}

TEST(LaunchShape, RowsGetAWarpThenAVectorAThreadThenMoreWarps) {
  EXPECT_EQ(warps(row(1)), 1);
  EXPECT_EQ(warps(row(128)), 1);
  EXPECT_EQ(warps(row(512)), 1);
  EXPECT_EQ(warps(row(513)), 4);
  EXPECT_EQ(warps(row(1024)), 4);
  EXPECT_EQ(warps(row(2048)), 4);
  EXPECT_EQ(warps(row(3000)), 8);
  EXPECT_EQ(warps(row(8192)), 16);
  EXPECT_EQ(warps(row(65536)), 16);
}

std::string reduced(const std::string& type, int elements) {
  const std::string n = std::to_string(elements);
  return "kernel k(%p: ptr<" + type + ">) { %i = arange {start = 0, end = " + n + "} %s = splat %p {shape = [" + n +
         "]} %q = addptr %s, %i %x = load %q %y = reduce %x {kind = max, axis = 0} store %p, %y }";
}

TEST(LaunchShape, RowsThatAreReducedGetFewWarps) {
  EXPECT_EQ(warps(reduced("bf16", 1024)), 1);
  EXPECT_EQ(warps(reduced("f32", 1024)), 2);
  EXPECT_EQ(warps(reduced("bf16", 4096)), 4);
  EXPECT_EQ(warps(reduced("f32", 4096)), 8);
  EXPECT_EQ(warps(reduced("bf16", 16384)), 8);
  EXPECT_EQ(warps(reduced("f32", 65536)), 16);
}

TEST(LaunchShape, ProductsKeepTheSumsOfAThreadFew) {
  EXPECT_EQ(warps(product(16, 16, 16)), 4);
  EXPECT_EQ(warps(product(64, 64, 64)), 4);
  EXPECT_EQ(warps(product(128, 64, 64)), 4);
  EXPECT_EQ(warps(product(128, 128, 32)), 8);
  EXPECT_EQ(warps(product(128, 256, 64)), 8);
  EXPECT_EQ(warps(product(256, 256, 64)), 16);
}

TEST(LaunchShape, WideWarpsAreFewer) {
  EXPECT_EQ(warps(row(1024), {}, 64), 2);
  EXPECT_EQ(warps(row(64), {}, 64), 1);
  EXPECT_EQ(warps(product(128, 128, 32), {}, 64), 4);
}

TEST(LaunchShape, ProgramsOfAWarpShareABlock) {
  EXPECT_EQ(programs(row(256)), 4);
  EXPECT_EQ(programs(row(256), {}, 64), 2);
  EXPECT_EQ(programs(row(8192), {{"num_warps", 1}}), 4);
  EXPECT_EQ(programs(row(1024)), 1);
  EXPECT_EQ(programs(product(16, 16, 16), {{"num_warps", 1}}), 1);
}

TEST(LaunchShape, AConfigDecides) {
  EXPECT_EQ(warps(row(8192), {{"num_warps", 2}}), 2);
  EXPECT_EQ(warps(product(16, 16, 16), {{"num_warps", 16}}), 16);
}

TEST(LaunchShape, CodeIsMadeInFullWhereAnyFactIsKnown) {
  using codegen::gpu::Effort;
  using dsl::ParamFact;
  EXPECT_EQ(codegen::gpu::effort_for({}), Effort::kShort);
  EXPECT_EQ(codegen::gpu::effort_for({ParamFact::kNone, ParamFact::kNone}), Effort::kShort);
  EXPECT_EQ(codegen::gpu::effort_for({ParamFact::kNone, ParamFact::kOne}), Effort::kFast);
}

}  // namespace
}  // namespace kiln::test
