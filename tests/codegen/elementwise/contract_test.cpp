// The kernel option `contract` on targets: on where there is an FMA instruction, off on CPUs without one; an `fma` that
// the author wrote is one rounding everywhere.
#include "differential.h"

namespace kiln::test {
namespace {

// a² + `minus_rounded` of many elements, and behind them fma(a, a, minus_rounded): `last` where the square is not
// rounded before it is added, else 0.
template <class T>
void expect_contracted(const std::string& type, T a, const std::string& minus_rounded, T last) {
  TextKernel k("%x: ptr<" + type + "> readonly, %y: ptr<" + type + ">");
  const TextKernel::Shape shape = {19};
  const std::string x = k.op("load " + k.pointers("%x", shape));
  const std::string rounded = k.fill(minus_rounded, type, shape);
  k.line("store " + k.pointers("%y", shape) + ", " + k.op("add " + k.op("mul " + x + ", " + x) + ", " + rounded));
  k.line("store " + k.pointers("%y", shape, 19) + ", " + k.op("fma " + x + ", " + x + ", " + rounded));
  const dsl::Kernel kernel = parse_kernel(k.text());
  for (const std::string& target : all_targets()) {
    auto artifact = compile(kernel, {}, {}, target);
    ASSERT_TRUE(artifact.ok()) << target << ": " << artifact.error().message;
    std::vector<TestArgument> arguments = {buffer(std::vector<T>(19, a)), buffer(std::vector<T>(38, -1))};
    auto ran = run_compiled(kernel, *artifact, arguments);
    ASSERT_TRUE(ran.ok()) << target << ": " << ran.error().message;
    const std::vector<T> y = values_of<T>(arguments[1]);
    for (size_t i = 0; i < 19; ++i) {
      EXPECT_EQ(y[i], has_fma(target) ? last : 0) << target << " " << type << " " << i;
      EXPECT_EQ(y[19 + i], last) << target << " " << type << " " << i;
    }
  }
}

// With a = 1 + 2^-12 the square rounds to 1 + 2^-11 and loses 2^-24; of f64 1 + 2^-27 loses 2^-54.
TEST(ContractOnTargets, IsOffWithoutSuchAnInstructionAlone) {
  expect_contracted<float>("f32", 1 + 0x1p-12f, "-1.00048828125", 0x1p-24f);
  expect_contracted<double>("f64", 1 + 0x1p-27, "-1.00000001490116119384765625", 0x1p-54);
}

// Of small floats that are computed in f32: with a = 1 + 2^-10 the cube loses 2^-30 there, which is what the sums
// leave.
TEST(ContractOnTargets, IsOffForSmallFloatsThatAreFusedToo) {
  TextKernel k("%x: ptr<f16> readonly, %y: ptr<f16>");
  const TextKernel::Shape shape = {19};
  const std::string x = k.op("load " + k.pointers("%x", shape));
  const std::string cube = k.op("mul " + k.op("mul " + x + ", " + x) + ", " + x);
  const std::string rest = k.op("add " + cube + ", " + k.fill("-1.0029296875", "f16", shape));
  const std::string last = k.op("add " + rest + ", " + k.fill("-2.86102294921875e-06", "f16", shape));
  k.line("store " + k.pointers("%y", shape) + ", " + k.op("mul " + last + ", " + k.fill("32768.0", "f16", shape)));
  dsl::Kernel kernel = parse_kernel(k.text());
  kernel.options.fuse_precision = true;
  for (const std::string& target : all_targets()) {
    auto artifact = compile(kernel, {}, {}, target);
    ASSERT_TRUE(artifact.ok()) << target << ": " << artifact.error().message;
    constexpr uint16_t kOne = 0x3c00, kLast = 0x0200;  // 2^-15
    std::vector<TestArgument> arguments = {buffer(std::vector<uint16_t>(19, kOne + 1)),
                                           buffer(std::vector<uint16_t>(19, kOne))};
    auto ran = run_compiled(kernel, *artifact, arguments);
    ASSERT_TRUE(ran.ok()) << target << ": " << ran.error().message;
    for (const uint16_t y : values_of<uint16_t>(arguments[1])) EXPECT_EQ(y, has_fma(target) ? kLast : 0) << target;
  }
}

}  // namespace
}  // namespace kiln::test
