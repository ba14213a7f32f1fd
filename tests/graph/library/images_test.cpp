// Functions of images beside loops in float64.
#include "kiln/graph/images.h"

#include <gmock/gmock.h>

#include "library/numbers.h"

namespace kiln::graph::test {
namespace {

using testing::HasSubstr;

TEST(Images, MaxPoolSaysWhereItFoundThem) {
  Numbers x = random_numbers({2, 3, 7, 5}, 1);
  x(0, 0, 2, 2) = x(0, 0, 2, 3) = 9;  // the first of equal ones
  const auto out = computed({x}, [](Tensors t) {
    const Pooled y = max_pool_with_indices(t[0], {.size = {3, 2}, .strides = {2, 2}, .low = {1, 1}, .high = {1, 0}});
    return Tensors{y.values, y.indices, max_unpool(y.values, y.indices, {7, 5})};
  });
  ASSERT_EQ(out.size(), 3u);
  Numbers values({2, 3, 4, 3}), indices = values, back({2, 3, 7, 5});
  for (int n = 0; n < 2; ++n) {
    for (int c = 0; c < 3; ++c) {
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 3; ++j) {
          double best = -INFINITY;
          int at = -1;
          for (int h = std::max(2 * i - 1, 0); h < std::min(2 * i + 2, 7); ++h) {
            for (int w = std::max(2 * j - 1, 0); w < std::min(2 * j + 1, 5); ++w) {
              if (x(n, c, h, w) <= best) continue;
              best = x(n, c, h, w);
              at = h * 5 + w;
            }
          }
          values(n, c, i, j) = best;
          indices(n, c, i, j) = at;
          back(n, c, at / 5, at % 5) = best;
        }
      }
    }
  }
  expect_numbers("values", out[0], values);
  expect_numbers("indices", out[1], indices);
  expect_numbers("unpooled", out[2], back);
}

// [N, C, H, W] to parts of floor(i·H/P) … ceil((i+1)·H/P).
void check_adaptive(int64_t h, int64_t w, int64_t p, int64_t q) {
  const Numbers x = random_numbers({2, 3, h, w}, 2);
  const auto out = computed({x}, [&](Tensors t) {
    const Pooled y = adaptive_max_pool(t[0], {p, q});
    return Tensors{adaptive_avg_pool(t[0], {p, q}), y.values, y.indices};
  });
  ASSERT_EQ(out.size(), 3u);
  Numbers mean({2, 3, p, q}), most = mean, place = mean;
  for (int n = 0; n < 2; ++n) {
    for (int c = 0; c < 3; ++c) {
      for (int64_t i = 0; i < p; ++i) {
        for (int64_t j = 0; j < q; ++j) {
          double sum = 0, best = -INFINITY;
          int64_t count = 0, at = 0;
          for (int64_t a = i * h / p; a < ((i + 1) * h + p - 1) / p; ++a) {
            for (int64_t b = j * w / q; b < ((j + 1) * w + q - 1) / q; ++b, ++count) {
              sum += x(n, c, a, b);
              if (x(n, c, a, b) <= best) continue;
              best = x(n, c, a, b);
              at = a * w + b;
            }
          }
          mean(n, c, i, j) = sum / static_cast<double>(count);
          most(n, c, i, j) = best;
          place(n, c, i, j) = static_cast<double>(at);
        }
      }
    }
  }
  expect_numbers("means", out[0], mean);
  expect_numbers("maxima", out[1], most);
  expect_numbers("places", out[2], place);
}

TEST(Images, AdaptivePools) {
  check_adaptive(7, 5, 3, 2);
  check_adaptive(6, 8, 3, 4);  // windows of one size
  check_adaptive(3, 4, 5, 4);  // more parts than places
  check_adaptive(9, 1, 1, 1);
}

int64_t mirrored(int64_t i, int64_t n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; }

