// Accuracy of the elementary functions over the whole range of f32, and of f64 through the C library.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>

#include "differential.h"

namespace kiln::test {
namespace {

struct Function {
  const char* name;
  double ulp;  // 0: exact
  bool odd;
  std::function<double(double)> reference;
  std::function<long double(long double)> long_reference;
};

template <class T>
T evaluate(const std::string& name, T x) {
  if (name == "exp") return std::exp(x);
  if (name == "exp2") return std::exp2(x);
  if (name == "log") return std::log(x);
  if (name == "log2") return std::log2(x);
  if (name == "sin") return std::sin(x);
  if (name == "cos") return std::cos(x);
  if (name == "tanh") return std::tanh(x);
  if (name == "erf") return std::erf(x);
  if (name == "sqrt") return std::sqrt(x);
  if (name == "rsqrt") return 1 / std::sqrt(x);
  if (name == "floor") return std::floor(x);
  if (name == "ceil") return std::ceil(x);
  if (name == "round") return std::nearbyint(x);
  return std::trunc(x);
}

Function function(const char* name, double ulp, bool odd = false) {
  return {name, ulp, odd, [name](double x) { return evaluate<double>(name, x); },
          [name](long double x) { return evaluate<long double>(name, x); }};
}

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {function("exp", 2),         function("exp2", 2),       function("log", 2),
                                            function("log2", 2),        function("sin", 2, true),  function("cos", 2),
                                            function("tanh", 4, true),  function("erf", 2, true),  function("rsqrt", 1),
                                            function("sqrt", 0),        function("floor", 0),      function("ceil", 0),
                                            function("round", 0, true), function("trunc", 0, true)};
  return all;
}

constexpr int64_t kBlock = 4096;

std::string kernel_text(const std::string& name, const std::string& type) {
  TextKernel kernel("%x: ptr<" + type + "> readonly, %y: ptr<" + type + ">, %n: i32");
  kernel.grid = "div(n, " + std::to_string(kBlock) + ")";
  kernel.line("%base = mul " + kernel.op("program_id {axis = 0}") + ", " +
              kernel.constant(std::to_string(kBlock), "i32"));
  kernel.line("%px = addptr %x, %base").line("%py = addptr %y, %base");
  const std::string value = kernel.op("load " + kernel.pointers("%px", {kBlock}));
  const std::string result = kernel.op("math " + value + " {fn = " + name + "}");
  kernel.line("store " + kernel.pointers("%py", {kBlock}) + ", " + result);
  return kernel.text();
}

template <class T>
std::vector<T> run_function(const std::string& name, const std::string& type, const std::vector<T>& x,
                            const std::string& target) {
  const dsl::Kernel kernel = parse_kernel(kernel_text(name, type));
  auto artifact = compile(kernel, {}, {}, target);
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact) return {};
  std::vector<TestArgument> arguments = {buffer(x), buffer(std::vector<T>(x.size())),
                                         int_scalar(static_cast<int64_t>(x.size()))};
  auto ran = run_compiled(kernel, *artifact, arguments);
  EXPECT_TRUE(ran.ok()) << ran.error().message;
  return values_of<T>(arguments[1]);
}

// All exponents and both signs; edges; multiples of π/2 and their neighbours; integers and halves.
const std::vector<float>& f32_sample() {
  static const std::vector<float> sample = [] {
    std::mt19937 random(5);
    std::vector<float> out;
    for (uint32_t i = 0; i < (1u << 19); ++i)
      out.push_back(std::bit_cast<float>((i << 13) | static_cast<uint32_t>(random() & 8191)));
    for (float x : {0.0f,
                    INFINITY,
                    NAN,
                    1e-45f,
                    1.17549435e-38f,
                    1.1754942e-38f,
                    3.4028235e38f,
                    88.72283f,
                    88.722839f,
                    -87.33654f,
                    -103.97207f,
                    -103.97208f,
                    -104.5f,
                    128.0f,
                    127.99999f,
                    -149.0f,
                    -149.5f,
                    -150.0f,
                    -150.5f,
                    -126.0f,
                    1.0f,
                    0.625f,
                    0.62499994f,
                    0.5f,
                    2.5f,
                    8388608.0f,
                    8388607.5f,
                    16367173.0f * 4.7223665e21f,
                    268435456.0f,
                    268435440.0f,
                    3.95f,
                    9.0f,
                    0.70710677f}) {
      out.push_back(x);
      out.push_back(-x);
    }
    for (int i = 1; i < 20000; ++i)
      out.push_back(std::nextafter(static_cast<float>(i * 1.5707963267948966), (i & 1) ? 0.0f : 1e9f));
    for (int i = -2000; i < 2000; ++i) out.push_back(static_cast<float>(i) * 0.5f);
    std::uniform_real_distribution<float> near(-12.0f, 12.0f), wide(-110.0f, 110.0f), around_one(0.5f, 2.0f);
    for (int i = 0; i < 150000; ++i) out.push_back(near(random));
    for (int i = 0; i < 100000; ++i) out.push_back(wide(random));
    for (int i = 0; i < 100000; ++i) out.push_back(around_one(random));
    while (out.size() % kBlock != 0) out.push_back(0.0f);
    return out;
  }();
  return sample;
}

