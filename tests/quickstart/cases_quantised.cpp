// Layers of integers of eight bits, and products with weights of few bits.
#include <algorithm>

#include "case_makers.h"

namespace kiln::quickstart {
namespace {

constexpr size_t kSamples = 2000;

Buffer<uint8_t> bytes(size_t count, uint32_t seed) {
  const auto wide = ints(count, 0, 256, seed);
  Buffer<uint8_t> out = allocate<uint8_t>(count);
  std::copy(wide.get(), wide.get() + count, out.get());
  return out;
}
Buffer<float> magnitudes(size_t count, float scale, uint32_t seed) {
  Buffer<float> out = normals(count, seed);
  for (size_t i = 0; i < count; ++i) out[i] = scale * (0.5F + std::fabs(out[i]));
  return out;
}

// Random places of an array of bytes: half a step from what float64 says.
template <class F>
Check compare_steps(const uint8_t* out, size_t count, F reference) {
  double worst = 0;
  for (size_t sample = 0; sample < kSamples; ++sample) {
    const size_t at = place(sample, 1, count);
    worst = std::max(worst, std::fabs(out[at] - std::clamp(reference(at), 0.0, 255.0)));
  }
  return {worst, worst <= 0.5 + 1e-2};
}

struct Shape {
  int32_t m, n, k;
  std::string text() const { return shape_text({m, n, k}); }
  double flops() const { return 2.0 * m * n * k; }
  size_t rows() const { return static_cast<size_t>(m); }
  size_t cols() const { return static_cast<size_t>(n); }
  size_t depth() const { return static_cast<size_t>(k); }
};

// The sum of products is about as large as these numbers let it be.
template <class Def, class Lay>
Case linear_of(const Def& def, Shape v, const dsl::ConstexprValues& config, Lay lay) {
  return make_case(def, v.text(), config, computes(v.flops()), [=] {
    auto x = bytes(v.rows() * v.depth(), 1), y = allocate<uint8_t>(v.rows() * v.cols());
    auto w = elements<int8_t>(v.cols() * v.depth(), 2);
    auto scale = magnitudes(v.cols(), 1e-4F, 3), offset = normals(v.cols(), 4);
    auto check = [=] {
      return compare_steps(y.get(), v.rows() * v.cols(), [&](size_t at) {
        const size_t row = at / v.cols(), col = at % v.cols();
        int64_t total = 0;
        for (size_t i = 0; i < v.depth(); ++i) total += x[row * v.depth() + i] * w[col * v.depth() + i];
        return std::max(static_cast<double>(total) * scale[col] + offset[col], 0.0) * 20 + 7;
      });
    };
    return launch(check, x, lay(w), scale, offset, y, v.m, v.n, v.k, 20.0F, int32_t{7});
  });
}

Case linear_q8(Shape v) {
  return linear_of(kernels::linear_q8(), v, {{"ACT", 1}, {"BM", std::min(v.m, 128)}, {"BN", std::min(v.n, 256)}},
                   [](const Buffer<int8_t>& w) { return w; });
}

// Panels of 64 columns, units of four bytes along K.
Case linear_q8_packed(Shape v) {
  return linear_of(kernels::linear_q8_packed(), v, {{"ACT", 1}, {"BM", std::min(v.m, 256)}}, [=](const auto& w) {
    const size_t units = (v.depth() + 3) / 4, columns = (v.cols() + 63) / 64 * 64;
    Buffer<int8_t> out = zeros<int8_t>(columns * units * 4);
    for (size_t n = 0; n < v.cols(); ++n) {
      for (size_t k = 0; k < v.depth(); ++k) {
        const size_t unit = (n / 64 * units + k / 4) * 64 + n % 64;
        out[unit * 4 + k % 4] = w[n * v.depth() + k];
      }
    }
    return out;
  });
}

Case conv2d_q8(int32_t images, int32_t side, int32_t channels, int32_t filters) {
  const double flops = 2.0 * images * side * side * channels * filters * 9;
  const dsl::ConstexprValues config = {{"ACT", 1}, {"BM", 64}, {"BN", std::min(filters, 64)}, {"BK", 3 * channels}};
  return make_case(kernels::conv2d_q8(), shape_text({images, side, channels, filters}), config, computes(flops), [=] {
    const auto h = static_cast<size_t>(side), c = static_cast<size_t>(channels), k = static_cast<size_t>(filters);
    const size_t pixels = static_cast<size_t>(images) * h * h;
    auto x = bytes(pixels * c, 1), y = allocate<uint8_t>(pixels * k);
    auto w = elements<int8_t>(k * 9 * c, 2);
    auto scale = magnitudes(k, 1e-4F, 3), offset = normals(k, 4);
    const int32_t zero = 100;
    auto check = [=] {
      return compare_steps(y.get(), pixels * k, [&](size_t at) {
        const size_t pixel = at / k, image = pixel / (h * h), line = pixel / h % h, column = pixel % h;
        int64_t total = 0;
        for (size_t i = 0; i < 9 * c; ++i) {
          const size_t r = line + i / c / 3, s = column + i / c % 3;  // one more than in x
          const bool inside = r >= 1 && r <= h && s >= 1 && s <= h;
          const int32_t v = inside ? x[((image * h + r - 1) * h + s - 1) * c + i % c] : zero;
          total += v * w[at % k * 9 * c + i];
        }
        return std::max(static_cast<double>(total) * scale[at % k] + offset[at % k], 0.0) * 20 + 7;
      });
    };
    return launch(check, x, w, scale, offset, y, images, side, side, channels, filters, 3, 3, 1, 1, zero, 20.0F,
                  int32_t{7});
  });
}

Case quantise_tokens(int32_t rows, int32_t cols) {
  return make_case(kernels::quantise_tokens(), shape_text({rows, cols}), {}, moves(5.0 * rows * cols), [=] {
    const auto height = static_cast<size_t>(rows), width = static_cast<size_t>(cols);
    auto x = normals(height * width, 1), scale = allocate<float>(height);
    auto q = allocate<int8_t>(height * width);
    auto check = [=] {
      double worst = 0;
      for (size_t i = 0; i < height * width; ++i) {
        worst = std::max(worst, std::fabs(q[i] - double{x[i]} / scale[i / width]));
      }
      for (size_t r = 0; r < height; ++r) {
        double top = 0;
        for (size_t c = 0; c < width; ++c) top = std::max(top, std::fabs(double{x[r * width + c]}));
        if (std::fabs(scale[r] * 127 / top - 1) > 1e-6) return Check{1, false};
      }
      return Check{worst, worst <= 0.5 + 1e-3};
    };
    return launch(check, x, q, scale, rows, cols);
  });
}

Case matmul_w4_groups(Shape v) {
  const int32_t ldb = v.k / 2, group = 32;
  const dsl::ConstexprValues config = {{"BM", std::min(v.m, 64)}, {"BN", std::min(v.n, 128)}};
  return make_case(kernels::matmul_w4_groups<lang::bf16>(), v.text() + " bf16", config, computes(v.flops()), [=] {
    auto a = elements<bf16>(v.rows() * v.depth(), 1), scale = elements<bf16>(v.depth() / group * v.cols(), 3);
    auto b = bytes(v.cols() * v.depth() / 2, 2), zeros = bytes(v.depth() / group * v.cols(), 4);
    for (size_t i = 0; i < zeros.size(); ++i) zeros[i] &= 15;
    auto c = allocate<bf16>(v.rows() * v.cols());
    auto check = [=] {
      return compare_norm(c.get(), kSamples, 1e-2, [&](size_t sample) {
        const size_t row = place(sample, 1, v.rows()), col = place(sample, 2, v.cols());
        double total = 0;
        for (size_t i = 0; i < v.depth(); ++i) {
          const size_t of = i / group * v.cols() + col;
          const int code = b[col * v.depth() / 2 + i / 2] >> (i % 2 * 4) & 15;
          total += real(a[row * v.depth() + i]) * (code - zeros[of]) * real(scale[of]);
        }
        return Expected{row * v.cols() + col, total};
      });
    };
    return launch(check, a, b, scale, zeros, c, v.m, v.n, v.k, ldb);
  });
}

}  // namespace

std::vector<Case> quantised_cases(Size size) {
  if (size == Size::kSmall) {
    return {linear_q8({33, 70, 91}), linear_q8_packed({33, 70, 91}), conv2d_q8(1, 9, 12, 20), quantise_tokens(7, 1001),
            matmul_w4_groups({9, 70, 128})};
  }
  if (size == Size::kInCache)
    return {linear_q8({128, 256, 256}), linear_q8_packed({128, 256, 256}), quantise_tokens(64, 1024)};
  return {linear_q8({1024, 1024, 1024}),        linear_q8({4096, 4096, 4096}), linear_q8_packed({1024, 1024, 1024}),
          linear_q8_packed({4096, 4096, 4096}), conv2d_q8(8, 28, 128, 128),    quantise_tokens(4096, 4096),
          matmul_w4_groups({16, 4096, 4096})};
}

}  // namespace kiln::quickstart
