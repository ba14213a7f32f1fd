// Convolutions against the sums they stand for.
#include "check.h"
#include "cuda_device.h"
#include "sampled.h"

namespace kiln::test {
namespace {

struct Conv {
  int64_t n, h, w, c, k, r, s, stride, pad, groups = 1;
  int64_t depth() const { return c / groups; }
  int64_t p() const { return (h + 2 * pad - r) / stride + 1; }
  int64_t q() const { return (w + 2 * pad - s) / stride + 1; }
};

std::vector<double> convolve(const Conv& v, const std::vector<double>& x, const std::vector<double>& w) {
  std::vector<double> out;
  for (int64_t pixel = 0; pixel < v.n * v.p() * v.q(); ++pixel) {
    const int64_t image = pixel / (v.p() * v.q()), p = pixel / v.q() % v.p(), q = pixel % v.q();
    for (int64_t k = 0; k < v.k; ++k) {
      double total = 0;
      for (int64_t r = 0; r < v.r; ++r) {
        for (int64_t s = 0; s < v.s; ++s) {
          const int64_t i = p * v.stride - v.pad + r, j = q * v.stride - v.pad + s;
          if (i < 0 || i >= v.h || j < 0 || j >= v.w) continue;
          const int64_t group = k / (v.k / v.groups);
          const double* from = &x[static_cast<size_t>(((image * v.h + i) * v.w + j) * v.c + group * v.depth())];
          const double* by = &w[static_cast<size_t>(((k * v.r + r) * v.s + s) * v.depth())];
          for (int64_t c = 0; c < v.depth(); ++c) total += from[c] * by[c];
        }
      }
      out.push_back(total);
    }
  }
  return out;
}

std::string text_of(const Conv& v) {
  return std::to_string(v.h) + "x" + std::to_string(v.w) + "x" + std::to_string(v.c) + " by " + std::to_string(v.k) +
         "x" + std::to_string(v.r) + "x" + std::to_string(v.s) + "/" + std::to_string(v.stride) + " in " +
         std::to_string(v.groups);
}

template <class T, class Run>
void check_conv(const Conv& v, const dsl::ConstexprValues& config, Run run) {
  SCOPED_TRACE(text_of(v));
  const auto x = normals_of<T>(static_cast<size_t>(v.n * v.h * v.w * v.c), 1);
  const auto w = normals_of<T>(static_cast<size_t>(v.k * v.r * v.s * v.depth()), 2);
  const auto expected = convolve(v, reals(x), reals(w));
  Arguments arguments = {buffer(x), buffer(w), empty<Memory<T>>(expected.size())};
  for (int64_t number : {v.n, v.h, v.w, v.c, v.k, v.r, v.s, v.stride, v.pad}) arguments.push_back(int_of(number));
  if (v.groups > 1) arguments.push_back(int_of(v.groups));
  run(v.groups > 1 ? kernels::conv2d_grouped<T>().ir() : kernels::conv2d<T>().ir(), config, arguments,
      [&](const Arguments& out) { expect_product<T>(out[2], expected, static_cast<size_t>(v.r * v.s * v.depth())); });
}

template <class T>
void check_conv_with_more(const Conv& v, const dsl::ConstexprValues& config, bool has_residual) {
  SCOPED_TRACE(text_of(v));
  const auto x = normals_of<T>(static_cast<size_t>(v.n * v.h * v.w * v.c), 1);
  const auto w = normals_of<T>(static_cast<size_t>(v.k * v.r * v.s * v.c), 2);
  const auto bias = normals_of<T>(static_cast<size_t>(v.k), 3);
  std::vector<double> expected = convolve(v, reals(x), reals(w));
  const auto residual = normals_of<T>(expected.size(), 4);
  const auto by_channel = reals(bias), by_pixel = reals(residual);
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = std::max(expected[i] + by_channel[i % by_channel.size()] + (has_residual ? by_pixel[i] : 0), 0.0);
  }
  Arguments arguments = {buffer(x), buffer(w), buffer(bias)};
  if (has_residual) arguments.push_back(buffer(residual));
  const size_t y = arguments.size();
  arguments.push_back(empty<Memory<T>>(expected.size()));
  for (int64_t number : {v.n, v.h, v.w, v.c, v.k, v.r, v.s, v.stride, v.pad}) arguments.push_back(int_of(number));
  check_both(has_residual ? kernels::conv2d_bias_residual_relu<T>().ir() : kernels::conv2d_bias_relu<T>().ir(), config,
             arguments,
             [&](const Arguments& out) { expect_product<T>(out[y], expected, static_cast<size_t>(v.r * v.s * v.c)); });
}

// The filters as columns of a matrix, by the kernel that packs them.
template <class T>
void check_conv_packed(const Conv& v, const dsl::ConstexprValues& config, int64_t width) {
  SCOPED_TRACE(text_of(v));
  const int64_t depth = v.r * v.s * v.c, panels = (v.k + width - 1) / width;
  const auto x = normals_of<T>(static_cast<size_t>(v.n * v.h * v.w * v.c), 1);
  const auto w = normals_of<T>(static_cast<size_t>(v.k * depth), 2);
  TestArgument packed = empty<Memory<T>>(static_cast<size_t>(panels * width * depth));
  check_compiled(kernels::pack_weights<T>().ir(), {{"BN", width}},
                 Arguments{buffer(w), packed, int_of(v.k), int_of(depth), int_of(1), int_of(depth)},
                 [&](const Arguments& out) { packed = out[1]; });
  const auto expected = convolve(v, reals(x), reals(w));
  Arguments arguments = {buffer(x), packed, empty<Memory<T>>(expected.size())};
  for (int64_t number : {v.n, v.h, v.w, v.c, v.k, v.r, v.s, v.stride, v.pad}) arguments.push_back(int_of(number));
  check_both(kernels::conv2d_packed<T>().ir(), config, arguments,
             [&](const Arguments& out) { expect_product<T>(out[2], expected, static_cast<size_t>(depth)); });
}

// Weights [R, S, C/groups, K] from [K, R, S, C/groups].
std::vector<double> filters_first(const Conv& v, const std::vector<double>& last) {
  std::vector<double> out(last.size());
  const auto taps = static_cast<size_t>(v.r * v.s * v.depth()), filters = static_cast<size_t>(v.k);
  for (size_t i = 0; i < last.size(); ++i) out[i % filters * taps + i / filters] = last[i];
  return out;
}

template <class T, int DEPTH, int FILTER, class Run>
void check_narrow(int64_t n, int64_t h, int64_t w, int64_t c, int64_t stride, int64_t pad,
                  const dsl::ConstexprValues& config, Run run) {
  const Conv v{n, h, w, c, c, FILTER, FILTER, stride, pad, c / DEPTH};
  SCOPED_TRACE(text_of(v));
  const auto x = normals_of<T>(static_cast<size_t>(n * h * w * c), 1);
  const auto by = normals_of<T>(static_cast<size_t>(FILTER * FILTER * DEPTH * c), 2);
  const std::vector<double> expected = convolve(v, reals(x), filters_first(v, reals(by)));
  Arguments arguments = {buffer(x), buffer(by), empty<Memory<T>>(expected.size())};
  for (int64_t number : {n, h, w, c, stride, pad}) arguments.push_back(int_of(number));
  run(kernels::conv2d_narrow<T, DEPTH, FILTER>().ir(), config, arguments,
      [&](const Arguments& out) { expect_product<T>(out[2], expected, static_cast<size_t>(FILTER * FILTER * DEPTH)); });
}

template <class T, int FILTER = 3, class Run>
void check_depthwise(int64_t n, int64_t h, int64_t w, int64_t c, int64_t stride, int64_t pad,
                     const dsl::ConstexprValues& config, Run run) {
  const Conv v{n, h, w, c, c, FILTER, FILTER, stride, pad, c};
  SCOPED_TRACE(text_of(v));
  const auto x = normals_of<T>(static_cast<size_t>(n * h * w * c), 1);
  const auto by = normals_of<T>(static_cast<size_t>(FILTER * FILTER * c), 2);
  const std::vector<double> expected = convolve(v, reals(x), filters_first(v, reals(by)));
  Arguments arguments = {buffer(x), buffer(by), empty<Memory<T>>(expected.size())};
  for (int64_t number : {n, h, w, c, stride, pad}) arguments.push_back(int_of(number));
  run(kernels::conv2d_depthwise<T, FILTER>().ir(), config, arguments,
      [&](const Arguments& out) { expect_product<T>(out[2], expected, static_cast<size_t>(FILTER * FILTER)); });
}

TEST(Conv2dKernel, StridesPaddingAndFiltersOfAnyShape) {
  for_floats([]<class T>() {
    for (const Conv& v : {Conv{2, 5, 7, 3, 4, 3, 3, 1, 1},
                          {1, 8, 8, 2, 5, 1, 1, 1, 0},
                          {1, 9, 6, 1, 3, 2, 4, 2, 2},
                          {2, 7, 7, 4, 3, 7, 7, 2, 3},
                          {1, 4, 4, 5, 1, 4, 4, 3, 0}}) {
      check_conv<T>(v, {{"BM", 16}, {"BN", 4}, {"BK", 8}}, check_both);
    }
  });
}

TEST(Conv2dKernel, BiasResidualAndRelu) {
  for_floats([]<class T>() {
    for (const Conv& v : {Conv{2, 5, 7, 3, 4, 3, 3, 1, 1}, {1, 8, 8, 2, 5, 1, 1, 1, 0}, {1, 9, 6, 1, 3, 2, 4, 2, 2}}) {
      check_conv_with_more<T>(v, {{"BM", 16}, {"BN", 4}, {"BK", 8}}, false);
      check_conv_with_more<T>(v, {{"BM", 16}, {"BN", 4}, {"BK", 8}}, true);
    }
  });
  check_conv_with_more<lang::f32>({1, 7, 7, 64, 72, 3, 3, 1, 1}, {{"BM", 49}, {"BN", 64}, {"BK", 64}}, true);
}

TEST(Conv2dKernel, PackedFilters) {
  for_floats([]<class T>() {
    const int64_t channels = kernels::packed_unit_v<T> == 1 ? 3 : 4;
    for (const Conv& v :
         {Conv{2, 5, 7, channels, 4, 3, 3, 1, 1}, {1, 9, 6, 1, 3, 2, 4, 2, 2}, {1, 8, 8, 2, 5, 1, 1, 1, 0}}) {
      check_conv_packed<T>(v, {{"BM", 16}, {"BN", 4}, {"BK", 8}}, 4);
    }
  });
  check_conv_packed<lang::bf16>({2, 7, 7, 64, 72, 3, 3, 1, 1}, {{"BM", 49}, {"BN", 64}, {"BK", 64}}, 64);
  check_conv_packed<lang::f32>({1, 7, 7, 64, 72, 3, 3, 1, 1}, {{"BM", 49}, {"BN", 64}, {"BK", 192}}, 64);
}

TEST(Conv2dKernel, Groups) {
  for_floats([]<class T>() {
    for (const Conv& v :
         {Conv{2, 5, 7, 6, 4, 3, 3, 1, 1, 2}, {1, 6, 4, 12, 15, 2, 1, 2, 0, 3}, {1, 3, 3, 4, 8, 3, 3, 1, 1, 4}}) {
      check_conv<T>(v, {{"BM", 16}, {"BN", 4}, {"BK", 8}}, check_both);
    }
  });
  check_conv<lang::f32>({1, 14, 14, 128, 128, 3, 3, 1, 1, 8}, {{"BM", 64}, {"BN", 16}, {"BK", 16}}, check_compiled);
}

TEST(Conv2dKernel, NarrowGroups) {
  for_floats([]<class T>() {
    if (is_sampled(2)) check_narrow<T, 4, 3>(2, 5, 7, 8, 1, 1, {{"BM", 16}, {"BC", 8}}, check_both);
    if (is_sampled(2)) check_narrow<T, 4, 3>(1, 9, 8, 44, 2, 1, {{"BM", 8}, {"BC", 32}}, check_both);
    if (is_sampled(2)) check_narrow<T, 4, 3>(1, 4, 4, 4, 1, 0, {{"BM", 4}, {"BC", 4}}, check_both);
    if (is_sampled(2)) check_narrow<T, 2, 1>(1, 6, 5, 18, 1, 0, {{"BM", 8}, {"BC", 16}}, check_both);
  });
  check_narrow<lang::f32, 8, 2>(1, 6, 5, 24, 1, 1, {{"BM", 8}, {"BC", 16}}, check_both);
  // Groups that no register begins with, and those wider than a register.
  check_narrow<lang::f32, 3, 2>(1, 6, 5, 27, 1, 1, {{"BM", 8}, {"BC", 24}}, check_both);
  check_narrow<lang::f32, 32, 1>(1, 3, 5, 64, 1, 0, {{"BM", 8}, {"BC", 64}}, check_both);
  check_narrow<lang::f32, 4, 3>(1, 28, 28, 96, 2, 1, {}, check_compiled);
}

TEST(Conv2dKernel, Depthwise) {
  for_floats([]<class T>() {
    if (is_sampled(2)) check_depthwise<T>(2, 5, 7, 6, 1, 1, {{"BM", 16}, {"BC", 8}}, check_both);
    if (is_sampled(2)) check_depthwise<T>(1, 9, 8, 37, 2, 1, {{"BM", 8}, {"BC", 32}}, check_both);
    if (is_sampled(2)) check_depthwise<T>(1, 4, 4, 3, 1, 0, {{"BM", 4}, {"BC", 4}}, check_both);
  });
  check_depthwise<lang::f32, 5>(1, 7, 6, 19, 1, 2, {{"BM", 16}, {"BC", 16}}, check_both);
  check_depthwise<lang::f32>(1, 28, 28, 96, 2, 1, {}, check_compiled);
}

// Of ResNet-50, on one image; all of its convolutions with KILN_KERNELS_FULL. CPUs take deep tiles, GPUs those of the
// kernel's defaults.
TEST(Conv2dKernel, RealShapes) {
  const auto tiles = [](int64_t bm, int64_t bn, int64_t bk) {
    return on_cuda() ? dsl::ConstexprValues() : dsl::ConstexprValues{{"BM", bm}, {"BN", bn}, {"BK", bk}};
  };
  check_conv<lang::f32>({1, 56, 56, 64, 64, 3, 3, 1, 1}, tiles(128, 64, 192), check_compiled);
  check_conv<lang::f32>({1, 7, 7, 512, 512, 3, 3, 1, 1}, tiles(64, 128, 256), check_compiled);
  check_conv<lang::bf16>({1, 14, 14, 256, 64, 1, 1, 1, 0}, tiles(64, 64, 256), check_compiled);
  if (!full()) return;
  const dsl::ConstexprValues config = tiles(128, 64, 192);
  check_conv<lang::f32>({2, 224, 224, 3, 64, 7, 7, 2, 3}, tiles(128, 64, 24), check_compiled);
  for (auto [size, c] : {std::pair<int64_t, int64_t>{56, 64}, {28, 128}, {14, 256}, {7, 512}}) {
    check_conv<lang::f32>({1, size, size, c, c, 3, 3, 1, 1}, config, check_compiled);
    check_conv<lang::f32>({1, size, size, c, 4 * c, 1, 1, 1, 0}, config, check_compiled);
    check_conv<lang::f32>({1, size, size, 4 * c, c, 1, 1, 1, 0}, config, check_compiled);
    if (size == 56) continue;
    check_conv<lang::f32>({1, 2 * size, 2 * size, c, c, 3, 3, 2, 1}, config, check_compiled);
    check_conv<lang::f32>({1, 2 * size, 2 * size, 2 * c, 4 * c, 1, 1, 2, 0}, config, check_compiled);
  }
}

}  // namespace
}  // namespace kiln::test
