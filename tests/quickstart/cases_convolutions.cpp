// Convolutions of ResNet-50 and others, channels last.
#include <omp.h>

#include "case_makers.h"

namespace kiln::quickstart {
namespace {

struct Conv {
  int32_t n, size, c, k, filter, stride, pad;
  int64_t block_m = 128, block_n = 64, block_k = 192;
  int32_t groups = 1;
  int32_t out() const { return (size + 2 * pad - filter) / stride + 1; }
  int32_t group_depth() const { return c / groups; }
  size_t depth() const { return static_cast<size_t>(filter * filter * group_depth()); }  // numbers of a filter
  size_t inputs() const { return static_cast<size_t>(n * size * size) * static_cast<size_t>(c); }
  size_t outputs() const { return static_cast<size_t>(n * out() * out()) * static_cast<size_t>(k); }
  double flops() const { return 2.0 * static_cast<double>(outputs()) * static_cast<double>(depth()); }
  // Images × size × channels → channels, filter/stride, groups.
  std::string text() const {
    const std::string in = groups > 1 ? " " + std::to_string(groups) : "";
    return shape_text({n, size, c, k}) + " " + std::to_string(filter) + "/" + std::to_string(stride) + in;
  }
  // As stated, but smaller where these would leave threads without work.
  dsl::ConstexprValues config() const {
    const int64_t pixels = int64_t{n} * out() * out(), enough = 4 * int64_t{omp_get_max_threads()};
    auto programs = [&](int64_t bm, int64_t bn) {
      return (pixels + bm - 1) / bm * ((k / groups + bn - 1) / bn) * groups;
    };
    int64_t bm = block_m, bn = block_n;
    while (bm > 64 && programs(bm, bn) < enough) bm /= 2;
    if (bn > 64 && programs(bm, bn) < enough) bn /= 2;
    return {{"BM", bm}, {"BN", bn}, {"BK", block_k}};
  }
};

// Number c of filter k, at its line r and column s.
using WeightAt = std::function<double(int64_t k, int64_t r, int64_t s, int64_t c)>;

template <class M>
double one_output(const Conv& v, const M* x, const WeightAt& weight, size_t at) {
  const auto k = static_cast<int64_t>(at) % v.k, pixel = static_cast<int64_t>(at) / v.k;
  const int64_t q = pixel % v.out(), p = pixel / v.out() % v.out(), image = pixel / v.out() / v.out();
  const int64_t first = k / (v.k / v.groups) * v.group_depth();
  double total = 0;
  for (int64_t r = 0; r < v.filter; ++r) {
    for (int64_t s = 0; s < v.filter; ++s) {
      const int64_t i = p * v.stride - v.pad + r, j = q * v.stride - v.pad + s;
      if (i < 0 || i >= v.size || j < 0 || j >= v.size) continue;
      const M* from = x + ((image * v.size + i) * v.size + j) * v.c + first;
      for (int64_t c = 0; c < v.group_depth(); ++c) total += real(from[c]) * weight(k, r, s, c);
    }
  }
  return total;
}

// What becomes of the sum that stands for element `at` of y.
using Finish = std::function<double(double sum, size_t at)>;

template <class M>
std::function<Check()> compare_outputs(
    const Conv& v, Buffer<M> x, Buffer<M> y, WeightAt weight, Finish finish = [](double sum, size_t) { return sum; }) {
  const double bound = std::is_same_v<M, float> ? dot_bound(v.depth()) : 1e-2;
  return [=] {
    return compare_norm(y.get(), 2000, bound, [&](size_t sample) {
      const size_t at = place(sample, 1, v.outputs());
      return Expected{at, finish(one_output(v, x.get(), weight, at), at)};
    });
  };
}

// Of filters [K, R, S, C/groups].
template <class M>
WeightAt filters_in_order(const Conv& v, Buffer<M> w) {
  return [=](int64_t k, int64_t r, int64_t s, int64_t c) {
    return real(w[static_cast<size_t>(((k * v.filter + r) * v.filter + s) * v.group_depth() + c)]);
  };
}

template <class T = lang::f32>
Case conv2d(Conv v) {
  using M = typename dsl::LaunchType<T>::type;
  const char* type = std::is_same_v<M, float> ? "" : " bf16";
  return make_case(kernels::conv2d<T>(), v.text() + type, v.config(), computes(v.flops()), [=] {
    auto x = elements<M>(v.inputs(), 1), w = elements<M>(static_cast<size_t>(v.k) * v.depth(), 2),
         y = allocate<M>(v.outputs());
    return launch(compare_outputs(v, x, y, filters_in_order(v, w)), x, w, y, v.n, v.size, v.size, v.c, v.k, v.filter,
                  v.filter, v.stride, v.pad);
  });
}

Case conv2d_bias_relu(Conv v) {
  return make_case(kernels::conv2d_bias_relu(), v.text(), v.config(), computes(v.flops()), [=] {
    const auto channels = static_cast<size_t>(v.k);
    auto x = normals(v.inputs(), 1), w = normals(channels * v.depth(), 2), bias = normals(channels, 3),
         y = allocate<float>(v.outputs());
    const auto finish = [=](double sum, size_t at) { return std::max(sum + bias[at % channels], 0.0); };
    return launch(compare_outputs(v, x, y, filters_in_order(v, w), finish), x, w, bias, y, v.n, v.size, v.size, v.c,
                  v.k, v.filter, v.filter, v.stride, v.pad);
  });
}

Case conv2d_bias_residual_relu(Conv v) {
  return make_case(kernels::conv2d_bias_residual_relu(), v.text(), v.config(), computes(v.flops()), [=] {
    const auto channels = static_cast<size_t>(v.k);
    auto x = normals(v.inputs(), 1), w = normals(channels * v.depth(), 2), bias = normals(channels, 3),
         residual = normals(v.outputs(), 4), y = allocate<float>(v.outputs());
    const auto finish = [=](double sum, size_t at) { return std::max(sum + bias[at % channels] + residual[at], 0.0); };
    return launch(compare_outputs(v, x, y, filters_in_order(v, w), finish), x, w, bias, residual, y, v.n, v.size,
                  v.size, v.c, v.k, v.filter, v.filter, v.stride, v.pad);
  });
}

// The same with filters packed ahead, for programs that launch it again and again.
Case conv2d_packed(Conv v) {
  v.block_n = panel_width();
  return make_case(kernels::conv2d_packed(), v.text(), v.config(), computes(v.flops()), [=] {
    const auto width = static_cast<size_t>(v.block_n), filters = static_cast<size_t>(v.k), depth = v.depth();
    auto x = normals(v.inputs(), 1), w = normals(filters * depth, 2), y = allocate<float>(v.outputs());
    auto panels = zeros<float>((filters + width - 1) / width * width * depth);
    for (size_t k = 0; k < filters; ++k) {
      for (size_t i = 0; i < depth; ++i) panels[(k / width * depth + i) * width + k % width] = w[k * depth + i];
    }
    return launch(compare_outputs(v, x, y, filters_in_order(v, w)), x, panels, y, v.n, v.size, v.size, v.c, v.k,
                  v.filter, v.filter, v.stride, v.pad);
  });
}

Case conv2d_grouped(Conv v) {
  return make_case(kernels::conv2d_grouped(), v.text(), v.config(), computes(v.flops()), [=] {
    auto x = normals(v.inputs(), 1), w = normals(static_cast<size_t>(v.k) * v.depth(), 2),
         y = allocate<float>(v.outputs());
    return launch(compare_outputs(v, x, y, filters_in_order(v, w)), x, w, y, v.n, v.size, v.size, v.c, v.k, v.filter,
                  v.filter, v.stride, v.pad, v.groups);
  });
}

// Of filters [3, 3, C/groups, K].
template <class Kernel>
Case conv2d_by_channel(const Kernel& kernel, const Conv& v) {
  return make_case(kernel, v.text(), {}, computes(v.flops()), [=] {
    auto x = normals(v.inputs(), 1), w = normals(v.depth() * static_cast<size_t>(v.k), 2),
         y = allocate<float>(v.outputs());
    const WeightAt weight = [=](int64_t k, int64_t r, int64_t s, int64_t c) -> double {
      return w[static_cast<size_t>(((r * 3 + s) * v.group_depth() + c) * v.k + k)];
    };
    return launch(compare_outputs(v, x, y, weight), x, w, y, v.n, v.size, v.size, v.c, v.stride, v.pad);
  });
}

Case conv2d_depthwise(int32_t n, int32_t size, int32_t channels, int32_t stride) {
  return conv2d_by_channel(kernels::conv2d_depthwise(), {n, size, channels, channels, 3, stride, 1, 0, 0, 0, channels});
}

Case conv2d_narrow(int32_t n, int32_t size, int32_t channels, int32_t stride) {
  return conv2d_by_channel(kernels::conv2d_narrow(),
                           {n, size, channels, channels, 3, stride, 1, 0, 0, 0, channels / 4});
}

}  // namespace

std::vector<Case> convolution_cases(Size size) {
  if (size == Size::kSmall) {
    return {conv2d({2, 14, 32, 48, 3, 1, 1}),
            conv2d({1, 20, 3, 16, 7, 2, 3, 64, 32, 24}),
            conv2d<lang::bf16>({2, 14, 32, 48, 3, 1, 1}),
            conv2d_bias_relu({2, 14, 32, 48, 3, 1, 1}),
            conv2d_bias_residual_relu({2, 14, 32, 48, 3, 1, 1}),
            conv2d_packed({2, 14, 32, 72, 3, 1, 1}),
            conv2d_grouped({2, 14, 32, 48, 3, 1, 1, 64, 32, 16, 2}),
            conv2d_narrow(2, 14, 40, 2),
            conv2d_depthwise(2, 14, 40, 2)};
  }
  if (size == Size::kInCache)
    return {conv2d({1, 14, 64, 64, 3, 1, 1, 64, 64, 64}), conv2d({1, 28, 128, 64, 1, 1, 0, 128, 64, 128})};
  std::vector<Case> out;
  for (const Conv& v : {Conv{8, 224, 3, 64, 7, 2, 3, 128, 64, 24},
                        {8, 56, 64, 64, 1, 1, 0, 128, 64, 64},
                        {8, 56, 64, 64, 3, 1, 1, 128, 64, 64},
                        {8, 56, 64, 256, 1, 1, 0, 128, 128, 64},
                        {8, 56, 128, 128, 3, 2, 1, 128, 128, 384},
                        {8, 28, 128, 128, 3, 1, 1, 128, 128, 128},
                        {8, 28, 512, 128, 1, 1, 0, 128, 128, 256},
                        {8, 28, 512, 1024, 1, 2, 0, 128, 128, 256},
                        {8, 14, 256, 256, 3, 1, 1, 256, 128, 256},
                        {8, 7, 512, 512, 3, 1, 1, 196, 128, 256}}) {
    out.push_back(conv2d(v));
  }
  // The layers of a residual block.
  out.push_back(conv2d_bias_relu({8, 56, 64, 64, 3, 1, 1, 128, 64, 64}));
  out.push_back(conv2d_bias_residual_relu({8, 56, 64, 256, 1, 1, 0, 128, 128, 64}));
  out.push_back(conv2d_bias_residual_relu({8, 14, 256, 1024, 1, 1, 0, 256, 128, 256}));
  for (const Conv& v : {Conv{8, 56, 64, 64, 3, 1, 1},
                        {8, 28, 512, 128, 1, 1, 0, 128, 128, 256},
                        {8, 14, 256, 256, 3, 1, 1, 256, 128, 384}}) {
    out.push_back(conv2d<lang::bf16>(v));
  }
  for (const Conv& v : {Conv{8, 56, 64, 64, 3, 1, 1, 256, 64, 192},
                        {8, 28, 128, 128, 3, 1, 1, 256, 64, 128},
                        {8, 28, 512, 128, 1, 1, 0, 256, 64, 256},
                        {8, 14, 256, 256, 3, 1, 1, 256, 64, 128},
                        {8, 7, 512, 512, 3, 1, 1, 196, 64, 128}}) {
    out.push_back(conv2d_packed(v));
  }
  // Of ResNeXt-50, and of MobileNetV2.
  out.push_back(conv2d_grouped({8, 56, 128, 128, 3, 1, 1, 128, 16, 16, 32}));
  out.push_back(conv2d_narrow(8, 56, 128, 1));
  out.push_back(conv2d_grouped({8, 14, 512, 512, 3, 1, 1, 512, 16, 16, 32}));
  out.push_back(conv2d_depthwise(8, 112, 32, 1));
  out.push_back(conv2d_depthwise(8, 56, 144, 1));
  out.push_back(conv2d_depthwise(8, 28, 192, 2));
  out.push_back(conv2d_depthwise(8, 14, 576, 1));
  return out;
}

}  // namespace kiln::quickstart
