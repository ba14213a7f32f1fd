// Matrix products and layers made of them.
#include <omp.h>

#include "case_makers.h"

namespace kiln::quickstart {
namespace {

constexpr size_t kSamples = 2000;

struct Product {
  int32_t m, n, k;
  size_t rows() const { return static_cast<size_t>(m); }
  size_t cols() const { return static_cast<size_t>(n); }
  size_t depth() const { return static_cast<size_t>(k); }
  double flops() const { return 2.0 * m * n * k; }
  std::string text() const { return shape_text({m, n, k}); }
  // Until the tuner chooses: wide tiles, narrower where they would leave threads without work, none wider than the
  // product, and K in equal parts.
  dsl::ConstexprValues config() const {
    auto blocks_of = [&](int32_t bm, int32_t bn) { return (m + bm - 1) / bm * ((n + bn - 1) / bn); };
    auto multiple = [](int32_t value, int32_t of) { return (value + of - 1) / of * of; };
    const int32_t threads = omp_get_max_threads();
    if (flops() < 1e6) return {{"BM", m}, {"BN", n}, {"BK", k}};  // done before a second thread is awake
    if (m <= 16) {                                                // a part of B for each thread, row by row
      const int32_t most = m == 1 ? 4096 : 1024, bn = std::min(multiple((n + threads - 1) / threads, 16), most);
      return {{"BM", m}, {"BN", std::min(bn, n)}, {"BK", std::min(16, k)}};
    }
    const int32_t parts = (k + 255) / 256, bk = parts == 1 ? k : multiple((k + parts - 1) / parts, 8);
    const int32_t enough = 4 * std::max(threads, 2);
    const int32_t bn = blocks_of(128, 256) >= enough ? 256 : 128;
    const int32_t bm = blocks_of(128, bn) >= enough ? 128 : blocks_of(64, bn) >= enough ? 64 : 32;
    return {{"BM", std::min(bm, m)}, {"BN", std::min(bn, n)}, {"BK", bk}};
  }
};

double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); }
double relu(double x) { return std::max(x, 0.0); }

// One element of a·b.
template <class M>
double dot(const M* a, const M* b, const Product& p, size_t row, size_t col) {
  double total = 0;
  for (size_t i = 0; i < p.depth(); ++i) {
    total += real(a[row * p.depth() + i]) * real(b[i * p.cols() + col]);
  }
  return total;
}

// How a product's factors lie in memory: as they are, or as their transposes.
struct Order {
  bool a_turned = false, b_turned = false;
};

template <class T, class Def>
Case product_of(const Def& def, Product p, Order order = {}) {
  using In = typename dsl::LaunchType<T>::type;
  using Out = typename dsl::LaunchType<kernels::ProductOf<T>>::type;
  const bool whole = std::is_integral_v<In>, wide = std::is_same_v<In, float>;
  const char* type = whole ? " i8" : wide ? "" : std::is_same_v<In, bf16> ? " bf16" : " f16";
  return make_case(def, p.text() + type, p.config(), computes(p.flops()), [=] {
    auto a = elements<In>(p.rows() * p.depth(), 1), b = elements<In>(p.depth() * p.cols(), 2);
    auto c = allocate<Out>(p.rows() * p.cols());
    auto check = [=] {
      const double bound = whole ? 0 : wide ? dot_bound(p.depth()) : 1e-2;
      return compare_norm(c.get(), kSamples, bound, [&](size_t sample) {
        const size_t row = place(sample, 1, p.rows()), col = place(sample, 2, p.cols());
        double total = 0;
        for (size_t i = 0; i < p.depth(); ++i) {
          total += real(a[order.a_turned ? i * p.rows() + row : row * p.depth() + i]) *
                   real(b[order.b_turned ? col * p.depth() + i : i * p.cols() + col]);
        }
        return Expected{row * p.cols() + col, total};
      });
    };
    return launch(check, a, b, c, p.m, p.n, p.k);
  });
}
template <class T>
Case matmul(Product p) {
  return product_of<T>(kernels::matmul<T>(), p);
}
template <class T>
Case matmul_nt(Product p) {
  return product_of<T>(kernels::matmul_nt<T>(), p, {.b_turned = true});
}
template <class T>
Case matmul_tn(Product p) {
  return product_of<T>(kernels::matmul_tn<T>(), p, {.a_turned = true});
}

