// The library's functions against the C++ library's, on the interpreter.
#include <cmath>
#include <functional>

#include "builder_helpers.h"

namespace kiln::dsl {
namespace {

using namespace kiln::lang;

constexpr int kCount = 33;

std::vector<float> inputs() {
  std::vector<float> x;
  for (int i = 0; i < kCount; ++i) x.push_back(static_cast<float>(i - 16) * 0.4f);
  return x;
}

// Applies a function to f32 lanes.
template <class Fn>
std::vector<float> apply(Fn fn) {
  Kernel k = traced(kernel("k", {"x", "y"}, [&](Ptr<const lang::f32> x, Ptr<lang::f32> y) {
    const lang::Value lane = arange(0, kCount);
    store(y + lane, fn(load(x + lane)));
  }));
  const std::vector<float> x = inputs();
  std::vector<float> y(kCount);
  run(k, {}, {buffer(x), buffer(y)});
  return y;
}

void expect_close(const std::vector<float>& out, const std::function<double(double)>& reference) {
  const std::vector<float> x = inputs();
  for (int i = 0; i < kCount; ++i) {
    const double expected = reference(x[i]);
    EXPECT_NEAR(out[i], expected, 1e-6 + 1.3e-6 * std::abs(expected)) << "x = " << x[i];
  }
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

TEST(LibraryFunctions, Activations) {
  expect_close(apply([](lang::Value v) { return sigmoid(v); }), sigmoid_of);
  expect_close(apply([](lang::Value v) { return silu(v); }), [](double x) { return x * sigmoid_of(x); });
  expect_close(apply([](lang::Value v) { return relu(v); }), [](double x) { return std::max(x, 0.0); });
  expect_close(apply([](lang::Value v) { return gelu_erf(v); }),
               [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); });
  expect_close(apply([](lang::Value v) { return gelu_tanh(v); }),
               [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); });
  expect_close(apply([](lang::Value v) { return clamp(v, -1, 2.5f); }),
               [](double x) { return std::min(std::max(x, -1.0), 2.5); });
}

TEST(LibraryFunctions, SoftmaxOfEitherAxis) {
  for (int axis : {0, 1}) {
    Kernel k = traced(kernel("k", {"x", "y"}, [&](Ptr<const lang::f32> x, Ptr<lang::f32> y) {
      const Tile in = tile(x, {3, 11}), out = tile(y, {3, 11});
      out.store({0, 0}, softmax(in.load({0, 0}, {3, 11}), axis));
    }));
    const std::vector<float> x = inputs();
    std::vector<float> y(kCount);
    run(k, {}, {buffer(x), buffer(y)});
    for (int row = 0; row < 3; ++row) {
      for (int col = 0; col < 11; ++col) {
        double total = 0;
        for (int i = 0; i < (axis == 0 ? 3 : 11); ++i) total += std::exp(x[axis == 0 ? i * 11 + col : row * 11 + i]);
        EXPECT_NEAR(y[row * 11 + col], std::exp(x[row * 11 + col]) / total, 1e-6);
      }
    }
  }
}

TEST(LibraryFunctions, GroupedOrderVisitsEveryTileOnce) {
  Kernel k = traced(kernel("k", {"m", "n", "seen"}, [](i32 m, i32 n, Ptr<i32> seen) {
    grid(m * n);
    auto [pm, pn] = grouped_order(program_id(0), m, n, 4);
    store(seen + pm * n + pn, program_id(0) + 1);
  }));
  for (auto [m, n] : {std::pair{10, 3}, {1, 5}, {4, 4}, {7, 1}}) {
    std::vector<int32_t> seen(static_cast<size_t>(m * n));
    run(k, {}, {number(int64_t{m}), number(int64_t{n}), buffer(seen)});
    std::sort(seen.begin(), seen.end());
    for (int i = 0; i < m * n; ++i) EXPECT_EQ(seen[i], i + 1);
  }
}

TEST(LibraryFunctions, CeilingDivision) {
  static_assert(cdiv(10, 3) == 4 && cdiv(9, 3) == 3);
  Kernel k = traced(kernel("k", {"n", "out"}, [](i32 n, Ptr<i32> out) { store(out, cdiv(n, 4)); }));
  for (int n : {0, 1, 4, 5, 8}) {
    std::vector<int32_t> out(1);
    run(k, {}, {number(int64_t{n}), buffer(out)});
    EXPECT_EQ(out[0], (n + 3) / 4);
  }
}

// A block that hangs over every edge: what lies outside reads as `other` and is not written.
TEST(LibraryTiles, RankThreeWithTails) {
  Kernel k = traced(kernel("k", {"x", "y", "a", "b", "c"}, [](Ptr<const i32> x, Ptr<i32> y, i32 a, i32 b, i32 c) {
    const lang::Value block = tile(x, {a, b, c}).load({1, 1, 1}, {4, 4, 8}, {.other = 100});
    tile(y, {a, b, c}).store({1, 1, 1}, block + 1);
    store(y, sum(sum(sum(cast(block == 100, i32_t), 2), 1), 0));
  }));
  const int a = 3, b = 4, c = 5;
  std::vector<int32_t> x(a * b * c), y(a * b * c, -1);
  for (int i = 0; i < a * b * c; ++i) x[i] = i;
  run(k, {}, {buffer(x), buffer(y), number(int64_t{a}), number(int64_t{b}), number(int64_t{c})});
  EXPECT_EQ(y[0], 4 * 4 * 8 - 2 * 3 * 4);
  for (int i = 1; i < a * b * c; ++i) {
    const bool inside = i / (b * c) >= 1 && i / c % b >= 1 && i % c >= 1;
    EXPECT_EQ(y[i], inside ? i + 1 : -1) << i;
  }
}

// Strides: a transposed view of a matrix, and a row that is not contiguous.
TEST(LibraryTiles, Strides) {
  Kernel k = traced(kernel("k", {"x", "y", "rows", "cols"}, [](Ptr<const i32> x, Ptr<i32> y, i32 rows, i32 cols) {
    tile(y, {cols, rows}).store({0, 0}, tile(x, {cols, rows}, {1, cols}).load({0, 0}, {4, 4}));
  }));
  std::vector<int32_t> x = {0, 1, 2, 3, 4, 5}, y(6);
  run(k, {}, {buffer(x), buffer(y), number(int64_t{2}), number(int64_t{3})});
  EXPECT_EQ(y, (std::vector<int32_t>{0, 3, 1, 4, 2, 5}));
}

}  // namespace
}  // namespace kiln::dsl
