// Accuracy of the elementary functions of f64 on every target, against MPFR with 120 bits.
#include <mpfr.h>

#include "functions.h"

namespace kiln::test {
namespace {

using dsl::MathFn;

constexpr mpfr_prec_t kPrecision = 120;

class Number {
 public:
  explicit Number(mpfr_prec_t precision) { mpfr_init2(value_, precision); }
  ~Number() { mpfr_clear(value_); }
  Number(const Number&) = delete;
  Number& operator=(const Number&) = delete;
  mpfr_ptr get() { return value_; }

 private:
  mpfr_t value_;
};

void evaluate(MathFn fn, mpfr_ptr out, mpfr_srcptr x, mpfr_srcptr y) {
  constexpr mpfr_rnd_t kNearest = MPFR_RNDN;
  switch (fn) {
    case MathFn::kExp:
      mpfr_exp(out, x, kNearest);
      break;
    case MathFn::kExp2:
      mpfr_exp2(out, x, kNearest);
      break;
    case MathFn::kExpm1:
      mpfr_expm1(out, x, kNearest);
      break;
    case MathFn::kLog:
      mpfr_log(out, x, kNearest);
      break;
    case MathFn::kLog2:
      mpfr_log2(out, x, kNearest);
      break;
    case MathFn::kLog10:
      mpfr_log10(out, x, kNearest);
      break;
    case MathFn::kLog1p:
      mpfr_log1p(out, x, kNearest);
      break;
    case MathFn::kSin:
      mpfr_sin(out, x, kNearest);
      break;
    case MathFn::kCos:
      mpfr_cos(out, x, kNearest);
      break;
    case MathFn::kTan:
      mpfr_tan(out, x, kNearest);
      break;
    case MathFn::kAsin:
      mpfr_asin(out, x, kNearest);
      break;
    case MathFn::kAcos:
      mpfr_acos(out, x, kNearest);
      break;
    case MathFn::kAtan:
      mpfr_atan(out, x, kNearest);
      break;
    case MathFn::kAtan2:
      mpfr_atan2(out, x, y, kNearest);
      break;
    case MathFn::kSinh:
      mpfr_sinh(out, x, kNearest);
      break;
    case MathFn::kCosh:
      mpfr_cosh(out, x, kNearest);
      break;
    case MathFn::kTanh:
      mpfr_tanh(out, x, kNearest);
      break;
    case MathFn::kErf:
      mpfr_erf(out, x, kNearest);
      break;
    case MathFn::kErfc:
      mpfr_erfc(out, x, kNearest);
      break;
    case MathFn::kRsqrt:
      mpfr_rec_sqrt(out, x, kNearest);
      break;
    case MathFn::kPow:
      mpfr_pow(out, x, y, kNearest);
      break;
    case MathFn::kHypot:
      mpfr_hypot(out, x, y, kNearest);
      break;
    default:
      FAIL() << "an exact function needs no reference";
  }
}

// The result in two parts, rounded and the rest; what is not a number or not finite comes from the C library, and so do
// signs of zeros.
struct Reference {
  double rounded = 0, rest = 0;
};

std::vector<Reference> references(const MathFunction& fn, const std::vector<double>& x, const std::vector<double>& y) {
  Number a(53), b(53), out(kPrecision);
  std::vector<Reference> all(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double library = math_reference(fn.fn, x[i], y[i]);
    all[i] = {library, 0};
    if (fn.ulp_f64 == 0 || !std::isfinite(library) || library == 0) continue;
    mpfr_set_d(a.get(), x[i], MPFR_RNDN);
    mpfr_set_d(b.get(), y[i], MPFR_RNDN);
    evaluate(fn.fn, out.get(), a.get(), b.get());
    all[i].rounded = mpfr_get_d(out.get(), MPFR_RNDN);
    if (!std::isfinite(all[i].rounded)) continue;
    mpfr_sub_d(out.get(), out.get(), all[i].rounded, MPFR_RNDN);
    all[i].rest = mpfr_get_d(out.get(), MPFR_RNDN);
  }
  return all;
}

// In units of the last place of the reference; infinite where a NaN, an infinity or the sign of a zero is wrong.
double ulps(double actual, const Reference& expected) {
  const double rounded = expected.rounded;
  if (std::isnan(actual) || std::isnan(rounded)) return std::isnan(actual) && std::isnan(rounded) ? 0 : INFINITY;
  if (actual == rounded && (actual != 0 || std::signbit(actual) == std::signbit(rounded))) {
    if (actual == 0 || std::isinf(actual)) return 0;
  } else if (std::isinf(actual) || std::isinf(rounded) || rounded == 0) {
    // An overflow one ulp early or late is inside the bound.
    constexpr double kNearLargest = 1.797693134862315e308;
    const bool same_sign = std::signbit(actual) == std::signbit(rounded);
    return same_sign && std::fabs(actual) > kNearLargest && std::fabs(rounded) > kNearLargest ? 1 : INFINITY;
  }
  const int exponent = std::max(std::ilogb(rounded), -1022);
  return std::fabs(std::ldexp(actual - rounded, 52 - exponent) - std::ldexp(expected.rest, 52 - exponent));
}

std::pair<std::vector<double>, std::vector<double>> f64_arguments(const MathFunction& fn) {
  std::mt19937_64 random(7);
  if (dsl::math_arity(fn.fn) == 2) return pair_arguments<double>(5000, random);
  std::vector<double> x = special_arguments<double>();
  append_grid_arguments(x);
  for (int i = 0; i < 8000; ++i) x.push_back(std::bit_cast<double>(random()));
  append_ordinary_arguments(x, 8000, random);
  pad_arguments(x);
  return {x, x};
}

class MathOfF64 : public testing::TestWithParam<MathFunction> {};

TEST_P(MathOfF64, StaysInItsBound) {
  const MathFunction& fn = GetParam();
  const auto [x, y] = f64_arguments(fn);
  const std::vector<Reference> expected = references(fn, x, y);
  std::string errors;
  for (const std::string& target : cpu_targets()) {
    const std::vector<double> actual = MathKernel<double>(fn, "f64", target)(x, y);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = ulps(actual[i], expected[i]);
      if (error > worst) worst = error, at = i;
    }
    EXPECT_LE(worst, fn.ulp_f64) << fn.name << "(" << x[at] << ", " << y[at] << ") = " << actual[at] << " instead of "
                                 << expected[at].rounded << " on " << (target.empty() ? "native" : target);
    errors += (target.empty() ? "native" : target.substr(4)) + " " + std::to_string(worst) + " ";
  }
  RecordProperty("ulp", errors);
}

class OddMathOfF64 : public testing::TestWithParam<MathFunction> {};

TEST_P(OddMathOfF64, IsExactlyOdd) {
  const MathFunction& fn = GetParam();
  const std::vector<double> x = f64_arguments(fn).first;
  std::vector<double> mirrored = x;
  for (double& value : mirrored) value = -value;
  for (const std::string& target : cpu_targets()) {
    const MathKernel<double> kernel(fn, "f64", target);
    const std::vector<double> plus = kernel(x, x), minus = kernel(mirrored, x);
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(plus[i])) continue;
      ASSERT_EQ(std::bit_cast<uint64_t>(minus[i]), std::bit_cast<uint64_t>(-plus[i])) << fn.name << " at " << x[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, MathOfF64, testing::ValuesIn(math_functions()), name_of_math);
INSTANTIATE_TEST_SUITE_P(Functions, OddMathOfF64, testing::ValuesIn(odd_math_functions()), name_of_math);

}  // namespace
}  // namespace kiln::test