TEST(Images, EdgesOfAllModes) {
  const Numbers x = random_numbers({2, 4, 5}, 3);
  const auto out = computed({x}, [](Tensors t) {
    Tensors all_modes;
    for (const PadMode mode : {PadMode::kReflect, PadMode::kReplicate, PadMode::kCircular}) {
      all_modes.push_back(pad(t[0], mode, {3, 0}, {1, 4}));
    }
    return all_modes;
  });
  ASSERT_EQ(out.size(), 3u);
  Numbers expected[3] = {Numbers({2, 8, 9}), Numbers({2, 8, 9}), Numbers({2, 8, 9})};
  for (int n = 0; n < 2; ++n) {
    for (int64_t i = -3; i < 5; ++i) {
      for (int64_t j = 0; j < 9; ++j) {
        expected[0](n, i + 3, j) = x(n, mirrored(i, 4), mirrored(j, 5));
        expected[1](n, i + 3, j) = x(n, std::clamp<int64_t>(i, 0, 3), std::clamp<int64_t>(j, 0, 4));
        expected[2](n, i + 3, j) = x(n, (i + 4) % 4, j % 5);
      }
    }
  }
  expect_numbers("reflect", out[0], expected[0]);
  expect_numbers("replicate", out[1], expected[1]);
  expect_numbers("circular", out[2], expected[2]);
  EXPECT_THAT(
      refusal({input("x", f32, {2, 4})}, [](Tensors t) { return Tensors{pad(t[0], PadMode::kReflect, {4}, {0})}; }),
      HasSubstr("images_test.cpp"));
}

TEST(Images, Shuffles) {
  const Numbers x = random_numbers({2, 12, 3, 5}, 4);
  const auto out = computed({x}, [](Tensors t) {
    const Tensor y = pixel_shuffle(t[0], 2);
    return Tensors{y, pixel_unshuffle(y, 2), channel_shuffle(t[0], 3), channels_last(t[0]),
                   channels_first(channels_last(t[0]))};
  });
  ASSERT_EQ(out.size(), 5u);
  Numbers pixels({2, 3, 6, 10}), channels({2, 12, 3, 5}), last({2, 3, 5, 12});
  for (int n = 0; n < 2; ++n) {
    for (int c = 0; c < 12; ++c) {
      for (int h = 0; h < 3; ++h) {
        for (int w = 0; w < 5; ++w) {
          pixels(n, c / 4, h * 2 + c % 4 / 2, w * 2 + c % 2) = x(n, c, h, w);
          channels(n, c % 4 * 3 + c / 4, h, w) = x(n, c, h, w);
          last(n, h, w, c) = x(n, c, h, w);
        }
      }
    }
  }
  expect_numbers("pixel_shuffle", out[0], pixels);
  expect_numbers("pixel_unshuffle", out[1], x);
  expect_numbers("channel_shuffle", out[2], channels);
  expect_numbers("channels_last", out[3], last);
  expect_numbers("channels_first", out[4], x);
  EXPECT_THAT(refusal({input("x", f32, {2, 6, 3, 3})}, [](Tensors t) { return Tensors{pixel_shuffle(t[0], 2)}; }),
              HasSubstr("pixel_shuffle: axis 1 of f32[2, 6, 3, 3] is not known to be a multiple of 4"));
}

// --- grid_sample, as PyTorch documents it ---
double reflect(double x, double low, double span) {
  if (span == 0) return 0;
  x = std::fabs(x - low);
  const double more = std::fmod(x, span);
  return (std::fmod(std::floor(x / span), 2) == 0 ? more : span - more) + low;
}
double beyond_edges(double x, int64_t size, const SampleOptions& by) {
  const auto n = static_cast<double>(size);
  if (by.edges == SampleEdges::kZeros) return x;
  if (by.edges == SampleEdges::kReflect) x = by.corners ? reflect(x, 0, n - 1) : reflect(x, -0.5, n);
  return std::clamp(x, 0.0, n - 1);
}
double cubic(double d) {
  constexpr double a = -0.75;
  d = std::fabs(d);
  return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}
