#include "cases.h"

#include <cmath>
#include <cstdlib>
#include <random>

namespace kiln::quickstart {
namespace {

// Page-aligned f32 memory, written by all threads first.
using Buffer = std::shared_ptr<float[]>;

Buffer allocate(size_t count) {
  return Buffer(static_cast<float*>(std::aligned_alloc(4096, (count * sizeof(float) + 4095) / 4096 * 4096)), std::free);
}

// N(0, 1), the same on every run.
Buffer normals(size_t count, uint32_t seed) {
  Buffer out = allocate(count);
  constexpr size_t kChunk = 1 << 16;
#pragma omp parallel for schedule(static)
  for (size_t start = 0; start < count; start += kChunk) {
    std::minstd_rand generator(static_cast<uint32_t>(seed * 7919 + start / kChunk + 1));
    // The sum of four uniforms: near enough to normal and quick.
    std::uniform_real_distribution<float> uniform(-0.8660254f, 0.8660254f);
    for (size_t i = start; i < std::min(count, start + kChunk); ++i) {
      out[i] = uniform(generator) + uniform(generator) + uniform(generator) + uniform(generator);
    }
  }
  return out;
}

constexpr double kRtol = 1.3e-6, kAtol = 1e-5;  // f32, docs/ops.md

// Compares element by element; `reference(i)` in float64.
template <class F>
Check compare(const float* out, size_t count, double rtol, F reference) {
  double worst = 0;
  bool passed = true;
#pragma omp parallel for schedule(static) reduction(max : worst) reduction(&& : passed)
  for (size_t i = 0; i < count; ++i) {
    const double expected = reference(i), error = std::fabs(out[i] - expected);
    passed = passed && error <= kAtol + rtol * std::fabs(expected);  // false for NaN
    worst = std::max(worst, error);
  }
  return {worst, passed};
}

// Row by row: `reference(row, values)` fills one row in float64.
template <class F>
Check compare_rows(const float* out, size_t rows, size_t cols, F reference) {
  double worst = 0;
  bool passed = true;
#pragma omp parallel reduction(max : worst) reduction(&& : passed)
  {
    std::vector<double> expected(cols);
#pragma omp for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      reference(r, expected.data());
      for (size_t i = 0; i < cols; ++i) {
        const double error = std::fabs(out[r * cols + i] - expected[i]);
        passed = passed && error <= kAtol + kRtol * std::fabs(expected[i]);
        worst = std::max(worst, error);
      }
    }
  }
  return {worst, passed};
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); }

std::string shape_text(int64_t rows, int64_t cols) { return std::to_string(rows) + "×" + std::to_string(cols); }

template <class Def, class... Args>
Result<Case::Prepared> prepare(Client& client, const Def& def, const dsl::ConstexprValues& constexprs,
                               std::function<Check()> check, Args... args) {
  auto fn = client.get(def, {.target = "cpu", .constexprs = constexprs});
  if (!fn) return fn.error();
  auto handle = *fn;
  return Case::Prepared{[=] { return handle(args...); }, std::move(check), handle.untyped().metadata()};
}

Case vector_add(int32_t n) {
  Case out{"vector_add", std::to_string(n), &*kernels::vector_add().ir(), {{"BLOCK", 16384}}, 12.0 * n, 0, false, {}};
  out.prepare = [n, constexprs = out.constexprs](Client& client) {
    const auto size = static_cast<size_t>(n);
    Buffer x = normals(size, 1), y = normals(size, 2), z = allocate(size);
    auto check = [=] { return compare(z.get(), size, kRtol, [&](size_t i) { return double{x[i]} + double{y[i]}; }); };
    return prepare(client, kernels::vector_add(), constexprs, check, x.get(), y.get(), z.get(), n);
  };
  return out;
}

Case sin2_cos2(int32_t n) {
  Case out{"sin2_cos2", std::to_string(n), &*kernels::sin2_cos2().ir(), {{"BLOCK", 4096}}, 8.0 * n, 0, false, {}};
  out.prepare = [n, constexprs = out.constexprs](Client& client) {
    const auto size = static_cast<size_t>(n);
    Buffer x = normals(size, 1), y = allocate(size);
    auto check = [=] {
      (void)x;
      return compare(y.get(), size, kRtol, [](size_t) { return 1.0; });
    };
    return prepare(client, kernels::sin2_cos2(), constexprs, check, x.get(), y.get(), n);
  };
  return out;
}

