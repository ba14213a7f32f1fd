// Kernels of kernels/elementwise.h.
#include "check.h"

namespace kiln::test {
namespace {

double gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

template <class F>
std::vector<double> each(const std::vector<double>& x, F f) {
  std::vector<double> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i] = f(x[i]);
  return out;
}

TEST(ElementwiseKernels, VectorAdd) {
  for_floats([]<class T>() {
    for (size_t n : {1, 15, 16, 17, 100}) {
      const auto x = normals_of<T>(n, 1), y = normals_of<T>(n, 2);
      std::vector<double> expected = reals(x);
      for (size_t i = 0; i < n; ++i) expected[i] += reals(y)[i];
      check_both(kernels::vector_add<T>().ir(), {{"BLOCK", 16}},
                 {buffer(x), buffer(y), empty<Memory<T>>(n), int_of(static_cast<int64_t>(n))},
                 [&](const Arguments& out) { expect_close<T>(out[2], expected); });
    }
  });
}

TEST(ElementwiseKernels, Sin2Cos2) {
  for_floats([]<class T>() {
    const auto x = normals_of<T>(37, 1, 10);
    check_both(kernels::sin2_cos2<T>().ir(), {{"BLOCK", 16}}, {buffer(x), empty<Memory<T>>(37), int_of(37)},
               [&](const Arguments& out) { expect_close<T>(out[1], std::vector<double>(37, 1)); });
  });
}

TEST(ElementwiseKernels, Gelu) {
  for_floats([]<class T>() {
    const auto x = normals_of<T>(100, 1, 2);
    const auto expected = each(reals(x), [](double v) { return 0.5 * v * std::erfc(-v * M_SQRT1_2); });
    check_both(kernels::gelu<T>().ir(), {{"BLOCK", 32}}, {buffer(x), empty<Memory<T>>(100), int_of(100)},
               [&](const Arguments& out) { expect_close<T>(out[1], expected); });
  });
}

TEST(ElementwiseKernels, BiasGelu) {
  for_floats([]<class T>() {
    for (auto [rows, cols] : {std::pair{7, 13}, {8, 16}, {1, 1}}) {
      const auto count = static_cast<size_t>(rows * cols), width = static_cast<size_t>(cols);
      const auto x = normals_of<T>(count, 1), bias = normals_of<T>(width, 2);
      std::vector<double> expected = reals(x);
      for (size_t i = 0; i < count; ++i) expected[i] = gelu_tanh(expected[i] + reals(bias)[i % width]);
      check_both(kernels::bias_gelu<T>().ir(), {{"BR", 4}, {"BC", 8}},
                 {buffer(x), buffer(bias), empty<Memory<T>>(count), int_of(rows), int_of(cols)},
                 [&](const Arguments& out) { expect_close<T>(out[2], expected); });
    }
  });
}

// Either 0 or x/(1-p), with the mask of no block size; the same mask for the gradient.
TEST(ElementwiseKernels, DropoutKeepsAndScalesAndItsMaskDependsOnSeedAndOffsetAlone) {
  for_floats([]<class T>() {
    const float p = 0.3f;
    for (int64_t n : {1, 2, 5, 63, 1000}) {
      const auto count = static_cast<size_t>(n);
      const auto x = normals_of<T>(count, 1, 1, 5), dy = normals_of<T>(count, 2, 1, 5);
      std::vector<bool> kept;
      auto arguments = [&](const auto& from) {
        return Arguments{buffer(from), empty<Memory<T>>(count), int_of(n), float_of(p), int_of(42), int_of(1000)};
      };
      auto check = [&](const auto& from) {
        return [&, x = reals(from)](const Arguments& out) {
          const auto y = reals<T>(out[1]);
          std::vector<bool> now(count);
          std::vector<double> expected(count);
          for (size_t i = 0; i < count; ++i) {
            now[i] = y[i] != 0;
            expected[i] = now[i] ? x[i] / (1 - double{p}) : 0;
          }
          expect_close<T>(out[1], expected);
          if (kept.empty()) kept = now;
          EXPECT_EQ(kept, now);
        };
      };
      for (int64_t block : {16, 64}) check_both(kernels::dropout<T>().ir(), {{"BLOCK", block}}, arguments(x), check(x));
      check_both(kernels::dropout<T>().ir(), {{"BLOCK", 32}}, arguments(dy), check(dy));
      const auto share = static_cast<double>(std::count(kept.begin(), kept.end(), true)) / static_cast<double>(n);
      if (n == 1000) {
        EXPECT_NEAR(share, 0.7, 0.06);  // four deviations
      }
    }
  });
}

TEST(ElementwiseKernels, Rotary) {
  for_floats([]<class T>() {
    for (auto [tokens, heads, width] : {std::array<int64_t, 3>{3, 5, 6}, {2, 2, 16}, {1, 1, 2}}) {
      const int64_t places = 9, half = width / 2;
      const auto count = static_cast<size_t>(tokens * heads * width);
      const auto table = static_cast<size_t>(places * half);
      const auto x = normals_of<T>(count, 1), cosine = normals_of<T>(table, 2), sine = normals_of<T>(table, 3);
      const auto positions = ints(static_cast<size_t>(tokens), 0, places, 4);
      const auto in = reals(x), c = reals(cosine), s = reals(sine);
      std::vector<double> expected(count);
      for (int64_t i = 0; i < tokens * heads; ++i) {
        for (int64_t j = 0; j < half; ++j) {
          const auto a = static_cast<size_t>(i * width + j), b = a + static_cast<size_t>(half);
          const auto t = static_cast<size_t>(positions[static_cast<size_t>(i / heads)] * half + j);
          expected[a] = in[a] * c[t] - in[b] * s[t];
          expected[b] = in[b] * c[t] + in[a] * s[t];
        }
      }
      check_both(kernels::rotary<T>().ir(), {{"D", width}, {"BH", 2}},
                 {buffer(x), buffer(cosine), buffer(sine), buffer(positions), empty<Memory<T>>(count), int_of(tokens),
                  int_of(heads)},
                 [&](const Arguments& out) { expect_close<T>(out[4], expected); });
    }
  });
}

TEST(ElementwiseKernels, AdamW) {
  for_floats([]<class T>() {
    const double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.01;
    for (int step : {1, 2, 1000}) {
      const size_t n = 77;
      const auto p = normals_of<T>(n, 1), g = normals_of<T>(n, 2);
      auto m = normals_of<lang::f32>(n, 3), v = normals_of<lang::f32>(n, 4);
      for (float& x : v) x = x * x;
      std::vector<double> next_p(n), next_m(n), next_v(n);
      for (size_t i = 0; i < n; ++i) {
        const double slope = reals(g)[i];
        next_m[i] = beta1 * m[i] + (1 - beta1) * slope;
        next_v[i] = beta2 * v[i] + (1 - beta2) * slope * slope;
        const double mean = next_m[i] / (1 - std::pow(beta1, step)), square = next_v[i] / (1 - std::pow(beta2, step));
        next_p[i] = reals(p)[i] * (1 - lr * decay) - lr * mean / (std::sqrt(square) + eps);
      }
      check_both(kernels::adamw<T>().ir(), {{"BLOCK", 32}},
                 {buffer(p), buffer(g), buffer(m), buffer(v), int_of(n), double_of(lr), double_of(beta1),
                  double_of(beta2), double_of(eps), double_of(decay), int_of(step)},
                 [&](const Arguments& out) {
                   expect_close<T>(out[0], next_p);
                   expect_close<lang::f32>(out[2], next_m);
                   expect_close<lang::f32>(out[3], next_v);
                 });
    }
  });
}

}  // namespace
}  // namespace kiln::test
