#include "math.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "kiln/dsl/kernels.h"
#include "math_peers.h"

namespace kiln::bench {
namespace {

namespace lang = dsl::lang;

constexpr int32_t kCount = 1 << 17;
constexpr int kRounds = 31;

struct Function {
  const char* name;
  double low, high;  // of arguments; logarithmic where low is positive
  lang::Value (*emit)(lang::Operand x, lang::Operand y, lang::Accuracy accuracy);
  long double (*reference)(long double x, long double y);
};

#define KILN_FUNCTION(NAME, LOW, HIGH)                                                                  \
  {#NAME, LOW, HIGH, [](lang::Operand x, lang::Operand, lang::Accuracy a) { return lang::NAME(x, a); }, \
   [](long double x, long double) { return std::NAME(x); }}

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      KILN_FUNCTION(exp, -20, 20),
      KILN_FUNCTION(exp2, -20, 20),
      KILN_FUNCTION(log, 1e-6, 1e6),
      KILN_FUNCTION(sin, -30, 30),
      KILN_FUNCTION(cos, -30, 30),
      KILN_FUNCTION(tan, -30, 30),
      KILN_FUNCTION(tanh, -5, 5),
      KILN_FUNCTION(erf, -4, 4),
      KILN_FUNCTION(erfc, -4, 4),
      KILN_FUNCTION(expm1, -5, 5),
      KILN_FUNCTION(log1p, 1e-6, 1e6),
      KILN_FUNCTION(sinh, -5, 5),
      KILN_FUNCTION(asin, -1, 1),
      KILN_FUNCTION(atan, -5, 5),
      {"pow", 1e-3, 1e3, [](lang::Operand x, lang::Operand y, lang::Accuracy a) { return lang::pow(x, y, a); },
       [](long double x, long double y) { return std::pow(x, y); }},
  };
  return all;
}
#undef KILN_FUNCTION

template <class T>
using Tag = std::conditional_t<std::is_same_v<T, float>, lang::f32, lang::f64>;

template <class T>
auto kernel_of(const Function& fn, lang::Accuracy accuracy) {
  const std::string name = std::string("bench_") + fn.name + (accuracy == lang::Accuracy::kFast ? "_fast" : "");
  return lang::kernel(name, {"x", "y", "z", "N", "B=4096"},
                      [&fn, accuracy](lang::Ptr<const Tag<T>> x, lang::Ptr<const Tag<T>> y, lang::Ptr<Tag<T>> z,
                                      lang::i32 N, lang::Const B) {
                        lang::grid(lang::cdiv(N, B));
                        const lang::Value at = lang::program_id(0) * B;
                        const lang::Value left = lang::tile(x, {N}).load({at}, {B});
                        const lang::Value right = lang::tile(y, {N}).load({at}, {B});
                        lang::tile(z, {N}).store({at}, fn.emit(left, right, accuracy));
                      });
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

template <class T>
struct Data {
  std::vector<T> x, y, out;
  std::vector<long double> expected;

  explicit Data(const Function& fn) : x(kCount), y(kCount), out(kCount), expected(kCount) {
    for (int32_t i = 0; i < kCount; ++i) {
      const double u = std::fmod(i * 0.6180339887498949, 1.0);
      const double value = fn.low > 0 ? fn.low * std::pow(fn.high / fn.low, u) : fn.low + (fn.high - fn.low) * u;
      const auto at = static_cast<size_t>(i);
      x[at] = static_cast<T>(value);
      y[at] = static_cast<T>(std::fmod(i * 0.377, 8.0) - 4.0);
      expected[at] = fn.reference(x[at], y[at]);
    }
  }

  double worst_ulps() const {
    constexpr int kBits = sizeof(T) == 4 ? 23 : 52;
    long double worst = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      if (expected[i] == 0) continue;
      const long double error = std::fabs(static_cast<long double>(out[i]) - expected[i]);
      worst = std::max(worst, std::ldexp(error, kBits - std::ilogb(expected[i])));
    }
    return static_cast<double>(worst);
  }
};

struct Side {
  std::string name;
  std::function<void()> run;
  double ulps = 0;
  std::vector<double> times;
};

template <class T>
bool measure(Client& client, const Function& fn, const char* type, MathReport& report) {
  Data<T> data(fn);
  std::vector<Side> sides;
  for (const auto accuracy : {lang::Accuracy::kFull, lang::Accuracy::kFast}) {
    auto handle = client.get(kernel_of<T>(fn, accuracy), {});
    if (!handle) {
      std::fprintf(stderr, "%s: %s\n", fn.name, handle.error().message.c_str());
      return false;
    }
    auto run = [&data, f = *handle]() mutable {
      (void)f.launch({.threads = 1}, static_cast<const T*>(data.x.data()), static_cast<const T*>(data.y.data()),
                     data.out.data(), kCount);
    };
    sides.push_back({accuracy == lang::Accuracy::kFast ? "kiln fast" : "kiln", run, 0, {}});
  }
  for (MathPeer& peer : math_peers<T>(fn.name, data.x.data(), data.y.data(), data.out.data(), kCount, report.missing)) {
    sides.push_back({peer.name, peer.run, 0, {}});
  }
  for (Side& side : sides) {
    side.run();
    side.ulps = data.worst_ulps();
  }
  for (int round = 0; round < kRounds; ++round) {
    for (Side& side : sides) side.times.push_back(seconds(side.run) / kCount * 1e9);
  }
  auto add = [&](const Side& side, const char* metric, double value) {
    report.lines.push_back({"math", fn.name, type, side.name, metric, value});
    std::printf("%s\n", line_of(report.lines.back()).c_str());
  };
  for (const Side& side : sides) {
    const double time = median(side.times);
    add(side, "ns/element", time);
    add(side, "ulp", side.ulps);
    if (side.ulps <= std::max(1.0, sides.front().ulps)) add(side, "ns/element as exact", time);
  }
  std::fflush(stdout);
  return true;
}

}  // namespace

bool measure_math(Client& client, const std::function<bool(const std::string& function)>& wants, MathReport& report) {
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  bool fine = true;
  for (const Function& fn : functions()) {
    if (!wants(fn.name)) continue;
    report.missing.clear();
    fine = measure<float>(client, fn, "f32", report) && measure<double>(client, fn, "f64", report) && fine;
  }
  omp_set_num_threads(threads);
  return fine;
}

}  // namespace kiln::bench
