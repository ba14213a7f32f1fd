#include "check.h"

#include <cstdlib>
#include <random>

#include "compile_once.h"
#include "cuda_device.h"
#include "sampled.h"

namespace kiln::test {

std::vector<float> normals(size_t count, uint32_t seed) {
  std::minstd_rand generator(seed * 7919 + 1);
  // The sum of four uniforms: near enough to normal and quick.
  std::uniform_real_distribution<float> uniform(-0.8660254f, 0.8660254f);
  std::vector<float> out(count);
  for (float& x : out) x = uniform(generator) + uniform(generator) + uniform(generator) + uniform(generator);
  return out;
}

std::vector<int32_t> ints(size_t count, int32_t low, int32_t high, uint32_t seed) {
  std::minstd_rand generator(seed * 7919 + 1);
  std::uniform_int_distribution<int32_t> uniform(low, high - 1);
  std::vector<int32_t> out(count);
  for (int32_t& x : out) x = uniform(generator);
  return out;
}

namespace {

void check_with(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, const dsl::Facts& facts,
                const Arguments& arguments, const Checker& check) {
  auto artifact = compile_once(kernel, config, facts);
  if (is_refused(artifact)) GTEST_SKIP() << artifact.error().message;
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  Arguments out = arguments;
  auto ran = run_compiled(kernel, *artifact, out);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  check(out);
}

}  // namespace

void check_compiled(const Result<dsl::Kernel>& ir, const dsl::ConstexprValues& config, const Arguments& arguments,
                    const Checker& check) {
  SCOPED_TRACE("compiled");
  ASSERT_TRUE(ir.ok()) << ir.error().message;
  check_with(*ir, config, {}, arguments, check);
  if (!on_cuda() && (!wants_targets("gpu") || !(is_first_call() || is_sampled(4)))) return;
  // A device's wide accesses, asynchronous copies and tensor maps hang on facts, and so does what emulates one.
  SCOPED_TRACE("with facts");
  dsl::ConstexprValues staged = config;
  staged.try_emplace("num_stages", 3);
  check_with(*ir, staged, facts_of(*ir, arguments), arguments, check);
}

void check_both(const Result<dsl::Kernel>& ir, const dsl::ConstexprValues& config, const Arguments& arguments,
                const Checker& check) {
  ASSERT_TRUE(ir.ok()) << ir.error().message;
  {
    SCOPED_TRACE("interpreted");
    Arguments out = arguments;
    auto ran = run_interpreted(*ir, config, {}, out);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    check(out);
  }
  check_compiled(ir, config, arguments, check);
}

bool full() { return std::getenv("KILN_KERNELS_FULL") != nullptr; }

void expect_close(const std::vector<double>& out, const std::vector<double>& expected, double rtol,
                  const std::vector<double>& magnitude) {
  ASSERT_EQ(out.size(), expected.size());
  size_t wrong = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const double a = out[i], e = expected[i];
    const double scale = std::fabs(magnitude.empty() ? e : magnitude[i]);
    const bool same = (std::isnan(a) && std::isnan(e)) || a == e || std::fabs(a - e) <= 1e-5 + rtol * scale;
    if (!same && ++wrong <= 3) ADD_FAILURE() << "at " << i << ": " << a << " instead of " << e;
  }
  EXPECT_EQ(wrong, 0u) << "of " << out.size();
}

void expect_norm(const std::vector<double>& out, const std::vector<double>& expected, double bound) {
  ASSERT_EQ(out.size(), expected.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    difference += (out[i] - expected[i]) * (out[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  EXPECT_LE(std::sqrt(difference / norm), bound);  // false for NaN
}

}  // namespace kiln::test
