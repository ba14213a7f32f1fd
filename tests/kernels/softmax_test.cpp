// Kernels of kernels/softmax.h.
#include "check.h"

namespace kiln::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Rows {
  int64_t rows, cols, block;
  size_t count() const { return static_cast<size_t>(rows * cols); }
};

// The largest element and log Σ e^x of a row.
double logsumexp(const double* x, int64_t cols) {
  double top = -kInfinity, total = 0;
  for (int64_t i = 0; i < cols; ++i) top = std::max(top, x[i]);
  for (int64_t i = 0; i < cols; ++i) total += std::exp(x[i] - top);
  return top + std::log(total);
}

template <class T, class Run>
void check_softmax(const Rows& shape, Run run) {
  const auto x = normals_of<T>(shape.count(), 1, 3);
  const auto in = reals(x);
  std::vector<double> expected(in.size()), logs(in.size());
  for (int64_t r = 0; r < shape.rows; ++r) {
    const double normaliser = logsumexp(&in[static_cast<size_t>(r * shape.cols)], shape.cols);
    for (int64_t i = r * shape.cols; i < (r + 1) * shape.cols; ++i) {
      logs[static_cast<size_t>(i)] = in[static_cast<size_t>(i)] - normaliser;
      expected[static_cast<size_t>(i)] = std::exp(logs[static_cast<size_t>(i)]);
    }
  }
  const Arguments arguments = {buffer(x), empty<Memory<T>>(x.size()), int_of(shape.rows), int_of(shape.cols),
                               int_of(shape.cols)};
  if (shape.cols <= 65536) {
    run(kernels::softmax<T>().ir(), dsl::ConstexprValues{{"BLOCK", std::max(shape.cols, shape.block)}}, arguments,
        [&](const Arguments& out) { expect_close<T>(out[1], expected); });
  }
  if (shape.cols <= 1024) {
    run(kernels::softmax_narrow<T>().ir(),
        dsl::ConstexprValues{{"ROWS", 2}, {"BLOCK", std::max(shape.cols, shape.block)}}, arguments,
        [&](const Arguments& out) { expect_close<T>(out[1], expected); });
  }
  run(kernels::softmax_long<T>().ir(), dsl::ConstexprValues{{"BLOCK", shape.block}}, arguments,
      [&](const Arguments& out) { expect_close<T>(out[1], expected); });
  run(kernels::log_softmax<T>().ir(), dsl::ConstexprValues{{"BLOCK", shape.block}}, arguments,
      [&](const Arguments& out) { expect_close<T>(out[1], logs); });
}

TEST(SoftmaxKernels, SoftmaxAndLogSoftmax) {
  for_floats([]<class T>() {
    for (const Rows& shape : {Rows{5, 13, 16}, {3, 100, 32}, {1, 1, 16}, {2, 64, 32}}) {
      check_softmax<T>(shape, check_both);
    }
  });
}

TEST(SoftmaxKernels, RealShapes) {
  check_softmax<lang::f32>({4, 32000, 4096}, check_compiled);
  check_softmax<lang::f32>({2, 128256, 4096}, check_compiled);
  check_softmax<lang::bf16>({2, 50257, 4096}, check_compiled);
  if (!full()) return;
  for (const Rows& shape : {Rows{4096, 1000, 1024}, {512, 32000, 4096}, {64, 65536, 8192}, {256, 128256, 4096}}) {
    check_softmax<lang::f32>(shape, check_compiled);
  }
}

// A row may begin with more -inf than a block holds.
TEST(SoftmaxKernels, LogSoftmaxOfRowsWithInfinities) {
  const float low = -std::numeric_limits<float>::infinity();
  std::vector<float> x(3 * 40, low);
  x[30] = 2;
  x[40] = 1, x[79] = 3;
  std::vector<double> expected(x.size(), -kInfinity);
  expected[30] = 0;
  const double total = std::log(std::exp(1) + std::exp(3));
  expected[40] = 1 - total, expected[79] = 3 - total;
  std::fill(expected.begin() + 80, expected.end(), std::nan(""));  // nothing but -inf
  check_both(kernels::log_softmax().ir(), {{"BLOCK", 16}},
             {buffer(x), empty<float>(x.size()), int_of(3), int_of(40), int_of(40)},
             [&](const Arguments& out) { expect_close<lang::f32>(out[1], expected); });
}