template <class Def>
Case layer(const Def& def, Product p, double (*activation)(double)) {
  return make_case(def, p.text(), p.config(), computes(p.flops()), [=] {
    auto a = normals(p.rows() * p.depth(), 1), b = normals(p.depth() * p.cols(), 2), bias = normals(p.cols(), 3);
    auto c = allocate<float>(p.rows() * p.cols());
    auto check = [=] {
      return compare_norm(c.get(), kSamples, dot_bound(p.depth()), [&](size_t sample) {
        const size_t row = place(sample, 1, p.rows()), col = place(sample, 2, p.cols());
        return Expected{row * p.cols() + col, activation(dot(a.get(), b.get(), p, row, col) + bias[col])};
      });
    };
    return launch(check, a, b, bias, c, p.m, p.n, p.k);
  });
}
Case with_gelu(Product p) { return layer(kernels::matmul_bias_act(), p, gelu); }
// With weights packed ahead, for programs that launch the layer again and again.
Case with_gelu_packed(Product p) {
  const dsl::ConstexprValues config = {{"BM", p.m}, {"BN", panel_width()}, {"BK", std::min(p.k, 512)}};
  return make_case(kernels::matmul_bias_act_packed(), p.text(), config, computes(p.flops()), [=] {
    auto a = normals(p.rows() * p.depth(), 1), b = normals(p.depth() * p.cols(), 2), bias = normals(p.cols(), 3);
    auto c = allocate<float>(p.rows() * p.cols());
    const auto width = static_cast<size_t>(panel_width());
    auto panels = zeros<float>((p.cols() + width - 1) / width * width * p.depth());
    for (size_t k = 0; k < p.depth(); ++k) {
      for (size_t n = 0; n < p.cols(); ++n) {
        panels[(n / width * p.depth() + k) * width + n % width] = b[k * p.cols() + n];
      }
    }
    auto check = [=] {
      return compare_norm(c.get(), kSamples, dot_bound(p.depth()), [&](size_t sample) {
        const size_t row = place(sample, 1, p.rows()), col = place(sample, 2, p.cols());
        return Expected{row * p.cols() + col, gelu(dot(a.get(), b.get(), p, row, col) + bias[col])};
      });
    };
    return launch(check, a, panels, bias, c, p.m, p.n, p.k);
  });
}
Case with_relu(Product p) { return layer(kernels::matmul_bias_relu(), p, relu); }

Case batched_matmul(int32_t batch, Product p) {
  const std::string text = shape_text({batch, p.m, p.n, p.k});
  return make_case(kernels::batched_matmul(), text, p.config(), computes(batch * p.flops()), [=] {
    const auto count = static_cast<size_t>(batch);
    auto a = normals(count * p.rows() * p.depth(), 1), b = normals(count * p.depth() * p.cols(), 2);
    auto c = allocate<float>(count * p.rows() * p.cols());
    auto check = [=] {
      return compare_norm(c.get(), kSamples, dot_bound(p.depth()), [&](size_t sample) {
        const size_t row = place(sample, 1, p.rows()), col = place(sample, 2, p.cols()), i = place(sample, 3, count);
        const float *left = a.get() + i * p.rows() * p.depth(), *right = b.get() + i * p.depth() * p.cols();
        return Expected{(i * p.rows() + row) * p.cols() + col, dot(left, right, p, row, col)};
      });
    };
    return launch(check, a, b, c, batch, p.m, p.n, p.k);
  });
}

Case dlrm_interaction(int32_t batch) {
  constexpr size_t kFeatures = 27, kWidth = 128, kOut = kWidth + kFeatures * (kFeatures - 1) / 2;
  const double flops = 2.0 * batch * kFeatures * kFeatures * kWidth;
  return make_case(kernels::dlrm_interaction(), shape_text({batch, kFeatures, kWidth}), {}, computes(flops), [=] {
    const auto count = static_cast<size_t>(batch);
    auto x = normals(count * kFeatures * kWidth, 1), out = allocate<float>(count * kOut);
    auto check = [=] {
      return compare_norm(out.get(), kSamples, dot_bound(kWidth), [&](size_t sample) {
        const size_t b = place(sample, 1, count), i = 1 + place(sample, 2, kFeatures - 1), j = place(sample, 3, i);
        const float *left = x.get() + (b * kFeatures + i) * kWidth, *right = x.get() + (b * kFeatures + j) * kWidth;
        double total = 0;
        for (size_t l = 0; l < kWidth; ++l) total += double{left[l]} * right[l];
        return Expected{b * kOut + kWidth + i * (i - 1) / 2 + j, total};
      });
    };
    return launch(check, x, out, batch);
  });
}

