// What a layer loses by quantising: y = x·wᵀ by each quantised product of the library, beside sums in float64.
//
//   quantised-accuracy [w.npy x.npy]
//
// w [outputs, inputs] and x [tokens, inputs] are f32, the inputs a multiple of 128; without files they are random.
// docs/use/kernels.md has the output.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kiln/client/client.h"
#include "kiln/client/npy.h"
#include "kiln/dsl/kernels.h"

namespace {

namespace kernels = kiln::kernels;
using kiln::lang::f32, kiln::lang::f8e4m3, kiln::lang::f8e5m2, kiln::lang::i8, kiln::lang::u8;

template <class T>
T must(kiln::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

struct Matrix {
  int32_t rows, cols;
  std::vector<float> values;
  size_t size() const { return static_cast<size_t>(rows) * static_cast<size_t>(cols); }
  std::span<const float> row(size_t r) const {
    return std::span(values).subspan(r * static_cast<size_t>(cols), static_cast<size_t>(cols));
  }
};

Matrix read(const char* path) {
  const auto array = must(kiln::client::read_npy(path));
  if (array.dtype != "<f4" || array.shape.size() != 2 || array.shape[1] % 128 != 0) {
    std::fprintf(stderr, "%s: no matrix of f32 whose columns are a multiple of 128\n", path);
    std::exit(1);
  }
  Matrix out{static_cast<int32_t>(array.shape[0]), static_cast<int32_t>(array.shape[1]), {}};
  out.values.resize(out.size());
  std::memcpy(out.values.data(), array.data(), out.size() * sizeof(float));
  return out;
}

// Normal numbers, one in a thousand ten times as large, as trained layers have them.
Matrix random_matrix(int32_t rows, int32_t cols, float scale, uint32_t seed) {
  Matrix out{rows, cols, {}};
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, scale);
  for (size_t i = 0; i < out.size(); ++i) out.values.push_back(normal(generator) * (i % 1000 == 7 ? 10 : 1));
  return out;
}

float largest(std::span<const float> values) {
  float out = 1e-30f;
  for (const float value : values) out = std::max(out, std::fabs(value));
  return out;
}

// Each row by a factor of its own, so that its largest magnitude becomes `top`.
template <class Q>
struct Rows {
  std::vector<Q> q;
  std::vector<float> scale;
};
template <class Q>
Rows<Q> by_rows(const Matrix& m, float top) {
  Rows<Q> out;
  for (size_t r = 0; r < static_cast<size_t>(m.rows); ++r) {
    out.scale.push_back(largest(m.row(r)) / top);
    for (const float value : m.row(r)) {
      if constexpr (std::is_integral_v<Q>) {
        out.q.push_back(static_cast<Q>(std::nearbyint(value / out.scale.back())));
      } else {
        out.q.push_back(Q::from(double{value} / out.scale.back()));
      }
    }
  }
  return out;
}

// Four bits, with a factor for `group` weights of a row, and where they are not symmetric a zero point.
struct Groups {
  std::vector<uint8_t> pairs, zeros;
  std::vector<float> scale;
};
Groups by_groups(const Matrix& w, size_t group, bool has_zeros) {
  const auto rows = static_cast<size_t>(w.rows), count = static_cast<size_t>(w.cols) / group;
  Groups out{std::vector<uint8_t>(w.size() / 2), std::vector<uint8_t>(count * rows, 8),
             std::vector<float>(count * rows)};
  for (size_t r = 0; r < rows; ++r) {
    for (size_t g = 0; g < count; ++g) {
      const auto part = w.row(r).subspan(g * group, group);
      const auto [low, high] = std::ranges::minmax(part);
      const float from = std::min(low, 0.0f), range = std::max(high, 0.0f) - from;
      const size_t at = g * rows + r;
      out.scale[at] = has_zeros ? std::max(range, 1e-30f) / 15 : largest(part) / 7;
      if (has_zeros)
        out.zeros[at] = static_cast<uint8_t>(std::clamp(std::nearbyint(-from / out.scale[at]), 0.0f, 15.0f));
      for (size_t k = 0; k < group; ++k) {
        const float code = std::nearbyint(part[k] / out.scale[at]) + static_cast<float>(out.zeros[at]);
        const auto bits = static_cast<uint8_t>(std::clamp(code, 0.0f, 15.0f));
        out.pairs[(r * static_cast<size_t>(w.cols) + g * group + k) / 2] |= static_cast<uint8_t>(bits << (k % 2 * 4));
      }
    }
  }
  return out;
}

class Report {
 public:
  Report(Matrix x, Matrix w) : x_(std::move(x)), w_(std::move(w)), y_(size_t(x_.rows) * size_t(w_.rows)) {
    for (size_t i = 0; i < y_.size(); ++i) {
      double total = 0;
      const auto a = x_.row(i / size_t(w_.rows)), b = w_.row(i % size_t(w_.rows));
      for (size_t k = 0; k < a.size(); ++k) total += double{a[k]} * b[k];
      exact_.push_back(total);
    }
    std::printf("%d tokens, %d inputs, %d outputs\n", x_.rows, x_.cols, w_.rows);
    std::printf("%-46s %8s %10s %10s %8s\n", "layer", "bits", "relative", "largest", "SNR dB");
  }