Case bias_gelu(int32_t rows, int32_t cols) {
  Case out{"bias_gelu",
           shape_text(rows, cols),
           &*kernels::bias_gelu().ir(),
           {{"BR", 2}, {"BC", 4096}},
           8.0 * rows * cols,
           0,
           false,
           {}};
  out.prepare = [=, constexprs = out.constexprs](Client& client) {
    const size_t width = static_cast<size_t>(cols), size = static_cast<size_t>(rows) * width;
    Buffer x = normals(size, 1), bias = normals(width, 2), y = allocate(size);
    auto check = [=] {
      return compare(y.get(), size, kRtol, [&](size_t i) { return gelu(double{x[i]} + double{bias[i % width]}); });
    };
    return prepare(client, kernels::bias_gelu(), constexprs, check, x.get(), bias.get(), y.get(), rows, cols);
  };
  return out;
}

Case softmax(int32_t rows, int32_t cols) {
  Case out{"softmax", shape_text(rows, cols), &*kernels::softmax().ir(), {{"BLOCK", cols}}, 8.0 * rows * cols, 0, false,
           {}};
  out.prepare = [=, constexprs = out.constexprs](Client& client) {
    const size_t width = static_cast<size_t>(cols), height = static_cast<size_t>(rows);
    Buffer x = normals(height * width, 1), y = allocate(height * width);
    auto check = [=] {
      return compare_rows(y.get(), height, width, [&](size_t r, double* expected) {
        const float* row = x.get() + r * width;
        double top = row[0], total = 0;
        for (size_t i = 0; i < width; ++i) top = std::max(top, double{row[i]});
        for (size_t i = 0; i < width; ++i) total += expected[i] = std::exp(row[i] - top);
        for (size_t i = 0; i < width; ++i) expected[i] /= total;
      });
    };
    return prepare(client, kernels::softmax(), constexprs, check, x.get(), y.get(), rows, cols, cols);
  };
  return out;
}

Case layer_norm(int32_t rows, int32_t cols) {
  Case out{"layer_norm",
           shape_text(rows, cols),
           &*kernels::layer_norm().ir(),
           {{"BLOCK", cols}},
           8.0 * rows * cols,
           0,
           false,
           {}};
  out.prepare = [=, constexprs = out.constexprs](Client& client) {
    constexpr float kEps = 1e-5f;
    const size_t width = static_cast<size_t>(cols), height = static_cast<size_t>(rows);
    Buffer x = normals(height * width, 1), w = normals(width, 2), b = normals(width, 3), y = allocate(height * width);
    auto check = [=] {
      return compare_rows(y.get(), height, width, [&](size_t r, double* expected) {
        const float* row = x.get() + r * width;
        double mean = 0, variance = 0;
        for (size_t i = 0; i < width; ++i) mean += row[i];
        mean /= static_cast<double>(width);
        for (size_t i = 0; i < width; ++i) variance += (row[i] - mean) * (row[i] - mean);
        const double scale = 1 / std::sqrt(variance / static_cast<double>(width) + kEps);
        for (size_t i = 0; i < width; ++i) expected[i] = (row[i] - mean) * scale * w[i] + b[i];
      });
    };
    return prepare(client, kernels::layer_norm(), constexprs, check, x.get(), w.get(), b.get(), y.get(), rows, cols,
                   cols, kEps);
  };
  return out;
}

Case row_sum(int32_t rows, int32_t cols) {
  Case out{"row_sum", shape_text(rows, cols), &*kernels::row_sum().ir(), {{"BLOCK", 1024}}, 4.0 * rows * cols, 0, true,
           {}};
  out.prepare = [=, constexprs = out.constexprs](Client& client) {
    const size_t width = static_cast<size_t>(cols), height = static_cast<size_t>(rows);
    Buffer x = normals(height * width, 1), y = allocate(height);
    auto check = [=] {
      // The tolerance of a sum is relative to what was added, not to what is left of it.
      double worst = 0;
      bool passed = true;
      for (size_t r = 0; r < height; ++r) {
        double total = 0, magnitude = 0;
        for (size_t i = 0; i < width; ++i) {
          total += x[r * width + i];
          magnitude += std::fabs(x[r * width + i]);
        }
        const double error = std::fabs(y[r] - total);
        passed = passed && error <= kAtol + kRtol * magnitude;
        worst = std::max(worst, error);
      }
      return Check{worst, passed};
    };
    return prepare(client, kernels::row_sum(), constexprs, check, x.get(), y.get(), rows, cols, cols);
  };
  return out;
}