double sampled(const Numbers& x, int n, int c, double v, double u, const SampleOptions& by) {
  const int64_t h = x.shape[2], w = x.shape[3];
  const auto place = [&](double g, int64_t size) {
    const auto s = static_cast<double>(size);
    return by.corners ? (g + 1) / 2 * (s - 1) : ((g + 1) * s - 1) / 2;
  };
  const auto pixel = [&](double i, double j) {
    i = beyond_edges(i, h, by), j = beyond_edges(j, w, by);
    const bool inside = i >= 0 && j >= 0 && i < static_cast<double>(h) && j < static_cast<double>(w);
    return inside ? x(n, c, static_cast<int64_t>(i), static_cast<int64_t>(j)) : 0;
  };
  double i = place(v, h), j = place(u, w), sum = 0;
  if (by.mode == ResizeMode::kCubic) {
    for (int a = -1; a < 3; ++a) {
      for (int b = -1; b < 3; ++b) {
        const double y = std::floor(i) + a, z = std::floor(j) + b;
        sum += cubic(i - y) * cubic(j - z) * pixel(y, z);
      }
    }
    return sum;
  }
  i = beyond_edges(i, h, by), j = beyond_edges(j, w, by);
  if (by.mode == ResizeMode::kNearest) return pixel(std::nearbyint(i), std::nearbyint(j));
  for (int a = 0; a < 2; ++a) {
    for (int b = 0; b < 2; ++b) {
      const double y = std::floor(i) + a, z = std::floor(j) + b;
      sum += (1 - std::fabs(i - y)) * (1 - std::fabs(j - z)) * pixel(y, z);
    }
  }
  return sum;
}

TEST(Images, GridSampleOfAllModes) {
  const Numbers x = random_numbers({2, 3, 4, 5}, 5), grid = random_numbers({2, 3, 7, 2}, 6, -1.9, 1.9);
  for (const ResizeMode mode : {ResizeMode::kNearest, ResizeMode::kLinear, ResizeMode::kCubic}) {
    for (const SampleEdges edges : {SampleEdges::kZeros, SampleEdges::kBorder, SampleEdges::kReflect}) {
      for (const bool corners : {false, true}) {
        const SampleOptions by{mode, edges, corners};
        const auto out = computed({x, grid}, [&](Tensors t) { return Tensors{grid_sample(t[0], t[1], by)}; });
        ASSERT_EQ(out.size(), 1u);
        Numbers expected({2, 3, 3, 7});
        for (int n = 0; n < 2; ++n) {
          for (int c = 0; c < 3; ++c) {
            for (int i = 0; i < 3; ++i) {
              for (int j = 0; j < 7; ++j) {
                expected(n, c, i, j) = sampled(x, n, c, grid(n, i, j, 1), grid(n, i, j, 0), by);
              }
            }
          }
        }
        const std::string what = "mode " + std::to_string(static_cast<int>(mode)) + ", edges " +
                                 std::to_string(static_cast<int>(edges)) + (corners ? ", corners" : "");
        expect_numbers(what.c_str(), out[0], expected);
      }
    }
  }
  EXPECT_THAT(refusal({input("x", f32, {2, 3, 4, 4}), input("g", f32, {2, 4, 4, 3})},
                      [](Tensors t) { return Tensors{grid_sample(t[0], t[1])}; }),
              HasSubstr("grid_sample: f32[2, 3, 4, 4] at points f32[2, 4, 4, 3], which must be [N, …, 2]"));
}