template <class T, class Run>
void check_cross_entropy(const Rows& shape, Run run) {
  const auto height = static_cast<size_t>(shape.rows), width = static_cast<size_t>(shape.cols);
  const auto logits = normals_of<T>(shape.count(), 1, 3);
  const auto in = reals(logits);
  auto target = ints(height, 0, static_cast<int32_t>(shape.cols), 2);
  target[0] = -100;
  std::vector<double> loss(height), lse(height), slope(in.size());
  const float scale = 0.25f;
  for (size_t r = 0; r < height; ++r) {
    lse[r] = logsumexp(&in[r * width], shape.cols);
    if (target[r] < 0) continue;
    loss[r] = lse[r] - in[r * width + static_cast<size_t>(target[r])];
    for (size_t c = 0; c < width; ++c) {
      slope[r * width + c] = scale * (std::exp(in[r * width + c] - lse[r]) - (static_cast<size_t>(target[r]) == c));
    }
  }
  const std::vector<float> stored(lse.begin(), lse.end());
  run(kernels::cross_entropy<T>().ir(), dsl::ConstexprValues{{"BLOCK", shape.block}},
      Arguments{buffer(logits), buffer(target), empty<float>(height), empty<float>(height), int_of(shape.rows),
                int_of(shape.cols)},
      [&](const Arguments& out) {
        expect_close<lang::f32>(out[2], loss, lse);
        expect_close<lang::f32>(out[3], lse);
      });
  run(kernels::cross_entropy_backward<T>().ir(), dsl::ConstexprValues{{"BLOCK", shape.block}},
      Arguments{buffer(logits), buffer(target), buffer(stored), empty<Memory<T>>(in.size()), int_of(shape.rows),
                int_of(shape.cols), float_of(scale)},
      [&](const Arguments& out) { expect_close<T>(out[3], slope); });
}

TEST(SoftmaxKernels, CrossEntropyAndItsGradient) {
  for_floats([]<class T>() {
    for (const Rows& shape : {Rows{5, 13, 16}, {3, 100, 32}, {2, 1, 16}, {2, 64, 32}}) {
      check_cross_entropy<T>(shape, check_both);
    }
  });
}

TEST(SoftmaxKernels, CrossEntropyOnRealShapes) {
  check_cross_entropy<lang::f32>({4, 32000, 4096}, check_compiled);
  check_cross_entropy<lang::f32>({2, 128256, 4096}, check_compiled);
  check_cross_entropy<lang::bf16>({2, 128256, 4096}, check_compiled);
  if (!full()) return;
  for (const Rows& shape : {Rows{1024, 32000, 4096}, {512, 50257, 4096}, {256, 128256, 4096}}) {
    check_cross_entropy<lang::f32>(shape, check_compiled);
  }
}

TEST(SoftmaxKernels, CrossEntropyMeanIsOverTheTargetsThatCount) {
  const size_t rows = 101;
  const auto loss = normals(rows, 1);
  const auto target = ints(rows, -3, 12, 2);  // of 10 classes: some too low, some too high
  double total = 0, count = 0;
  for (size_t i = 0; i < rows; ++i) {
    if (target[i] < 0 || target[i] >= 10) continue;
    total += loss[i];
    ++count;
  }
  check_both(kernels::cross_entropy_mean().ir(), {{"BLOCK", 32}},
             {buffer(loss), buffer(target), empty<float>(1), int_of(rows), int_of(10)},
             [&](const Arguments& out) { expect_close<lang::f32>(out[2], {total / count}); });
}

}  // namespace
}  // namespace kiln::test
