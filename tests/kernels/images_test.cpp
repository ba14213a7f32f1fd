// Kernels of kernels/pooling.h and kernels/boxes.h.
#include <algorithm>

#include "check.h"

namespace kiln::test {
namespace {

struct Pool {
  int n, h, w, c, r, s, stride, pad;

  int lines() const { return (h + 2 * pad - r) / stride + 1; }
  int columns() const { return (w + 2 * pad - s) / stride + 1; }
  size_t image() const { return static_cast<size_t>(n * h * w * c); }
  size_t pooled() const { return static_cast<size_t>(n * lines() * columns() * c); }
  Arguments numbers() const {
    Arguments out;
    for (const int each : {n, h, w, c, r, s, stride, pad}) out.push_back(int_of(each));
    return out;
  }
};

Arguments joined(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

template <class T, class Run>
void check_pool(const Pool& p, const dsl::ConstexprValues& blocks, Run run) {
  auto x = normals_of<T>(p.image(), 1);
  // Windows of nothing else, whose first place is the one.
  std::fill_n(x.begin(), p.image() / 3, normals_of<T>(1, 1, 0, -INFINITY)[0]);
  x[p.image() / 2] = x[p.image() / 2 + 1] = normals_of<T>(1, 1, 0, std::nan(""))[0];
  const auto in = reals(x);
  std::vector<double> most;
  std::vector<int32_t> index;
  for (int i = 0; i < p.n * p.lines() * p.columns() * p.c; ++i) {
    const int c = i % p.c, q = i / p.c % p.columns(), l = i / (p.c * p.columns()) % p.lines();
    const int image = i / (p.c * p.columns() * p.lines());
    double best = 0;
    int at = -1;
    for (int h = l * p.stride - p.pad; h < l * p.stride - p.pad + p.r; ++h) {
      for (int w = q * p.stride - p.pad; w < q * p.stride - p.pad + p.s; ++w) {
        if (h < 0 || w < 0 || h >= p.h || w >= p.w) continue;
        const double v = in[static_cast<size_t>(((image * p.h + h) * p.w + w) * p.c + c)];
        if (at >= 0 && (std::isnan(best) || !(v > best || std::isnan(v)))) continue;
        best = v;
        at = h * p.w + w;
      }
    }
    most.push_back(best);
    index.push_back(at);
  }
  run(kernels::max_pool2d<T>().ir(), blocks,
      joined({buffer(x), empty<Memory<T>>(most.size()), empty<int32_t>(most.size())}, p.numbers()),
      [&](const Arguments& out) {
        expect_close(reals<T>(out[1]), most, 0);
        expect_equal(out[2], index);
      });
  const auto dy = normals_of<T>(p.pooled(), 2);
  const auto slope = reals(dy);
  std::vector<double> dx(p.image()), size(p.image(), 1);
  for (size_t i = 0; i < slope.size(); ++i) {
    const size_t image = i / static_cast<size_t>(p.c * p.columns() * p.lines());
    const size_t to =
        (image * static_cast<size_t>(p.h * p.w) + static_cast<size_t>(index[i])) * static_cast<size_t>(p.c) +
        i % static_cast<size_t>(p.c);
    dx[to] += slope[i];
    size[to] += std::fabs(slope[i]);
  }
  run(kernels::max_pool2d_backward<T>().ir(), blocks,
      joined({buffer(dy), buffer(index), empty<Memory<T>>(dx.size())}, p.numbers()),
      [&](const Arguments& out) { expect_close<T>(out[2], dx, size); });
}

TEST(PoolingKernels, SayWhereTheyFoundThem) {
  // The last two are higher or wider than what is written out of a window, and of the windows around a place.
  for (const Pool& p : {Pool{2, 5, 7, 3, 3, 3, 2, 1},
                        {1, 4, 6, 5, 2, 3, 1, 0},
                        {1, 9, 5, 1, 3, 2, 3, 1},
                        {1, 7, 9, 18, 5, 2, 1, 1},
                        {2, 6, 5, 3, 2, 5, 2, 1}}) {
    check_pool<lang::f32>(p, {{"BM", 8}, {"BC", 16}}, check_both);
  }
  check_pool<lang::bf16>({2, 5, 7, 3, 3, 3, 2, 1}, {{"BM", 16}, {"BC", 4}}, check_both);
  check_pool<lang::bf16>({1, 7, 9, 5, 5, 4, 1, 2}, {{"BM", 16}, {"BC", 4}}, check_both);
  check_pool<lang::f32>({2, 56, 55, 64, 3, 3, 2, 1}, {}, check_compiled);
}

// Boxes of random corners in a square.
std::vector<float> boxes_of(size_t count, float side, uint32_t seed) {
  std::vector<float> out = normals(4 * count, seed);
  for (size_t i = 0; i < out.size(); i += 4) {
    for (size_t k = i; k < i + 2; ++k) out[k] = std::fabs(out[k]) * side;
    for (size_t k = i + 2; k < i + 4; ++k) out[k] = out[k - 2] + std::fabs(out[k]) * side / 2;
  }
  return out;
}

double overlap_of(const float* a, const float* b) {
  const auto edge = [](const float* x, int i) { return double{x[i]}; };
  const auto area = [&](const float* x) { return (edge(x, 2) - edge(x, 0)) * (edge(x, 3) - edge(x, 1)); };
  const double w = std::min(edge(a, 2), edge(b, 2)) - std::max(edge(a, 0), edge(b, 0));
  const double h = std::min(edge(a, 3), edge(b, 3)) - std::max(edge(a, 1), edge(b, 1));
  const double shared = std::max(w, 0.0) * std::max(h, 0.0);
  return shared / (area(a) + area(b) - shared);
}

template <class Run>
void check_nms(size_t batch, size_t n, int64_t k, int64_t block, Run run) {
  const auto boxes = boxes_of(batch * n, 4, 3);
  auto scores = normals(batch * n, 4);
  const auto classes = ints(batch * n, 0, 3, 5);
  if (n > 3) {
    scores[1] = scores[2];
    scores[3] = std::nanf("");
    scores[0] = -INFINITY;
  }
  std::vector<int32_t> index(batch * static_cast<size_t>(k), -1), count(batch);
  for (size_t b = 0; b < batch; ++b) {
    std::vector<size_t> order;
    for (size_t i = b * n; i < (b + 1) * n; ++i) {
      if (scores[i] > -INFINITY) order.push_back(i);
    }
    std::ranges::stable_sort(order, [&](size_t i, size_t j) { return scores[i] > scores[j]; });
    std::vector<size_t> kept;
    for (const size_t i : order) {
      const bool gone = std::ranges::any_of(
          kept, [&](size_t j) { return classes[i] == classes[j] && overlap_of(&boxes[4 * i], &boxes[4 * j]) > 0.4; });
      if (gone || kept.size() == static_cast<size_t>(k)) continue;
      index[b * static_cast<size_t>(k) + kept.size()] = static_cast<int32_t>(i - b * n);
      kept.push_back(i);
    }
    count[b] = static_cast<int32_t>(kept.size());
  }
  run(kernels::nms().ir(), dsl::ConstexprValues{{"BLOCK", block}, {"K", k}},
      Arguments{buffer(boxes), buffer(scores), buffer(classes), empty<int32_t>(index.size()), empty<int32_t>(batch),
                int_of(static_cast<int64_t>(batch)), int_of(static_cast<int64_t>(n)), float_of(0.4F)},
      [&](const Arguments& out) {
        expect_equal(out[3], index);
        expect_equal(out[4], count);
      });
}

TEST(BoxKernels, NmsKeepsTheBest) {
  check_nms(2, 23, 5, 32, check_both);
  check_nms(3, 17, 40, 17, check_both);
  check_nms(1, 1, 3, 16, check_both);
  check_nms(2, 1000, 300, 1024, check_compiled);
}

struct Rois {
  int images, h, w, c, rois, p, q, samples, aligned;
};

// The weights of one box part's sample points, as (pixel, weight).
void for_samples(const Rois& s, const float* box, double scale, int part,
                 const std::function<void(int, double)>& visit) {
  double at[4];
  for (int i = 0; i < 4; ++i) at[i] = double{box[i]} * scale - (s.aligned ? 0.5 : 0);
  double height = at[3] - at[1], width = at[2] - at[0];
  if (!s.aligned) height = std::max(height, 1.0), width = std::max(width, 1.0);
  for (int k = 0; k < s.samples * s.samples; ++k) {
    const double v = at[1] + (part / s.q + (k / s.samples + 0.5) / s.samples) * height / s.p;
    const double u = at[0] + (part % s.q + (k % s.samples + 0.5) / s.samples) * width / s.q;
    if (v < -1 || u < -1 || v > s.h || u > s.w) continue;
    const double y = std::clamp(v, 0.0, s.h - 1.0), x = std::clamp(u, 0.0, s.w - 1.0);
    for (int i = 0; i < 4; ++i) {
      const double line = std::floor(y) + i / 2, column = std::floor(x) + i % 2;
      const double weight = (1 - std::fabs(y - line)) * (1 - std::fabs(x - column));
      if (weight > 0) visit(static_cast<int>(line) * s.w + static_cast<int>(column), weight / (s.samples * s.samples));
    }
  }
}

template <class T, class Run>
void check_rois(const Rois& s, int64_t block, Run run) {
  constexpr float kScale = 0.5F;
  const auto boxes = boxes_of(static_cast<size_t>(s.rois), static_cast<float>(s.w), 6);
  const auto images = ints(static_cast<size_t>(s.rois), 0, s.images, 7);
  const auto pixels = static_cast<size_t>(s.h * s.w * s.c), parts = static_cast<size_t>(s.p * s.q);
  const auto x = normals_of<T>(pixels * static_cast<size_t>(s.images), 8);
  const auto dy = normals_of<T>(static_cast<size_t>(s.rois * s.c) * parts, 9);
  const auto in = reals(x), slope = reals(dy);
  std::vector<double> y(dy.size()), dx(in.size()), size(in.size(), 1);
  for (int r = 0; r < s.rois; ++r) {
    for (int part = 0; part < s.p * s.q; ++part) {
      for_samples(s, &boxes[static_cast<size_t>(4 * r)], double{kScale}, part, [&](int pixel, double weight) {
        for (int c = 0; c < s.c; ++c) {
          const size_t from =
              static_cast<size_t>(images[static_cast<size_t>(r)]) * pixels + static_cast<size_t>(pixel * s.c + c);
          const size_t to = static_cast<size_t>((r * s.p * s.q + part) * s.c + c);
          y[to] += weight * in[from];
          dx[from] += weight * slope[to];
          size[from] += 10 * std::fabs(slope[to]);  // places of points are f32 too
        }
      });
    }
  }
  const dsl::ConstexprValues config = {{"BLOCK", block}, {"SAMPLES", s.samples}, {"ALIGNED", s.aligned}};
  Arguments numbers;
  for (const int each : {s.h, s.w, s.c, s.rois, s.p, s.q}) numbers.push_back(int_of(each));
  numbers.push_back(float_of(kScale));
  run(kernels::roi_align<T>().ir(), config,
      joined({buffer(x), buffer(boxes), buffer(images), empty<Memory<T>>(y.size())}, numbers),
      [&](const Arguments& out) { expect_close<T>(out[3], y, std::vector<double>(y.size(), 20)); });
  run(kernels::roi_align_backward<T>().ir(), config,
      joined({buffer(dy), buffer(boxes), buffer(images), buffer(std::vector<float>(dx.size()))}, numbers),
      [&](const Arguments& out) { expect_close<lang::f32>(out[3], dx, size); });
}

TEST(BoxKernels, RoiAlignBothWays) {
  for (const Rois& s : {Rois{2, 6, 7, 5, 4, 2, 3, 2, 1}, {1, 9, 8, 17, 3, 3, 1, 1, 0}}) {
    check_rois<lang::f32>(s, 16, check_both);
    check_rois<lang::bf16>(s, 16, check_both);
  }
  check_rois<lang::f32>({2, 38, 50, 256, 30, 7, 7, 2, 0}, 256, check_compiled);
}

}  // namespace
}  // namespace kiln::test
