// The kernel option `contract` on targets: on where there is an FMA instruction, off on CPUs without one; an `fma` that
// the author wrote is one rounding everywhere.
#include "differential.h"

namespace kiln::test {
namespace {

// With a = 1 + 2^-12 the square rounds to 1 + 2^-11 and loses 2^-24.
TEST(ContractOnTargets, IsOffWithoutSuchAnInstructionAlone) {
  TextKernel k("%x: ptr<f32> readonly, %y: ptr<f32>");
  const TextKernel::Shape shape = {19};
  const std::string a = k.op("load " + k.pointers("%x", shape));
  const std::string rounded = k.fill("-1.00048828125", "f32", shape);
  k.line("store " + k.pointers("%y", shape) + ", " + k.op("add " + k.op("mul " + a + ", " + a) + ", " + rounded));
  k.line("store " + k.pointers("%y", shape, 19) + ", " + k.op("fma " + a + ", " + a + ", " + rounded));
  const dsl::Kernel kernel = parse_kernel(k.text());
  for (const std::string& target : all_targets()) {
    auto artifact = compile(kernel, {}, {}, target);
    ASSERT_TRUE(artifact.ok()) << target << ": " << artifact.error().message;
    std::vector<TestArgument> arguments = {buffer(std::vector<float>(19, 1 + 0x1p-12f)),
                                           buffer(std::vector<float>(38, -1))};
    auto ran = run_compiled(kernel, *artifact, arguments);
    ASSERT_TRUE(ran.ok()) << target << ": " << ran.error().message;
    const std::vector<float> y = values_of<float>(arguments[1]);
    for (size_t i = 0; i < 19; ++i) {
      EXPECT_EQ(y[i], has_fma(target) ? 0x1p-24f : 0) << target << " " << i;
      EXPECT_EQ(y[19 + i], 0x1p-24f) << target << " " << i;
    }
  }
}

}  // namespace
}  // namespace kiln::test