// Until the tuner chooses: wide tiles, narrower where they would leave threads without work.
dsl::ConstexprValues product_config(int64_t m, int64_t n) {
  for (int64_t bn : {256, 128}) {
    if ((m + 127) / 128 * ((n + bn - 1) / bn) >= 8) return {{"BM", 128}, {"BN", bn}, {"BK", 256}};
  }
  return {{"BM", 64}, {"BN", 128}, {"BK", 256}};
}

// ‖out - ref‖ / ‖ref‖ over random elements of the product: all of them would take a float64 product of the same size.
Check check_product(const float* a, const float* b, const float* bias, const float* c, size_t m, size_t n, size_t k) {
  constexpr int kSamples = 2000;
  double difference = 0, norm = 0;
#pragma omp parallel for schedule(static) reduction(+ : difference, norm)
  for (int sample = 0; sample < kSamples; ++sample) {
    std::minstd_rand generator(static_cast<uint32_t>(sample + 1));
    generator.discard(10);
    const size_t row = generator() % m, col = generator() % n;
    double expected = 0;
    for (size_t i = 0; i < k; ++i) expected += double{a[row * k + i]} * double{b[i * n + col]};
    if (bias) expected = gelu(expected + bias[col]);
    difference += (c[row * n + col] - expected) * (c[row * n + col] - expected);
    norm += expected * expected;
  }
  const double error = std::sqrt(difference / norm);
  return {error, error < 3e-8 * std::sqrt(static_cast<double>(k)) + 1e-7};
}

Case product(int32_t m, int32_t n, int32_t k, bool with_epilogue) {
  Case out;
  out.kernel = with_epilogue ? "matmul_bias_act" : "matmul";
  out.shape = shape_text(m, n) + "×" + std::to_string(k);
  out.ir = with_epilogue ? &*kernels::matmul_bias_act().ir() : &*kernels::matmul().ir();
  out.constexprs = product_config(m, n);
  out.flops = 2.0 * m * n * k;
  out.prepare = [=, constexprs = out.constexprs](Client& client) {
    const size_t rows = static_cast<size_t>(m), cols = static_cast<size_t>(n), inner = static_cast<size_t>(k);
    Buffer a = normals(rows * inner, 1), b = normals(inner * cols, 2), bias = normals(cols, 3),
           c = allocate(rows * cols);
    auto check = [=] {
      return check_product(a.get(), b.get(), with_epilogue ? bias.get() : nullptr, c.get(), rows, cols, inner);
    };
    if (with_epilogue) {
      return prepare(client, kernels::matmul_bias_act(), constexprs, check, a.get(), b.get(), bias.get(), c.get(), m, n,
                     k);
    }
    return prepare(client, kernels::matmul(), constexprs, check, a.get(), b.get(), c.get(), m, n, k);
  };
  return out;
}

}  // namespace

std::vector<Case> quickstart_cases(bool small) {
  if (small) {
    return {vector_add(100'003), sin2_cos2(10'007), bias_gelu(33, 1001),           softmax(17, 1000),
            layer_norm(19, 768), row_sum(21, 1234), product(100, 200, 300, false), product(65, 130, 70, true)};
  }
  std::vector<Case> out = {vector_add(1 << 24),    sin2_cos2(1 << 24),
                           bias_gelu(4096, 4096),  bias_gelu(512, 11008),
                           softmax(4096, 1024),    softmax(512, 32000),
                           layer_norm(4096, 4096), layer_norm(8192, 768),
                           row_sum(4096, 4096),    product(1024, 1024, 1024, false)};
  // Layers of BERT-base, then of Llama-3-8B.
  for (int32_t tokens : {128, 512}) {
    for (auto [n, k] : {std::pair<int32_t, int32_t>{768, 768}, {3072, 768}, {768, 3072}})
      out.push_back(product(tokens, n, k, true));
  }
  for (int32_t tokens : {128, 512}) {
    for (auto [n, k] : {std::pair<int32_t, int32_t>{4096, 4096}, {1024, 4096}, {14336, 4096}, {4096, 14336}}) {
      out.push_back(product(tokens, n, k, true));
    }
  }
  return out;
}

}  // namespace kiln::quickstart
