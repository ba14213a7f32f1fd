// The elementary functions as tests see them: bounds, references, kernels that apply one to arrays, and arguments that
// are likely to break one.
#pragma once

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "differential.h"
#include "kiln/dsl/ops.h"

namespace kiln::test {

struct MathFunction {
  const char* name;
  dsl::MathFn fn;
  double ulp_f32, ulp_f64;  // docs/reference/ops.md; 0: exact
  bool odd = false;
};

inline void PrintTo(const MathFunction& function, std::ostream* out) { *out << function.name; }
inline std::string name_of_math(const testing::TestParamInfo<MathFunction>& info) { return info.param.name; }

// Those with a bound in ulp, and the exact ones that give a number.
const std::vector<MathFunction>& math_functions();
std::vector<MathFunction> odd_math_functions();
std::vector<MathFunction> math_functions_of_one_operand();

// By the C library; y is x for functions of one operand.
double math_reference(dsl::MathFn fn, double x, double y);

// A kernel compiled once, for a target ("" for this machine), that applies one function to arrays whose length is a
// multiple of kMathBlock; y counts for functions of two operands only. T holds elements of `type`.
inline constexpr int64_t kMathBlock = 2048;
template <class T>
class MathKernel {
 public:
  MathKernel(const MathFunction& function, const std::string& type, const std::string& target, bool fast = false);
  std::vector<T> operator()(const std::vector<T>& x, const std::vector<T>& y) const;

 private:
  dsl::Kernel kernel_;
  Artifact artifact_;
  bool compiled_ = false;
};

// Where functions change their ways: ends of the range, neighbours of 0, 1 and 1/2, thresholds of overflow and
// underflow, integers, halves. Both signs.
template <class T>
std::vector<T> special_arguments() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> out = {0, Limits::infinity(), Limits::quiet_NaN()};
  auto around = [&](double x) {
    const T value = static_cast<T>(x);
    for (T v : {value, std::nextafter(value, T{0}), std::nextafter(value, Limits::max())}) out.push_back(v);
  };
  for (double x : {double{Limits::denorm_min()} * 3,
                   double{Limits::min()},
                   double{Limits::max()},
                   1.0,
                   0.5,
                   0.75,
                   1.5,
                   0.41421356237309503,
                   2.0,
                   2.5,
                   3.0,
                   10.0,
                   88.72283905206835,
                   87.33654475055310,
                   103.97208,
                   89.41599,
                   709.782712893384,
                   708.3964185322641,
                   745.1332191019411,
                   710.4758600739439,
                   126.0,
                   128.0,
                   149.5,
                   1022.0,
                   1024.0,
                   1074.5,
                   10.05,
                   26.543,
                   5.9,
                   3.95,
                   8388607.5,
                   16777216.0,
                   4503599627370495.5,
                   9007199254740992.0,
                   262144.0,
                   268435456.0,
                   1048576.0,
                   1099511627776.0,
                   1e10,
                   1e22,
                   1e30}) {
    around(x);
  }
  const size_t positive = out.size();
  for (size_t i = 0; i < positive; ++i) out.push_back(-out[i]);
  return out;
}

// Powers of two and multiples of π/2 with their neighbours, multiples of 1/2.
template <class T>
void append_grid_arguments(std::vector<T>& out) {
  for (int e = std::numeric_limits<T>::min_exponent - 53; e < std::numeric_limits<T>::max_exponent; ++e) {
    const T power = std::ldexp(T{1}, e);
    for (T x : {power, std::nextafter(power, T{0})}) out.insert(out.end(), {x, -x});
  }
  for (int i = 1; i < 2000; ++i) {
    const T multiple = static_cast<T>(i * 1.5707963267948966);
    out.insert(out.end(), {multiple, std::nextafter(multiple, T{0}), static_cast<T>(i) / 2, -static_cast<T>(i) / 2});
  }
}

// Numbers of ordinary size, where the polynomials do their work.
template <class T>
void append_ordinary_arguments(std::vector<T>& out, size_t count, std::mt19937_64& random) {
  const std::pair<double, double> ranges[] = {{-1.05, 1.05}, {-7, 7}, {0.6, 1.7}, {-30, 30}, {-760, 760}, {-5e4, 5e4}};
  for (size_t i = 0; i < count; ++i) {
    const auto& [low, high] = ranges[i % std::size(ranges)];
    out.push_back(static_cast<T>(std::uniform_real_distribution<double>(low, high)(random)));
  }
}

// To a multiple of the block, by ones.
template <class T>
void pad_arguments(std::vector<T>& out) {
  while (out.size() % kMathBlock != 0) out.push_back(T{1});
}

// Pairs of all special arguments, of random bits, and of x and y whose power is in range.
template <class T>
std::pair<std::vector<T>, std::vector<T>> pair_arguments(size_t count, std::mt19937_64& random) {
  std::vector<T> x, y;
  for (T p : special_arguments<T>()) {
    for (T q : special_arguments<T>()) x.push_back(p), y.push_back(q);
  }
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  std::uniform_real_distribution<double> unit(-1, 1);
  for (size_t i = 0; i < count; ++i) {
    const T any = std::bit_cast<T>(static_cast<Bits>(random()));
    x.push_back(any);
    y.push_back(i % 2 ? std::bit_cast<T>(static_cast<Bits>(random())) : static_cast<T>(any * unit(random)));
    const double base = std::exp2(unit(random) * (i % 3 == 0 ? 100 : i % 3 == 1 ? 2 : 0.01));
    const double power = unit(random) * std::numeric_limits<T>::max_exponent * 1.1 / std::fabs(std::log2(base));
    x.push_back(static_cast<T>(i % 5 == 0 ? -base : base));
    y.push_back(static_cast<T>(i % 5 < 2 ? std::nearbyint(power) : power));
  }
  pad_arguments(x), pad_arguments(y);
  return {x, y};
}

}  // namespace kiln::test