// The grid of no motion shows the image itself, of three axes too.
TEST(Images, AffineGrid) {
  const Numbers x = random_numbers({2, 2, 3, 4, 5}, 7), theta = random_numbers({2, 2, 3}, 8);
  for (const bool corners : {false, true}) {
    const auto out = computed({x, theta}, [&](Tensors t) {
      const Tensor still = broadcast_to(constant(f64, {3, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}), {2, 3, 4});
      const Tensor same = grid_sample(t[0], affine_grid(still, {3, 4, 5}, corners), {.corners = corners});
      return Tensors{same, affine_grid(t[1], {3, 4}, corners)};
    });
    ASSERT_EQ(out.size(), 2u);
    expect_numbers("the image", out[0], x, 1e-9);
    Numbers expected({2, 3, 4, 2});
    for (int n = 0; n < 2; ++n) {
      for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 4; ++j) {
          const double u = corners ? 2 * j / 3.0 - 1 : (2 * j + 1) / 4.0 - 1;
          const double v = corners ? 2 * i / 2.0 - 1 : (2 * i + 1) / 3.0 - 1;
          for (int k = 0; k < 2; ++k) expected(n, i, j, k) = theta(n, k, 0) * u + theta(n, k, 1) * v + theta(n, k, 2);
        }
      }
    }
    expect_numbers("grid", out[1], expected);
  }
}

TEST(Images, Norms) {
  const Numbers x = random_numbers({2, 3, 4, 5}, 9), w = random_numbers({3}, 10), b = random_numbers({3}, 11);
  const auto out = computed({x, w, b}, [](Tensors t) { return Tensors{instance_norm(t[0], t[1], t[2], 1e-3)}; });
  ASSERT_EQ(out.size(), 1u);
  Numbers expected({2, 3, 4, 5});
  for (int n = 0; n < 2; ++n) {
    for (int c = 0; c < 3; ++c) {
      double sum = 0, squares = 0;
      for (int i = 0; i < 20; ++i) sum += x(n, c, i / 5, i % 5);
      for (int i = 0; i < 20; ++i) squares += std::pow(x(n, c, i / 5, i % 5) - sum / 20, 2);
      for (int i = 0; i < 20; ++i) {
        expected(n, c, i / 5, i % 5) =
            (x(n, c, i / 5, i % 5) - sum / 20) / std::sqrt(squares / 20 + 1e-3) * w(c) + b(c);
      }
    }
  }
  expect_numbers("instance_norm", out[0], expected);
}

TEST(Images, BatchNormFoldsIntoAConvolution) {
  const std::vector<Numbers> inputs = {random_numbers({2, 4, 5, 6}, 12), random_numbers({8, 2, 3, 3}, 13),
                                       random_numbers({8}, 14),          random_numbers({8}, 15),
                                       random_numbers({8}, 16, 0.3, 2),  random_numbers({8}, 17),
                                       random_numbers({8}, 18)};
  const auto both = [](const Tensors& t, ElementType type) {
    const ConvOptions by{.low = {1, 1}, .high = {1, 1}, .groups = 2};
    const Tensor x = cast(t[0], type), w = cast(t[1], type);
    const FoldedConv folded = fold_batch_norm(w, t[2], t[3], t[4], t[5], t[6]);
    const Tensor y = frozen_batch_norm(conv(x, w, cast(t[2], type), by), t[3], t[4], t[5], t[6]);
    return std::pair{conv(x, folded.w, folded.bias, by), y};
  };
  const auto out = computed(inputs, [&](Tensors t) {
    const auto [folded, apart] = both(t, f64);
    const Difference exact = difference(folded, apart), half = difference(both(t, f16).first, apart);
    return Tensors{folded, apart, exact.largest, half.relative};
  });
  ASSERT_EQ(out.size(), 4u);
  expect_numbers("folded", out[0], out[1], 1e-12);
  EXPECT_LT(out[2].all[0], 1e-12);
  EXPECT_GT(out[3].all[0], 1e-5);  // what f16 costs is seen
  EXPECT_LT(out[3].all[0], 1e-2);
}

}  // namespace
}  // namespace kiln::graph::test