// The weights of a layer and its bias, and what it does to one row.
struct Dense {
  size_t from, to;
  Buffer<float> weight, bias;
  Dense(size_t in, size_t out, uint32_t seed)
      : from(in), to(out), weight(normals(in * out, seed)), bias(normals(out, seed + 1)) {
    for (size_t i = 0; i < in * out; ++i) weight[i] /= std::sqrt(static_cast<float>(in));
  }
  std::vector<double> operator()(const std::vector<double>& x, double lambda) const {
    std::vector<double> y(bias.get(), bias.get() + to);
    for (size_t i = 0; i < from * to; ++i) y[i % to] += x[i / to] * weight[i];
    for (double& v : y) v = v > lambda ? v - lambda : v < -lambda ? v + lambda : 0;
    return y;
  }
};

Case mlp_softshrink(int32_t rows) {
  constexpr size_t kIn = 784, kHidden = 256, kOut = 10;
  const double flops = 2.0 * rows * (kIn * kHidden + 2 * kHidden * kHidden + kHidden * kOut);
  return make_case(kernels::mlp_softshrink(), shape_text({rows, kIn, kHidden, kOut}), {}, computes(flops), [=] {
    const auto count = static_cast<size_t>(rows);
    const float lambda = 0.1f;
    auto x = normals(count * kIn, 1), y = allocate<float>(count * kOut);
    const Dense one(kIn, kHidden, 2), two(kHidden, kHidden, 4), three(kHidden, kHidden, 6), four(kHidden, kOut, 8);
    auto check = [=] {
      return compare_norm(y.get(), 100, dot_bound(kIn), [&](size_t sample) {
        const size_t row = place(sample, 1, count), col = place(sample, 2, kOut);
        const std::vector<double> in(x.get() + row * kIn, x.get() + (row + 1) * kIn);
        return Expected{row * kOut + col, four(three(two(one(in, lambda), lambda), lambda), 0)[col]};
      });
    };
    return launch(check, x, one.weight, one.bias, two.weight, two.bias, three.weight, three.bias, four.weight,
                  four.bias, y, rows, lambda);
  });
}

}  // namespace

std::vector<Case> product_cases(Size size) {
  using lang::bf16, lang::f16, lang::f32, lang::i8;
  if (size == Size::kSmall) {
    const Product p{100, 200, 300};
    return {matmul<f32>(p),           matmul<bf16>(p),
            matmul<f16>(p),           matmul<i8>(p),
            with_gelu({65, 130, 70}), with_relu(p),
            batched_matmul(3, p),     dlrm_interaction(17),
            mlp_softshrink(50),       with_gelu_packed({65, 130, 70}),
            matmul_nt<bf16>(p),       matmul_tn<bf16>(p)};
  }
  if (size == Size::kInCache) {
    return {matmul<f32>({47, 47, 47}),     matmul<f32>({128, 128, 128}), matmul<f32>({256, 256, 256}),
            matmul<bf16>({256, 256, 256}), matmul<i8>({256, 256, 256}),  with_relu({256, 128, 256})};
  }
  const Product square{1024, 1024, 1024};
  std::vector<Case> out = {matmul<f32>(square), matmul<bf16>(square), matmul<f16>(square), matmul<i8>(square)};
  // Layers of BERT-base, then of Llama-3-8B.
  for (int32_t tokens : {128, 512}) {
    for (auto [n, k] : {std::pair<int32_t, int32_t>{768, 768}, {3072, 768}, {768, 3072}}) {
      out.push_back(with_gelu({tokens, n, k}));
    }
  }
  for (auto [n, k] : {std::pair<int32_t, int32_t>{4096, 4096}, {1024, 4096}, {14336, 4096}, {4096, 14336}}) {
    out.push_back(with_gelu({128, n, k}));
  }
  out.push_back(with_gelu({512, 4096, 4096}));
  for (auto [n, k] : {std::pair<int32_t, int32_t>{768, 768}, {3072, 768}, {768, 3072}, {4096, 4096}}) {
    out.push_back(with_gelu_packed({128, n, k}));
  }
  out.push_back(matmul_nt<bf16>(square));
  out.push_back(matmul_tn<bf16>(square));
  out.push_back(matmul<bf16>({128, 4096, 4096}));
  out.push_back(matmul<f32>({1, 4096, 4096}));
  out.push_back(batched_matmul(96, {512, 512, 64}));
  // DLRM: bottom layers, interaction, top layers.
  for (auto [k, n] : {std::pair<int32_t, int32_t>{13, 512}, {512, 256}, {256, 128}}) {
    out.push_back(with_relu({2048, n, k}));
  }
  out.push_back(dlrm_interaction(2048));
  for (auto [k, n] : {std::pair<int32_t, int32_t>{479, 1024}, {1024, 1024}, {1024, 512}, {512, 256}, {256, 1}}) {
    out.push_back(with_relu({2048, n, k}));
  }
  out.push_back(mlp_softshrink(8192));
  return out;
}

}  // namespace kiln::quickstart
