// What kernels of the library cannot do is refused, interpreted and compiled, and nothing is written.
#include <map>

#include "check.h"

namespace kiln::test {
namespace {

// An argument a parameter: buffers of 64 KiB, and the ints by name, else 1.
Arguments arguments_of(const dsl::Kernel& kernel, const std::map<std::string, int64_t>& ints) {
  Arguments out;
  for (const dsl::Param& param : kernel.params) {
    const auto found = ints.find(param.name);
    out.push_back(param.type.pointer ? empty<char>(65536) : int_of(found == ints.end() ? 1 : found->second));
  }
  return out;
}

void expect_refused(const Result<dsl::Kernel>& ir, const dsl::ConstexprValues& config,
                    const std::map<std::string, int64_t>& ints, const std::string& condition) {
  ASSERT_TRUE(ir.ok()) << ir.error().message;
  const Arguments before = arguments_of(*ir, ints);
  const auto expect_untouched = [&](const Result<void>& done, const Arguments& after) {
    ASSERT_FALSE(done.ok()) << ir->name << ": no error; expected " << condition;
    EXPECT_EQ(done.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(done.error().message.find("kernel `" + ir->name + "`: " + condition), std::string::npos)
        << done.error().message;
    for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i].buffer, before[i].buffer) << i;
  };
  Arguments interpreted = before;
  const auto done = run_interpreted(*ir, config, {}, interpreted);
  ASSERT_FALSE(done.ok()) << ir->name;
  EXPECT_NE(done.error().message.find(" is false ("), std::string::npos) << done.error().message;
  for (size_t i = 0; i < interpreted.size(); ++i) EXPECT_EQ(interpreted[i].buffer, before[i].buffer);
  if (!wants_targets("cpu")) return;  // emulators are no launchers
  const auto artifact = compile(*ir, config);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  Arguments compiled = before;
  expect_untouched(run_launched(*ir, *artifact, compiled, {}), compiled);
}

TEST(ConditionsOfKernels, ARowIsOneBlock) {
  const std::map<std::string, int64_t> ints = {{"rows", 2}, {"cols", 65}, {"stride", 65}};
  const std::string condition = "le(cols, BLOCK) is false (cols=65, BLOCK=64)";
  for (const auto& ir : {kernels::softmax().ir(), kernels::softmax_narrow().ir(), kernels::layer_norm().ir(),
                         kernels::rms_norm().ir(), kernels::argmax().ir(), kernels::sort_rows().ir()}) {
    expect_refused(ir, {{"BLOCK", 64}}, ints, condition);
  }
}

TEST(ConditionsOfKernels, ARowHasKElements) {
  expect_refused(kernels::topk().ir(), {{"BLOCK", 64}, {"K", 8}}, {{"cols", 7}}, "le(K, cols) is false (cols=7, K=8)");
}

TEST(ConditionsOfKernels, HeadsShareKeys) {
  expect_refused(kernels::attention().ir(), {{"D", 16}, {"BM", 16}, {"BN", 16}}, {{"heads", 3}, {"kv_heads", 2}},
                 "eq(rem(heads, kv_heads), 0) is false (heads=3, kv_heads=2)");
}

TEST(ConditionsOfKernels, AFilterLiesInItsImage) {
  std::map<std::string, int64_t> ints = {{"H", 2}, {"W", 4}, {"R", 3}, {"S", 3}, {"pad", 0}, {"stride", 2}};
  const dsl::ConstexprValues config = {{"BM", 16}, {"BN", 16}, {"BK", 16}};
  expect_refused(kernels::conv2d().ir(), config, ints, "le(R, H + 2*pad) is false (H=2, R=3, pad=0)");
  ints["H"] = 4;
  ints["stride"] = 0;
  expect_refused(kernels::conv2d().ir(), config, ints, "le(1, stride) is false (stride=0)");
}

TEST(ConditionsOfKernels, ChannelsComeInWholeGroups) {
  const std::map<std::string, int64_t> ints = {{"H", 3}, {"W", 3}, {"C", 6},     {"K", 5},
                                               {"R", 3}, {"S", 3}, {"groups", 3}};
  expect_refused(kernels::conv2d_grouped().ir(), {{"BM", 16}, {"BN", 16}, {"BK", 16}}, ints,
                 "eq(rem(K, groups), 0) is false (K=5, groups=3)");
  expect_refused(kernels::conv2d_narrow().ir(), {{"BM", 16}, {"BC", 16}}, ints, "eq(rem(C, 4), 0) is false (C=6)");
}

}  // namespace
}  // namespace kiln::test