  void weights_of_bytes() {
    const auto bytes = by_rows<int8_t>(w_, 127);
    launch(kernels::matmul_w8(), {}, x_.values, bytes.q, bytes.scale, y_, x_.rows, w_.rows, x_.cols);
    print("weights of i8, a scale a row", 8 + 32.0 / w_.cols);
    const auto e4m3 = by_rows<kiln::f8e4m3>(w_, 448);
    launch(kernels::matmul_wf8<f32, f8e4m3>(), {}, x_.values, e4m3.q, e4m3.scale, y_, x_.rows, w_.rows, x_.cols);
    print("weights of f8 e4m3, a scale a row", 8 + 32.0 / w_.cols);
    const auto e5m2 = by_rows<kiln::f8e5m2>(w_, 57344);
    launch(kernels::matmul_wf8<f32, f8e5m2>(), {}, x_.values, e5m2.q, e5m2.scale, y_, x_.rows, w_.rows, x_.cols);
    print("weights of f8 e5m2, a scale a row", 8 + 32.0 / w_.cols);
  }
  void weights_of_four_bits() {
    for (const int group : {128, 64, 32}) {
      for (const bool zeros : {false, true}) {
        const Groups of = by_groups(w_, static_cast<size_t>(group), zeros);
        launch(kernels::matmul_w4_groups(), {{"GROUP", group}, {"ZEROS", zeros}}, x_.values, of.pairs, of.scale,
               of.zeros, y_, x_.rows, w_.rows, x_.cols, x_.cols / 2);
        // A scale travels as 16 bits, a zero point as four.
        print("weights of 4 bits, groups of " + std::to_string(group) + (zeros ? ", zero points" : ""),
              4 + (16.0 + 4 * zeros) / group);
      }
    }
  }
  // One scale and zero point for all of x, from its range.
  void static_ints() {
    const auto w = by_rows<int8_t>(w_, 127);
    const auto [low, high] = std::ranges::minmax(x_.values);
    const float x_scale = std::max(high - low, 1e-30f) / 255;
    const auto zero = static_cast<int32_t>(std::nearbyint(-low / x_scale));
    std::vector<uint8_t> q;
    for (const float value : x_.values) {
      q.push_back(
          static_cast<uint8_t>(std::clamp(std::nearbyint(value / x_scale) + static_cast<float>(zero), 0.0f, 255.0f)));
    }
    std::vector<float> scale(size_t(w_.rows)), offset(size_t(w_.rows)), bias(size_t(w_.rows));
    launch(kernels::fold_zero_point(), {}, w.q, w.scale, bias, scale, offset, w_.rows, w_.cols, x_scale, zero);
    launch(kernels::linear_q8<u8, f32>(), {}, q, w.q, scale, offset, y_, x_.rows, w_.rows, x_.cols, 1.0f, 0);
    print("u8 by i8, one scale of x", 8 + 32.0 / w_.cols);
  }
  void dynamic_ints() {
    const auto w = by_rows<int8_t>(w_, 127);
    std::vector<int8_t> q(x_.size());
    std::vector<float> scale(size_t(x_.rows)), bias(size_t(w_.rows));
    launch(kernels::quantise_tokens(), {}, x_.values, q, scale, x_.rows, x_.cols);
    launch(kernels::linear_dynamic(), {}, q, w.q, scale, w.scale, bias, y_, x_.rows, w_.rows, x_.cols);
    print("i8 by i8, a scale a token", 8 + 32.0 / w_.cols);
  }
  void f8() {
    const auto x = by_rows<kiln::f8e4m3>(x_, 448), w = by_rows<kiln::f8e4m3>(w_, 448);
    const std::vector<float> bias(size_t(w_.rows));
    launch(kernels::linear_f8<f32>(), {}, x.q, w.q, x.scale, w.scale, bias, y_, x_.rows, w_.rows, x_.cols);
    print("f8 e4m3 by e4m3, a scale a token", 8 + 32.0 / w_.cols);
  }
  template <class E, class M>
  void microscaled(const char* name) {
    const auto quantise = [&](const Matrix& m, std::vector<M>& q, std::vector<uint8_t>& scale) {
      q.resize(m.size());
      scale.resize(m.size() / 32);
      launch(kernels::quantise_mx<f32, E>(), {}, m.values, q, scale, m.rows, m.cols);
    };
    std::vector<M> x, w;
    std::vector<uint8_t> x_scale, w_scale;
    quantise(x_, x, x_scale);
    quantise(w_, w, w_scale);
    launch(kernels::matmul_mx<E>(), {}, x, w, x_scale, w_scale, y_, x_.rows, w_.rows, x_.cols);
    print(std::string("MX ") + name + " by " + name + ", a power of two for 32", 8.25);
  }

