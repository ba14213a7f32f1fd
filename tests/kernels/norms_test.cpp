// Kernels of kernels/norms.h.
#include "check.h"

namespace kiln::test {
namespace {

constexpr float kEps = 1e-5f;

struct Rows {
  size_t rows, cols, block;
  double mean = 0;
};

struct Moments {
  double mean = 0, scale = 0, root = 0;  // 1/sqrt(variance + eps), 1/sqrt(mean of squares + eps)
};
Moments moments(const double* x, size_t cols) {
  Moments out;
  double variance = 0, squares = 0;
  const auto count = static_cast<double>(cols);
  for (size_t i = 0; i < cols; ++i) out.mean += x[i] / count;
  for (size_t i = 0; i < cols; ++i) {
    variance += (x[i] - out.mean) * (x[i] - out.mean) / count;
    squares += x[i] * x[i] / count;
  }
  out.scale = 1 / std::sqrt(variance + kEps);
  out.root = 1 / std::sqrt(squares + kEps);
  return out;
}

// Of each row, element by element: f(moments, column, element).
template <class F>
std::vector<double> by_row(const std::vector<double>& x, size_t cols, F f) {
  std::vector<double> out(x.size());
  for (size_t r = 0; r < x.size() / cols; ++r) {
    const Moments m = moments(&x[r * cols], cols);
    for (size_t c = 0; c < cols; ++c) out[r * cols + c] = f(m, c, x[r * cols + c]);
  }
  return out;
}

template <class T, class Run>
void check_norms(const Rows& shape, Run run) {
  const auto [rows, cols, block, mean] = shape;
  const size_t count = rows * cols;
  const auto x = normals_of<T>(count, 1, 1, mean), residual = normals_of<T>(count, 2);
  const auto weight = normals_of<T>(cols, 3), bias = normals_of<T>(cols, 4);
  const auto in = reals(x), w = reals(weight), b = reals(bias);
  auto total = reals(residual);
  for (size_t i = 0; i < count; ++i) total[i] += in[i];
  auto layer = [&](const Moments& m, size_t c, double v) { return (v - m.mean) * m.scale * w[c] + b[c]; };
  auto rms = [&](const Moments& m, size_t c, double v) { return v * m.root * w[c]; };
  const TestArgument height = int_of(static_cast<int64_t>(rows)), width = int_of(static_cast<int64_t>(cols));
  const TestArgument out_buffer = empty<Memory<T>>(count), eps = float_of(kEps);
  const dsl::ConstexprValues config = {{"BLOCK", static_cast<int64_t>(block)}};
  run(kernels::layer_norm<T>().ir(), config,
      Arguments{buffer(x), buffer(weight), buffer(bias), out_buffer, height, width, width, eps},
      [&](const Arguments& out) { expect_close<T>(out[3], by_row(in, cols, layer)); });
  run(kernels::rms_norm<T>().ir(), config, Arguments{buffer(x), buffer(weight), out_buffer, height, width, width, eps},
      [&](const Arguments& out) { expect_close<T>(out[2], by_row(in, cols, rms)); });
  run(kernels::layer_norm_long<T>().ir(), {{"BLOCK", static_cast<int64_t>(std::max<size_t>(block / 4, 16))}},
      Arguments{buffer(x), buffer(weight), buffer(bias), out_buffer, height, width, width, eps},
      [&](const Arguments& out) { expect_close<T>(out[3], by_row(in, cols, layer)); });
  if (cols <= 1024) {
    const dsl::ConstexprValues two_rows = {{"ROWS", 2}, {"BLOCK", config.at("BLOCK")}};
    run(kernels::layer_norm_narrow<T>().ir(), two_rows,
        Arguments{buffer(x), buffer(weight), buffer(bias), out_buffer, height, width, width, eps},
        [&](const Arguments& out) { expect_close<T>(out[3], by_row(in, cols, layer)); });
    run(kernels::rms_norm_narrow<T>().ir(), two_rows,
        Arguments{buffer(x), buffer(weight), out_buffer, height, width, width, eps},
        [&](const Arguments& out) { expect_close<T>(out[2], by_row(in, cols, rms)); });
  }
  if (mean != 0) return;  // the sums below are rounded
  run(kernels::residual_rms_norm<T>().ir(), config,
      Arguments{buffer(x), buffer(residual), buffer(weight), out_buffer, out_buffer, height, width, eps},
      [&](const Arguments& out) {
        expect_close<T>(out[3], total);
        expect_close<T>(out[4], by_row(total, cols, rms));
      });
  run(kernels::residual_layer_norm<T>().ir(), config,
      Arguments{buffer(x), buffer(residual), buffer(weight), buffer(bias), out_buffer, height, width, eps},
      [&](const Arguments& out) { expect_close<T>(out[4], by_row(total, cols, layer)); });
}

TEST(NormKernels, Forward) {
  for_floats([]<class T>() {
    for (const Rows& shape : {Rows{5, 13, 16}, {3, 100, 128}, {2, 64, 64}, {4, 21, 32, 10}}) {
      check_norms<T>(shape, check_both);
    }
  });
}

// Where the mean itself, rounded, is wrong by more than the tolerance.
TEST(NormKernels, RowsFarFromZero) {
  check_norms<lang::f32>({3, 100, 128, 1e4}, check_both);
  check_norms<lang::f32>({3, 1000, 1024, -1e5}, check_both);
}

TEST(NormKernels, RealShapes) {
  check_norms<lang::f32>({16, 768, 768}, check_compiled);
  check_norms<lang::f32>({16, 4096, 4096}, check_compiled);
  check_norms<lang::bf16>({4, 8192, 8192}, check_compiled);
  check_norms<lang::f32>({16, 4096, 4096, 1e4}, check_compiled);
  if (!full()) return;
  for (const Rows& shape : {Rows{4096, 768, 768}, {4096, 4096, 4096}, {2048, 5120, 8192}, {1024, 8192, 8192}}) {
    check_norms<lang::f32>(shape, check_compiled);
  }
}

template <class T, class Run>
void check_backward(const Rows& shape, size_t group, Run run) {
  const auto [rows, cols, block, mean] = shape;
  const size_t count = rows * cols, groups = (rows + group - 1) / group;
  const auto x = normals_of<T>(count, 1, 1, mean), dy = normals_of<T>(count, 2), weight = normals_of<T>(cols, 3);
  const auto in = reals(x), slope = reals(dy), w = reals(weight);
  std::vector<double> dx(count), dweight(cols), dbias(cols), weight_size(cols), bias_size(cols);
  for (size_t r = 0; r < rows; ++r) {
    const Moments m = moments(&in[r * cols], cols);
    double sum = 0, along = 0;
    auto normal = [&](size_t c) { return (in[r * cols + c] - m.mean) * m.scale; };
    for (size_t c = 0; c < cols; ++c) {
      const double inner = slope[r * cols + c] * w[c];
      sum += inner / static_cast<double>(cols);
      along += inner * normal(c) / static_cast<double>(cols);
      dweight[c] += slope[r * cols + c] * normal(c);
      dbias[c] += slope[r * cols + c];
      weight_size[c] += std::fabs(slope[r * cols + c] * normal(c));
      bias_size[c] += std::fabs(slope[r * cols + c]);
    }
    for (size_t c = 0; c < cols; ++c) {
      dx[r * cols + c] = m.scale * (slope[r * cols + c] * w[c] - sum - normal(c) * along);
    }
  }
  const TestArgument width = int_of(static_cast<int64_t>(cols));
  Arguments partial;
  run(kernels::layer_norm_backward<T>().ir(),
      dsl::ConstexprValues{{"BLOCK", static_cast<int64_t>(block)}, {"ROWS", static_cast<int64_t>(group)}},
      Arguments{buffer(x), buffer(weight), buffer(dy), empty<Memory<T>>(count), empty<float>(groups * cols),
                empty<float>(groups * cols), int_of(static_cast<int64_t>(rows)), width, float_of(kEps)},
      [&](const Arguments& out) {
        expect_close<T>(out[3], dx);
        partial = {out[4], out[5]};
      });
  ASSERT_EQ(partial.size(), 2u);
  auto finish = [&](const TestArgument& sums, const std::vector<double>& expected, const std::vector<double>& size) {
    run(kernels::column_sum().ir(), dsl::ConstexprValues{{"BLOCK", 64}},
        Arguments{sums, empty<float>(cols), int_of(static_cast<int64_t>(groups)), width},
        [&](const Arguments& out) { expect_close<lang::f32>(out[1], expected, size); });
  };
  finish(partial[0], dweight, weight_size);
  finish(partial[1], dbias, bias_size);
}

TEST(NormKernels, LayerNormBackward) {
  for_floats([]<class T>() {
    for (const Rows& shape : {Rows{7, 13, 16}, {3, 100, 128}, {8, 64, 64}, {4, 21, 32, 10}}) {
      check_backward<T>(shape, 3, check_both);
    }
  });
}

TEST(NormKernels, LayerNormBackwardOnRealShapes) {
  check_backward<lang::f32>({70, 768, 768}, 64, check_compiled);
  check_backward<lang::f32>({33, 4096, 4096}, 16, check_compiled);
  if (!full()) return;
  check_backward<lang::f32>({4096, 1024, 1024}, 64, check_compiled);
  check_backward<lang::bf16>({2048, 4096, 4096}, 64, check_compiled);
}

}  // namespace
}  // namespace kiln::test