// Distance in units of the last place of `expected` as an f32.
double ulps(float actual, double expected) {
  if (std::isnan(expected)) return std::isnan(actual) ? 0 : INFINITY;
  if (actual == static_cast<float>(expected)) return 0;
  if (std::isinf(actual) || std::isinf(expected) || std::isnan(actual)) return INFINITY;
  const int exponent = std::max(expected == 0 ? -126 : std::ilogb(expected), -126);
  return std::fabs(static_cast<double>(actual) - expected) / std::ldexp(1.0, exponent - 23);
}

void check_f32(const Function& fn, const std::string& target) {
  SCOPED_TRACE(std::string(fn.name) + " on " + (target.empty() ? "native" : target));
  const std::vector<float>& x = f32_sample();
  const std::vector<float> y = run_function(fn.name, "f32", x, target);
  ASSERT_EQ(y.size(), x.size());
  double worst = 0;
  float worst_at = 0;
  size_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = fn.reference(x[i]);
    const double error = ulps(y[i], expected);
    if (error > worst) worst = error, worst_at = x[i];
    // The sign of a zero counts for the exact ones, and where the reference gives one.
    const bool zero_sign = expected == 0 && std::signbit(expected) != std::signbit(y[i]);
    if ((error > fn.ulp || zero_sign) && ++wrong <= 3) {
      ADD_FAILURE() << fn.name << "(" << x[i] << ") = " << y[i] << " instead of " << expected << ", " << error
                    << " ulp";
    }
  }
  EXPECT_EQ(wrong, 0u);
  testing::Test::RecordProperty(fn.name, std::to_string(worst) + " at " + std::to_string(worst_at));
  if (!fn.odd) return;
  std::vector<float> negated = x;
  for (float& value : negated) value = -value;
  const std::vector<float> mirrored = run_function(fn.name, "f32", negated, target);
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(y[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(mirrored[i]), std::bit_cast<uint32_t>(-y[i]))
        << fn.name << " is not odd at " << x[i];
  }
}

class MathOnCpu : public testing::TestWithParam<std::string> {};

TEST_P(MathOnCpu, F32) {
  for (const Function& fn : functions()) check_f32(fn, GetParam());
}

TEST_P(MathOnCpu, F64) {
  std::mt19937_64 random(3);
  std::vector<double> x = {0.0, -0.0, INFINITY, -INFINITY, NAN,  5e-324, -5e-324, 1.7976931348623157e308,
                           1.0, -1.0, 709.7,    -745.1,    1e22, 0.5,    2.5};
  while (x.size() < kBlock) x.push_back(std::bit_cast<double>(random()));
  while (x.size() < 2 * kBlock) x.push_back(static_cast<double>(static_cast<int64_t>(random())) * 0x1p-58);
  for (const Function& fn : functions()) {
    const std::vector<double> y = run_function(fn.name, "f64", x, GetParam());
    ASSERT_EQ(y.size(), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const long double expected = std::string(fn.name) == "sqrt" ? std::sqrt(x[i]) : fn.long_reference(x[i]);
      const auto rounded = static_cast<double>(expected);
      if (std::isnan(rounded) && std::isnan(y[i])) continue;
      if (y[i] == rounded) continue;
      const int exponent = std::max(expected == 0 ? -1022 : std::ilogb(expected), -1022);
      const double error =
          static_cast<double>(std::fabs(static_cast<long double>(y[i]) - expected)) / std::ldexp(1.0, exponent - 52);
      ASSERT_LE(error, fn.ulp == 0 ? 0.0 : 4.0)
          << fn.name << "(" << x[i] << ") = " << y[i] << " instead of " << rounded;
    }
  }
}

// Half precision goes through f32: one rounding of a result that is a little off itself.
TEST_P(MathOnCpu, SmallFloats) {
  for (const char* type : {"f16", "bf16"}) {
    const dsl::ElementType element = *dsl::parse_element_type(type);
    std::vector<uint16_t> x(1u << 16);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint16_t>(i);
    for (const char* name : {"exp", "log", "sin", "tanh", "erf", "rsqrt", "sqrt", "round"}) {
      const std::vector<uint16_t> y = run_function(name, type, x, GetParam());
      ASSERT_EQ(y.size(), x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        const double expected = evaluate<double>(name, dsl::double_from_bits(element, x[i]));
        const double actual = dsl::double_from_bits(element, y[i]),
                     rounded = dsl::double_from_bits(element, dsl::bits_from_double(element, expected));
        if (std::isnan(expected) ? std::isnan(actual) : actual == rounded) continue;
        const uint16_t below = static_cast<uint16_t>(y[i] - 1), above = static_cast<uint16_t>(y[i] + 1);
        const uint64_t wanted = dsl::bits_from_double(element, expected);
        ASSERT_TRUE(wanted == below || wanted == above)
            << type << " " << name << "(" << dsl::double_from_bits(element, x[i]) << ") = " << actual;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, MathOnCpu, testing::ValuesIn(all_targets()),
                         [](const testing::TestParamInfo<std::string>& info) {
                           std::string name = info.param.empty() ? "native" : info.param.substr(4);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace kiln::test