 private:
  template <class Kernel, class... Arguments>
  void launch(const Kernel& kernel, const kiln::dsl::ConstexprValues& config, Arguments&&... arguments) {
    must(must(client_.get(kernel, {.target = "cpu", .constexprs = config}))(arguments...));
  }
  void print(const std::string& name, double bits) {
    double lost = 0, signal = 0, most = 0;
    for (size_t i = 0; i < y_.size(); ++i) {
      const double error = y_[i] - exact_[i];
      lost += error * error;
      signal += exact_[i] * exact_[i];
      most = std::max(most, std::fabs(error));
    }
    std::printf("%-46s %8.2f %10.2e %10.2e %8.1f\n", name.c_str(), bits, std::sqrt(lost / signal), most,
                10 * std::log10(signal / lost));
    std::ranges::fill(y_, 0.0f);
  }

  Matrix x_, w_;
  std::vector<float> y_;
  std::vector<double> exact_;
  kiln::Client client_;
};

}  // namespace

int main(int argc, char** argv) {
  const Matrix w = argc == 3 ? read(argv[1]) : random_matrix(256, 1024, 0.03f, 1);
  const Matrix x = argc == 3 ? read(argv[2]) : random_matrix(64, 1024, 1, 2);
  if (x.cols != w.cols) return std::fprintf(stderr, "x and w have rows of unlike length\n"), 1;
  Report report(x, w);
  report.weights_of_bytes();
  report.weights_of_four_bits();
  report.static_ints();
  report.dynamic_ints();
  report.f8();
  report.microscaled<f8e4m3, kiln::f8e4m3>("e4m3");
  report.microscaled<f8e5m2, kiln::f8e5m2>("e5m2");
}
