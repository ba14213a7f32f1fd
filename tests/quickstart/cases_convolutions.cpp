// Convolutions of ResNet-50, channels last.
#include "case_makers.h"

namespace kiln::quickstart {
namespace {

struct Conv {
  int32_t n, size, c, k, filter, stride, pad;
  int64_t block_m = 128, block_n = 64, block_k = 192;
  int32_t out() const { return (size + 2 * pad - filter) / stride + 1; }
};

double one_output(const Conv& v, const float* x, const float* w, size_t at) {
  const auto k = static_cast<int64_t>(at) % v.k, pixel = static_cast<int64_t>(at) / v.k;
  const int64_t q = pixel % v.out(), p = pixel / v.out() % v.out(), image = pixel / v.out() / v.out();
  double total = 0;
  for (int64_t r = 0; r < v.filter; ++r) {
    for (int64_t s = 0; s < v.filter; ++s) {
      const int64_t i = p * v.stride - v.pad + r, j = q * v.stride - v.pad + s;
      if (i < 0 || i >= v.size || j < 0 || j >= v.size) continue;
      const float* from = x + ((image * v.size + i) * v.size + j) * v.c;
      const float* by = w + ((k * v.filter + r) * v.filter + s) * v.c;
      for (int64_t c = 0; c < v.c; ++c) total += double{from[c]} * by[c];
    }
  }
  return total;
}

Case conv2d(Conv v) {
  const auto count = static_cast<size_t>(v.n * v.out() * v.out()) * static_cast<size_t>(v.k);
  const auto depth = static_cast<size_t>(v.filter * v.filter * v.c);
  const dsl::ConstexprValues config = {{"BM", v.block_m}, {"BN", v.block_n}, {"BK", v.block_k}};
  // Images × size × channels → channels, filter/stride.
  const std::string text =
      shape_text({v.n, v.size, v.c, v.k}) + " " + std::to_string(v.filter) + "/" + std::to_string(v.stride);
  const double flops = 2.0 * static_cast<double>(count) * static_cast<double>(depth);
  return make_case(kernels::conv2d(), text, config, computes(flops), [=] {
    auto x = normals(static_cast<size_t>(v.n * v.size * v.size) * static_cast<size_t>(v.c), 1);
    auto w = normals(static_cast<size_t>(v.k) * depth, 2), y = allocate<float>(count);
    auto check = [=] {
      return compare_norm(y.get(), 2000, dot_bound(depth), [&](size_t sample) {
        const size_t at = place(sample, 1, count);
        return Expected{at, one_output(v, x.get(), w.get(), at)};
      });
    };
    return launch(check, x, w, y, v.n, v.size, v.size, v.c, v.k, v.filter, v.filter, v.stride, v.pad);
  });
}

}  // namespace

std::vector<Case> convolution_cases(Size size) {
  if (size == Size::kSmall) return {conv2d({2, 14, 32, 48, 3, 1, 1}), conv2d({1, 20, 3, 16, 7, 2, 3, 64, 32, 24})};
  if (size == Size::kInCache)
    return {conv2d({1, 14, 64, 64, 3, 1, 1}), conv2d({1, 28, 128, 64, 1, 1, 0, 128, 64, 128})};
  return {conv2d({8, 224, 3, 64, 7, 2, 3, 128, 64, 24}),
          conv2d({8, 56, 64, 64, 1, 1, 0, 128, 64, 64}),
          conv2d({8, 56, 64, 64, 3, 1, 1}),
          conv2d({8, 56, 64, 256, 1, 1, 0, 128, 128, 64}),
          conv2d({8, 56, 128, 128, 3, 2, 1, 128, 128, 384}),
          conv2d({8, 28, 128, 128, 3, 1, 1, 128, 128, 384}),
          conv2d({8, 28, 512, 128, 1, 1, 0, 128, 128, 256}),
          conv2d({8, 28, 512, 1024, 1, 2, 0, 128, 128, 256}),
          conv2d({8, 14, 256, 256, 3, 1, 1, 256, 128, 384}),
          conv2d({8, 7, 512, 512, 3, 1, 1, 128, 128, 512})};
}

}  // namespace kiln::quickstart
