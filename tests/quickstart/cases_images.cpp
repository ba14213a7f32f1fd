// Pools and boxes of images, gated products, scans along sequences.
#include <algorithm>

#include "case_makers.h"

namespace kiln::quickstart {
namespace {

struct Pool {
  int32_t n, size, channels, window, stride, pad;
  int32_t out() const { return (size + 2 * pad - window) / stride + 1; }
  size_t pixels() const { return static_cast<size_t>(n) * size * size * channels; }
  size_t pooled() const { return static_cast<size_t>(n) * out() * out() * channels; }
  std::string text() const { return shape_text({n, size, size, channels, window, stride, pad}); }

  // The greatest of a window and its place.
  std::pair<float, int32_t> of(const float* x, size_t i) const {
    const auto c = static_cast<int32_t>(i % channels), q = static_cast<int32_t>(i / channels % out());
    const auto p = static_cast<int32_t>(i / channels / out() % out());
    const float* image = x + i / channels / out() / out() * size * size * channels;
    std::pair<float, int32_t> best = {-INFINITY, -1};
    for (int32_t h = std::max(p * stride - pad, 0); h < std::min(p * stride - pad + window, size); ++h) {
      for (int32_t w = std::max(q * stride - pad, 0); w < std::min(q * stride - pad + window, size); ++w) {
        const float v = image[static_cast<size_t>(h * size + w) * channels + c];
        if (v > best.first) best = {v, h * size + w};
      }
    }
    return best;
  }
};

Case max_pool2d(Pool s) {
  return make_case(kernels::max_pool2d(), s.text(), {}, moves(4.0 * s.pixels() + 8.0 * s.pooled()), [=] {
    auto x = normals(s.pixels(), 1), y = allocate<float>(s.pooled());
    auto index = allocate<int32_t>(s.pooled());
    auto check = [=] {
      size_t wrong = 0;
#pragma omp parallel for reduction(+ : wrong)
      for (size_t i = 0; i < s.pooled(); ++i) wrong += s.of(x.get(), i) != std::pair{y[i], index[i]};
      return Check{static_cast<double>(wrong), wrong == 0};
    };
    return launch(check, x, y, index, s.n, s.size, s.size, s.channels, s.window, s.window, s.stride, s.pad);
  });
}

Case max_pool2d_backward(Pool s) {
  return make_case(kernels::max_pool2d_backward(), s.text(), {}, moves(4.0 * s.pixels() + 8.0 * s.pooled()), [=] {
    auto x = normals(s.pixels(), 1), dy = normals(s.pooled(), 2), dx = allocate<float>(s.pixels());
    auto index = allocate<int32_t>(s.pooled());
    for (size_t i = 0; i < s.pooled(); ++i) index[i] = s.of(x.get(), i).second;
    auto check = [=] {
      std::vector<double> expected(s.pixels());
      const size_t each = static_cast<size_t>(s.out()) * s.out() * s.channels;
      for (size_t i = 0; i < s.pooled(); ++i) {
        expected[(i / each * s.size * s.size + index[i]) * s.channels + i % s.channels] += dy[i];
      }
      return compare(dx.get(), s.pixels(), [&](size_t i) { return expected[i]; });
    };
    return launch(check, dy, index, dx, s.n, s.size, s.size, s.channels, s.window, s.window, s.stride, s.pad);
  });
}

// `count` boxes of a square of 100 for each image.
Buffer<float> boxes_of(size_t count) {
  auto out = normals(4 * count, 3);
  for (size_t i = 0; i < 4 * count; ++i) out[i] = std::fabs(out[i]) * 25;
  for (size_t i = 0; i < 4 * count; i += 4) out[i + 2] += out[i], out[i + 3] += out[i + 1];
  return out;
}

Case nms(int32_t batch, int32_t n, int32_t kept) {
  const dsl::ConstexprValues config = {{"K", kept}, {"BLOCK", n}};
  return make_case(kernels::nms(), shape_text({batch, n, kept}), config, reads(24.0 * batch * n), [=] {
    const auto all = static_cast<size_t>(batch) * n, slots = static_cast<size_t>(batch) * kept;
    auto boxes = boxes_of(all), scores = normals(all, 4);
    auto classes = ints(all, 0, 3, 5), index = allocate<int32_t>(slots), count = allocate<int32_t>(batch);
    auto check = [=] {
      size_t wrong = 0;
      for (size_t b = 0; b < static_cast<size_t>(batch); ++b) {
        std::vector<size_t> order(n), chosen;
        for (size_t i = 0; i < order.size(); ++i) order[i] = b * n + i;
        std::ranges::stable_sort(order, [&](size_t i, size_t j) { return scores[i] > scores[j]; });
        const auto overlap = [&](size_t i, size_t j) {
          const float *x = &boxes[4 * i], *y = &boxes[4 * j];
          const double w = std::min(x[2], y[2]) - std::max(x[0], y[0]), h = std::min(x[3], y[3]) - std::max(x[1], y[1]);
          const double shared = std::max(w, 0.0) * std::max(h, 0.0);
          return shared / (double{x[2] - x[0]} * (x[3] - x[1]) + double{y[2] - y[0]} * (y[3] - y[1]) - shared);
        };
        for (const size_t i : order) {
          const bool gone =
              std::ranges::any_of(chosen, [&](size_t j) { return classes[i] == classes[j] && overlap(i, j) > 0.5; });
          if (!gone && chosen.size() < static_cast<size_t>(kept)) chosen.push_back(i);
        }
        wrong += static_cast<size_t>(count[b]) != chosen.size();
        for (size_t i = 0; i < chosen.size(); ++i)
          wrong += index[b * kept + i] != static_cast<int32_t>(chosen[i] - b * n);
      }
      return Check{static_cast<double>(wrong), wrong == 0};
    };
    return launch(check, boxes, scores, classes, index, count, batch, n, 0.5F);
  });
}

struct Rois {
  int32_t images, size, channels, rois, parts;
  size_t pixels() const { return static_cast<size_t>(images) * size * size; }
  size_t all_parts() const { return static_cast<size_t>(rois) * parts * parts; }
};

// Four samples a part, centres of pixels at 1/2.
Case roi_align(Rois s) {
  const double bytes = 4.0 * s.channels * static_cast<double>(s.pixels() + s.all_parts());
  const std::string shape = shape_text({s.images, s.size, s.channels, s.rois, s.parts});
  return make_case(kernels::roi_align(), shape, {}, moves(bytes), [=] {
    const auto width = static_cast<size_t>(s.channels);
    const float scale = static_cast<float>(s.size) / 150;
    auto x = normals(s.pixels() * width, 1), boxes = boxes_of(static_cast<size_t>(s.rois));
    auto y = allocate<float>(s.all_parts() * width);
    auto images = ints(static_cast<size_t>(s.rois), 0, s.images, 2);
    auto check = [=] {
      const auto expected = [&](size_t row, double* out) {
        const size_t r = row / s.parts / s.parts, p = row / s.parts % s.parts, q = row % s.parts;
        const double most = s.size - 1.0, part[] = {1.0 * q, 1.0 * p};
        std::fill_n(out, width, 0);
        for (int i = 0; i < 4; ++i) {
          double at[2];
          bool inside = true;
          for (int axis = 0; axis < 2; ++axis) {
            const double low = boxes[4 * r + axis] * scale - 0.5, high = boxes[4 * r + 2 + axis] * scale - 0.5;
            at[axis] = low + (part[axis] + ((axis ? i / 2 : i % 2) + 0.5) / 2) * (high - low) / s.parts;
            inside = inside && at[axis] >= -1 && at[axis] <= s.size;
            at[axis] = std::clamp(at[axis], 0.0, most);
          }
          for (int corner = 0; corner < 4 && inside; ++corner) {
            const double u = std::min(std::floor(at[0]) + corner % 2, most),
                         v = std::min(std::floor(at[1]) + corner / 2, most);
            const double dx = at[0] - std::floor(at[0]), dy = at[1] - std::floor(at[1]);
            const double weight = (corner % 2 ? dx : 1 - dx) * (corner / 2 ? dy : 1 - dy) / 4;
            const auto pixel =
                (images[r] * static_cast<size_t>(s.size) + static_cast<size_t>(v)) * s.size + static_cast<size_t>(u);
            for (size_t c = 0; c < width; ++c) out[c] += weight * x[pixel * width + c];
          }
        }
      };
      return compare_rows(y.get(), s.all_parts(), width, expected, 20);
    };
    return launch(check, x, boxes, images, y, s.size, s.size, s.channels, s.rois, s.parts, s.parts, scale);
  });
}

Case matmul_swiglu(int32_t m, int32_t n, int32_t k) {
  const dsl::ConstexprValues config = {{"BM", std::min(m, 64)}, {"BN", 128}, {"BK", std::min(k, 256)}};
  return make_case(kernels::matmul_swiglu(), shape_text({m, n, k}), config, computes(4.0 * m * n * k), [=] {
    const auto rows = static_cast<size_t>(m), cols = static_cast<size_t>(n), depth = static_cast<size_t>(k);
    auto a = normals(rows * depth, 1), b = normals(2 * cols * depth, 2), c = allocate<float>(rows * cols);
    auto check = [=] {
      return compare_norm(c.get(), 500, 4 * dot_bound(depth), [&](size_t sample) {
        const size_t row = place(sample, 1, rows), col = place(sample, 2, cols);
        double gate = 0, value = 0;
        for (size_t i = 0; i < depth; ++i) {
          gate += double{a[row * depth + i]} * b[i * 2 * cols + col];
          value += double{a[row * depth + i]} * b[i * 2 * cols + cols + col];
        }
        return Expected{row * cols + col, gate / (1 + std::exp(-gate)) * value};
      });
    };
    return launch(check, a, b, c, m, n, k);
  });
}

Case selective_scan(int32_t batch, int32_t length, int32_t width) {
  const double bytes = 4.0 * batch * length * (3.0 * width + 32) + 4.0 * batch * (length / 16) * width * 16.0;
  return make_case(kernels::selective_scan(), shape_text({batch, length, width}), {}, moves(bytes), [=] {
    const auto L = static_cast<size_t>(length), D = static_cast<size_t>(width), B = static_cast<size_t>(batch);
    auto u = normals(B * L * D, 1), rate = normals(B * L * D, 2), a = normals(D * 16, 3), b = normals(B * L * 16, 4);
    auto c = normals(B * L * 16, 5), skip = normals(D, 6), y = allocate<float>(B * L * D);
    auto states = allocate<float>(B * ((L + 15) / 16) * D * 16);
    for (size_t i = 0; i < B * L * D; ++i) rate[i] = std::fabs(rate[i]) * 0.2F;
    for (size_t i = 0; i < D * 16; ++i) a[i] = -std::fabs(a[i]);
    auto check = [=] {
      double worst = 0;
      for (size_t line = 0; line < std::min<size_t>(B * D, 64); ++line) {
        const size_t n = line % B, d = line * 37 % D;
        double h[16] = {};
        for (size_t t = 0; t < L; ++t) {
          const size_t at = (n * L + t) * D + d;
          double out = double{skip[d]} * u[at];
          for (size_t k = 0; k < 16; ++k) {
            const size_t see = (n * L + t) * 16 + k;
            h[k] = std::exp(double{rate[at]} * a[d * 16 + k]) * h[k] + double{rate[at]} * b[see] * u[at];
            out += h[k] * c[see];
          }
          worst = std::max(worst, std::fabs(y[at] - out));
        }
      }
      return Check{worst, worst < 1e-4};
    };
    return launch(check, u, rate, a, b, c, skip, y, states, batch, length, width);
  });
}

}  // namespace

std::vector<Case> image_cases(Size size) {
  if (size == Size::kSmall) {
    return {max_pool2d({2, 15, 5, 3, 2, 1}),
            max_pool2d_backward({2, 15, 5, 3, 2, 1}),
            nms(2, 100, 20),
            roi_align({2, 9, 20, 7, 3}),
            matmul_swiglu(33, 70, 50),
            selective_scan(2, 33, 20)};
  }
  if (size == Size::kInCache) return {max_pool2d({1, 56, 64, 3, 2, 1}), nms(1, 1000, 100), selective_scan(1, 128, 256)};
  return {max_pool2d({16, 112, 64, 3, 2, 1}),
          max_pool2d_backward({16, 112, 64, 3, 2, 1}),
          nms(8, 4096, 300),
          roi_align({2, 64, 256, 512, 7}),
          matmul_swiglu(512, 2816, 1024),
          selective_scan(4, 1024, 1536)};
}

}  // namespace kiln::quickstart
