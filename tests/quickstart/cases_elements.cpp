// Elementwise kernels.
#include "case_makers.h"

namespace kiln::quickstart {
namespace {

double gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); }

Case vector_add(int32_t n) {
  return make_case(kernels::vector_add(), shape_text({n}), {{"BLOCK", 16384}}, moves(12.0 * n), [=] {
    const auto size = static_cast<size_t>(n);
    auto x = normals(size, 1), y = normals(size, 2), out = allocate<float>(size);
    auto check = [=] { return compare(out.get(), size, [&](size_t i) { return double{x[i]} + double{y[i]}; }); };
    return launch(check, x, y, out, n);
  });
}

// y[i] = f(x[i])
template <class Def, class F>
Case unary(const Def& def, int32_t n, F f) {
  return make_case(def, shape_text({n}), {{"BLOCK", 4096}}, moves(8.0 * n), [=] {
    const auto size = static_cast<size_t>(n);
    auto x = normals(size, 1), y = allocate<float>(size);
    return launch([=] { return compare(y.get(), size, [&](size_t i) { return f(x[i]); }); }, x, y, n);
  });
}

Case bias_gelu(int32_t rows, int32_t cols) {
  return make_case(kernels::bias_gelu(), shape_text({rows, cols}), {{"BR", 2}, {"BC", std::min(cols, 4096)}},
                   moves(8.0 * rows * cols), [=] {
                     const size_t width = static_cast<size_t>(cols), size = static_cast<size_t>(rows) * width;
                     auto x = normals(size, 1), bias = normals(width, 2), y = allocate<float>(size);
                     auto check = [=] {
                       return compare(y.get(), size,
                                      [&](size_t i) { return gelu_tanh(double{x[i]} + double{bias[i % width]}); });
                     };
                     return launch(check, x, bias, y, rows, cols);
                   });
}

// Each element is 0 or scaled, and as many are kept as should be.
Case dropout(int32_t n) {
  return make_case(kernels::dropout(), shape_text({n}), {{"BLOCK", 1024}}, moves(8.0 * n), [=] {
    const float p = 0.1f;
    const auto size = static_cast<size_t>(n);
    auto x = normals(size, 1), y = allocate<float>(size);
    auto check = [=] {
      size_t kept = 0;
      for (size_t i = 0; i < size; ++i) kept += y[i] != 0;
      const double share = static_cast<double>(kept) / n, deviation = std::sqrt(0.09 / n);
      Check out = compare(y.get(), size, [&](size_t i) { return y[i] == 0 ? 0 : x[i] / (1 - double{p}); });
      out.passed = out.passed && std::fabs(share - 0.9) < 5 * deviation;
      return out;
    };
    return launch(check, x, y, n, p, int64_t{42}, int64_t{0});
  });
}

Case rotary(int32_t tokens, int32_t heads, int32_t width) {
  return make_case(
      kernels::rotary(), shape_text({tokens, heads, width}), {{"D", width}, {"BH", 8}},
      moves(8.0 * tokens * heads * width), [=] {
        const auto d = static_cast<size_t>(width), half = d / 2, count = static_cast<size_t>(tokens * heads) * d;
        auto x = normals(count, 1), y = allocate<float>(count);
        auto c = normals(static_cast<size_t>(tokens) * half, 2), s = normals(static_cast<size_t>(tokens) * half, 3);
        auto positions = ints(static_cast<size_t>(tokens), 0, tokens, 4);
        auto check = [=] {
          return compare(y.get(), count, [&](size_t i) {
            const size_t j = i % half;
            const size_t angle = static_cast<size_t>(positions[i / d / static_cast<size_t>(heads)]) * half + j;
            const bool low = i % d < half;
            return low ? double{x[i]} * c[angle] - double{x[i + half]} * s[angle]
                       : double{x[i]} * c[angle] + double{x[i - half]} * s[angle];
          });
        };
        return launch(check, x, c, s, positions, y, tokens, heads);
      });
}

// Launched many times, always as the first step of training: the state moves on. How many steps it took follows from m,
// and float64 takes as many.
Case adamw(int32_t n) {
  return make_case(kernels::adamw(), shape_text({n}), {{"BLOCK", 4096}}, moves(28.0 * n), [=] {
    const auto size = static_cast<size_t>(n);
    const double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.01;
    auto first = normals(size, 1), p = normals(size, 1), g = normals(size, 2);
    auto m = zeros<float>(size), v = zeros<float>(size);
    auto check = [=] {
      const double steps = std::round(std::log1p(-double{m[0]} / g[0]) / std::log(beta1));
      return compare(p.get(), size, [&](size_t i) {
        double value = first[i], mean = 0, square = 0;
        for (double step = 0; step < steps; ++step) {
          mean = beta1 * mean + (1 - beta1) * g[i];
          square = beta2 * square + (1 - beta2) * double{g[i]} * g[i];
          const double move = mean / (1 - beta1) / (std::sqrt(square / (1 - beta2)) + eps);
          value = value * (1 - lr * decay) - lr * move;
        }
        return value;
      });
    };
    return launch(check, p, g, m, v, n, lr, beta1, beta2, eps, decay, int32_t{1});
  });
}

}  // namespace

std::vector<Case> element_cases(Size size) {
  auto one = [](double) { return 1.0; };
  auto gelu = [](double x) { return 0.5 * x * std::erfc(-x * M_SQRT1_2); };
  if (size == Size::kSmall) {
    return {vector_add(100'003),
            unary(kernels::sin2_cos2(), 10'007, one),
            unary(kernels::gelu(), 10'007, gelu),
            bias_gelu(33, 1001),
            dropout(100'003),
            rotary(17, 5, 64),
            adamw(10'007)};
  }
  if (size == Size::kInCache) {
    return {vector_add(1 << 16),
            unary(kernels::sin2_cos2(), 1 << 17, one),
            unary(kernels::gelu(), 1 << 17, gelu),
            bias_gelu(128, 1024),
            dropout(1 << 17),
            rotary(32, 32, 128),
            adamw(1 << 15)};
  }
  const int32_t n = 1 << 24;
  return {vector_add(n),
          unary(kernels::sin2_cos2(), n, one),
          unary(kernels::gelu(), n, gelu),
          bias_gelu(4096, 4096),
          bias_gelu(512, 11008),
          dropout(n),
          rotary(4096, 32, 128),
          adamw(n)};
}

}  // namespace kiln::quickstart
