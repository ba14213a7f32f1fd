// What targets refuse by name, before anything is lowered: each op of the table, in a kernel of its example.
#include "supported.h"

#include <gtest/gtest.h>

#include <set>

#include "dsl/op_examples.h"
#include "kiln/dsl/text.h"

namespace kiln::codegen {
namespace {

using Names = std::set<std::string>;

// The ops whose examples are refused, by the name that the error gives.
Names refused(auto check, const std::string& words) {
  Names out;
  for (const dsl::OpInfo& op : dsl::op_table()) {
    const auto kernel = dsl::parse(dsl::testing::example_kernel(op), "k.kiln");
    EXPECT_TRUE(kernel.ok()) << op.name;
    const Result<void> done = check(*kernel);
    if (done) continue;
    const std::string& message = done.error().message;
    EXPECT_EQ(done.error().code, ErrorCode::kCompileFailed);
    EXPECT_TRUE(message.starts_with("k.kiln:")) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
    out.insert(op.name);
  }
  return out;
}

const Names kDescribed = {"descriptor", "load_tile", "store_tile", "reduce_tile", "gather_rows"};

TEST(Supported, CpusRefuseAssemblyAndWhatAPassTakesAway) {
  Names expected = kDescribed;
  expected.insert("inline_asm");
  const auto check = [](const dsl::Kernel& kernel) { return check_supported(kernel, {}, "cpu"); };
  EXPECT_EQ(refused(check, ": the CPU backend does not compile this"), expected);
}

TEST(Supported, GpusRefuseWhatAPassTakesAway) {
  const target::Processor hopper = target::find_target("sm_90a")->processor;
  const auto check = [&](const dsl::Kernel& kernel) { return check_supported(kernel, hopper, "sm_90a"); };
  EXPECT_EQ(refused(check, " is not lowered to GPUs yet"), kDescribed);
}

// Inside of a loop too.
TEST(Supported, TheFirstRefusedOpIsNamed) {
  const auto kernel = dsl::parse(R"(kernel k(%P: ptr<f32>, %n: i32) {
  %z = constant {value = 0, type = i32} : i32
  %o = constant {value = 1, type = i32} : i32
  for %i = %z to %n step %o {
    %d = descriptor %P, %n, %n, %n {block = [4, 4]} : descriptor<[4, 4], f32>
    %t = load_tile %d, %i, %i : tile<[4, 4], f32>
    yield
  }
})",
                                 "k.kiln");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const Result<void> done = check_supported(*kernel, {}, "cpu");
  ASSERT_FALSE(done.ok());
  EXPECT_TRUE(done.error().message.starts_with("k.kiln:5:")) << done.error().message;
  EXPECT_NE(done.error().message.find("descriptor: the CPU"), std::string::npos) << done.error().message;
}

}  // namespace
}  // namespace kiln::codegen
