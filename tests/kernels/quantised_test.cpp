// Kernels of kernels/quantised.h and quantised_weights.h against float64.
#include <algorithm>

#include "products.h"

namespace kiln::test {
namespace {

template <class M>
std::vector<M> bytes_of(size_t count, uint32_t seed, int low = std::numeric_limits<M>::min(),
                        int high = std::numeric_limits<M>::max()) {
  const auto wide = ints(count, low, high + 1, seed);
  return {wide.begin(), wide.end()};
}

std::vector<float> magnitudes(int64_t count, double scale, uint32_t seed) {
  auto out = normals(static_cast<size_t>(count), seed);
  for (float& x : out) x = static_cast<float>(scale * (0.5 + std::fabs(x)));
  return out;
}

double active(double y, int act) {
  if (act == 1) return std::max(y, 0.0);
  return act == 2 ? 0.5 * y * (1 + std::tanh(std::sqrt(2 / M_PI) * (y + 0.044715 * y * y * y))) : y;
}

// A value that float64 puts next to the middle of two ints may be either.
template <class Out>
void expect_rounded(const TestArgument& out, const std::vector<double>& exact) {
  const auto actual = reals<Out>(out);
  ASSERT_EQ(actual.size(), exact.size());
  constexpr double kLow = std::is_same_v<Out, lang::u8> ? 0 : -128, kHigh = std::is_same_v<Out, lang::u8> ? 255 : 127;
  size_t wrong = 0, inside = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double wanted = std::clamp(exact[i], kLow, kHigh);
    inside += wanted == exact[i];
    if (std::fabs(actual[i] - wanted) > 0.5 + 1e-3 && ++wrong <= 3) {
      ADD_FAILURE() << "at " << i << ": " << actual[i] << " instead of " << wanted;
    }
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(inside, actual.size() / 4);
}

// The numbers of a layer, and what `fold_zero_point` makes of them.
struct Layer {
  std::vector<int8_t> w;
  std::vector<float> w_scale, bias, scale, offset;
  double x_scale = 0.05;
  int x_zero = 0;

  Layer(int64_t outputs, int64_t depth, int zero)
      : w(bytes_of<int8_t>(static_cast<size_t>(outputs * depth), 2)),
        w_scale(magnitudes(outputs, 0.01, 3)),
        bias(normals(static_cast<size_t>(outputs), 4)),
        x_zero(zero) {
    for (int64_t n = 0; n < outputs; ++n) {
      const auto at = static_cast<size_t>(n);
      double total = 0;
      for (int64_t k = 0; k < depth; ++k) total += w[static_cast<size_t>(n * depth + k)];
      scale.push_back(static_cast<float>(w_scale[at] * static_cast<float>(x_scale)));
      offset.push_back(static_cast<float>(bias[at] - x_zero * total * scale[at]));
    }
  }
  double output(double sum, size_t n) const { return sum * scale[n] + bias[n]; }
};

TEST(QuantisedLayers, FoldTheZeroPoint) {
  const Layer layer(5, 71, 131);
  check_both(kernels::fold_zero_point().ir(), {{"BLOCK", 32}},
             {buffer(layer.w), buffer(layer.w_scale), buffer(layer.bias), empty<float>(5), empty<float>(5), int_of(5),
              int_of(71), float_of(static_cast<float>(layer.x_scale)), int_of(layer.x_zero)},
             [&](const Arguments& out) {
               expect_close(reals<lang::f32>(out[3]), reals(layer.scale), 1e-6);
               expect_close(reals<lang::f32>(out[4]), reals(layer.offset), 1e-5);
             });
}

// Weights [N, K] in panels of BN columns and units of four bytes along K.
std::vector<int8_t> packed(const std::vector<int8_t>& w, const Product& p) {
  const int64_t units = (p.k + 3) / 4, panels = (p.n + p.bn - 1) / p.bn;
  std::vector<int8_t> out(p.of(panels * p.bn, units * 4));
  for (int64_t n = 0; n < p.n; ++n) {
    for (int64_t k = 0; k < p.k; ++k) {
      const int64_t unit = (n / p.bn * units + k / 4) * p.bn + n % p.bn;
      out[static_cast<size_t>(unit * 4 + k % 4)] = w[static_cast<size_t>(n * p.k + k)];
    }
  }
  return out;
}

template <class A, class Out>
void check_linear(const Product& p, int act, auto run) {
  const bool is_unsigned = std::is_same_v<A, lang::u8>;
  const Layer layer(p.n, p.k, is_unsigned ? 121 : -7);
  const auto x = bytes_of<Memory<A>>(p.of(p.m, p.k), 1);
  auto shifted = reals(x);
  for (double& v : shifted) v -= layer.x_zero;
  auto exact = multiply(shifted, reals(turned(layer.w, p.k)), p.m, p.n, p.k);
  const double range = 0.02 * std::sqrt(static_cast<double>(p.k)) * 74;
  const float inverse = static_cast<float>(40 / range);
  const int zero = std::is_same_v<Out, lang::u8> ? 100 : 3;
  for (size_t i = 0; i < exact.size(); ++i)
    exact[i] = active(layer.output(exact[i], i % static_cast<size_t>(p.n)), act);
  auto config = p.config();
  config["ACT"] = act;
  Arguments arguments = {
      buffer(x),   buffer(layer.w), buffer(layer.scale), buffer(layer.offset), empty<Memory<Out>>(exact.size()),
      int_of(p.m), int_of(p.n),     int_of(p.k),         float_of(inverse),    int_of(zero)};
  const Checker check = [&](const Arguments& out) {
    if constexpr (std::is_same_v<Out, lang::f32>) {
      expect_close(reals<Out>(out[4]), exact, 1e-3);  // of the activation's approximation
    } else {
      auto steps = exact;
      for (double& v : steps) v = v * inverse + zero;
      expect_rounded<Out>(out[4], steps);
    }
  };
  run(kernels::linear_q8<A, Out>().ir(), config, arguments, check);
  SCOPED_TRACE("packed");
  arguments[1] = buffer(packed(layer.w, p));
  run(kernels::linear_q8_packed<A, Out>().ir(), config, arguments, check);
}

TEST(QuantisedLayers, Linear) {
  using lang::u8, lang::i8, lang::f32;
  const Product odd{17, 9, 21, 8, 4, 8};
  check_linear<u8, u8>(odd, 0, check_both);
  check_linear<u8, i8>(odd, 1, check_both);
  check_linear<i8, i8>(odd, 2, check_both);
  check_linear<u8, f32>(odd, 2, check_both);
  check_linear<i8, f32>({2, 3, 1, 8, 4, 8}, 1, check_both);
  check_linear<u8, u8>({50, 136, 300, 64, 64, 64}, 1, check_compiled);
  check_linear<i8, i8>({50, 136, 300, 64, 64, 64}, 0, check_compiled);
}

struct Images {
  int64_t n, h, w, c, k, r, s, stride, pad, bm, bn, bk;
};

template <class A>
void check_convolution(const Images& v, int act, auto run) {
  const int64_t p = (v.h + 2 * v.pad - v.r) / v.stride + 1, q = (v.w + 2 * v.pad - v.s) / v.stride + 1;
  const Layer layer(v.k, v.r * v.s * v.c, std::is_same_v<A, lang::u8> ? 121 : -7);
  const auto x = bytes_of<Memory<A>>(static_cast<size_t>(v.n * v.h * v.w * v.c), 1);
  std::vector<double> steps;
  const float inverse = 0.8F;
  for (int64_t at = 0; at < v.n * p * q; ++at) {
    for (int64_t k = 0; k < v.k; ++k) {
      double sum = 0;
      for (int64_t i = 0; i < v.r * v.s * v.c; ++i) {
        const int64_t c = i % v.c, s = i / v.c % v.s, r = i / v.c / v.s;
        const int64_t line = at / q % p * v.stride - v.pad + r, column = at % q * v.stride - v.pad + s;
        if (line < 0 || line >= v.h || column < 0 || column >= v.w) continue;
        const auto from = static_cast<size_t>(((at / q / p * v.h + line) * v.w + column) * v.c + c);
        sum += (x[from] - layer.x_zero) * layer.w[static_cast<size_t>(k * v.r * v.s * v.c + i)];
      }
      steps.push_back(active(layer.output(sum, static_cast<size_t>(k)), act) * inverse + 60);
    }
  }
  run(kernels::conv2d_q8<A>().ir(), dsl::ConstexprValues{{"ACT", act}, {"BM", v.bm}, {"BN", v.bn}, {"BK", v.bk}},
      Arguments{buffer(x), buffer(layer.w), buffer(layer.scale), buffer(layer.offset), empty<Memory<A>>(steps.size()),
                int_of(v.n), int_of(v.h), int_of(v.w), int_of(v.c), int_of(v.k), int_of(v.r), int_of(v.s),
                int_of(v.stride), int_of(v.pad), int_of(layer.x_zero), float_of(inverse), int_of(60)},
      [&](const Arguments& out) { expect_rounded<A>(out[4], steps); });
}

TEST(QuantisedLayers, Convolution) {
  check_convolution<lang::u8>({1, 7, 6, 3, 5, 3, 3, 1, 1, 16, 8, 8}, 1, check_both);
  check_convolution<lang::u8>({2, 5, 5, 4, 6, 1, 1, 1, 0, 16, 8, 4}, 0, check_both);
  check_convolution<lang::i8>({1, 8, 7, 3, 4, 5, 3, 2, 2, 16, 8, 16}, 1, check_both);
  check_convolution<lang::u8>({1, 14, 14, 32, 40, 3, 3, 1, 1, 64, 64, 96}, 1, check_compiled);
}

// ---- dynamic ----

template <class T>
void check_tokens(size_t rows, size_t cols, int64_t block) {
  auto x = normals_of<T>(rows * cols, 1, 3);
  std::fill_n(x.begin(), cols, Memory<T>{});  // a row of zeros
  const auto in = reals(x);
  std::vector<double> scales, exact;
  for (size_t r = 0; r < rows; ++r) {
    double top = 0;
    for (size_t c = 0; c < cols; ++c) top = std::max(top, std::fabs(in[r * cols + c]));
    scales.push_back(top / 127);
    for (size_t c = 0; c < cols; ++c) exact.push_back(top == 0 ? 0 : in[r * cols + c] / top * 127);
  }
  check_both(kernels::quantise_tokens<T>().ir(), {{"BLOCK", block}},
             {buffer(x), empty<int8_t>(exact.size()), empty<float>(rows), int_of(static_cast<int64_t>(rows)),
              int_of(static_cast<int64_t>(cols))},
             [&](const Arguments& out) {
               expect_rounded<lang::i8>(out[1], exact);
               expect_close(reals<lang::f32>(out[2]), scales, 1e-6);
             });
}

template <class T>
void check_dynamic(const Product& p, auto run) {
  const auto q = bytes_of<int8_t>(p.of(p.m, p.k), 1), w = bytes_of<int8_t>(p.of(p.n, p.k), 2);
  const auto rows = magnitudes(p.m, 0.01, 3), columns = magnitudes(p.n, 0.02, 4);
  const auto bias = normals(static_cast<size_t>(p.n), 5);
  auto expected = multiply(reals(q), reals(turned(w, p.k)), p.m, p.n, p.k);
  const auto width = static_cast<size_t>(p.n);
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = expected[i] * rows[i / width] * columns[i % width] + bias[i % width];
  }
  run(kernels::linear_dynamic<T>().ir(), p.config(),
      Arguments{buffer(q), buffer(w), buffer(rows), buffer(columns), buffer(bias), empty<Memory<T>>(expected.size()),
                int_of(p.m), int_of(p.n), int_of(p.k)},
      [&](const Arguments& out) { expect_product<T>(out[5], expected, 1); });
}

TEST(QuantisedLayers, OfTokens) {
  for_floats([]<class T>() {
    check_tokens<T>(3, 37, 16);
    check_dynamic<T>({17, 9, 21, 8, 4, 8}, check_both);
  });
  check_dynamic<lang::bf16>({50, 136, 300, 64, 64, 64}, check_compiled);
}

// ---- weights of few bits ----

template <class T>
void check_groups(const Product& p, int64_t group, bool zeros, auto run) {
  const int64_t ldb = (p.k + 1) / 2 + 3, groups = (p.k + group - 1) / group;
  const auto a = normals_of<T>(p.of(p.m, p.k), 1);
  const auto b = bytes_of<uint8_t>(p.of(p.n, ldb), 2);
  const auto scale = normals_of<T>(p.of(groups, p.n), 3);
  const auto zero = bytes_of<uint8_t>(p.of(groups, p.n), 4, 0, 15);
  const auto factor = reals(scale);
  std::vector<double> wide(p.of(p.k, p.n));
  for (size_t i = 0; i < wide.size(); ++i) {
    const auto columns = static_cast<size_t>(p.n), k = i / columns, n = i % columns;
    const int code = b[n * static_cast<size_t>(ldb) + k / 2] >> (k % 2 * 4) & 15;
    const size_t at = k / static_cast<size_t>(group) * columns + n;
    wide[i] = (code - (zeros ? zero[at] : 8)) * factor[at];
  }
  const auto expected = multiply(reals(a), wide, p.m, p.n, p.k);
  auto config = p.config();
  config["GROUP"] = group;
  config["ZEROS"] = zeros;
  run(kernels::matmul_w4_groups<T>().ir(), config,
      Arguments{buffer(a), buffer(b), buffer(scale), buffer(zero), empty<Memory<T>>(expected.size()), int_of(p.m),
                int_of(p.n), int_of(p.k), int_of(ldb)},
      [&](const Arguments& out) { expect_product<T>(out[4], expected, static_cast<size_t>(p.k)); });
}

TEST(QuantisedWeights, OfFourBitsInGroups) {
  check_groups<lang::f32>({17, 9, 70, 4, 8, 8}, 32, true, check_both);
  check_groups<lang::bf16>({16, 8, 140, 8, 4, 32}, 64, true, check_both);
  check_groups<lang::f16>({3, 5, 131, 8, 4, 16}, 128, false, check_both);
  check_groups<lang::bf16>({20, 144, 320, 16, 64, 32}, 32, true, check_compiled);
  check_groups<lang::bf16>({20, 144, 320, 16, 64, 64}, 64, false, check_compiled);
}

template <class T, class W>
void check_f8_weights(const Product& p, auto run) {
  const auto a = normals_of<T>(p.of(p.m, p.k), 1);
  const auto b = normals_of<W>(p.of(p.n, p.k), 2);
  const auto scale = magnitudes(p.n, 0.5, 3);
  auto expected = multiply(reals(a), reals(turned(b, p.k)), p.m, p.n, p.k);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] *= double{scale[i % scale.size()]};
  run(kernels::matmul_wf8<T, W>().ir(), p.config(),
      Arguments{buffer(a), buffer(b), buffer(scale), empty<Memory<T>>(expected.size()), int_of(p.m), int_of(p.n),
                int_of(p.k)},
      [&](const Arguments& out) { expect_product<T>(out[3], expected, static_cast<size_t>(p.k)); });
}

template <class Out>
void check_f8(const Product& p, auto run) {
  using E = lang::f8e4m3;
  const auto a = normals_of<E>(p.of(p.m, p.k), 1), b = normals_of<E>(p.of(p.n, p.k), 2);
  const auto rows = magnitudes(p.m, 0.1, 3), columns = magnitudes(p.n, 0.2, 4);
  const auto bias = normals(static_cast<size_t>(p.n), 5);
  auto expected = multiply(reals(a), reals(turned(b, p.k)), p.m, p.n, p.k);
  const auto width = static_cast<size_t>(p.n);
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = expected[i] * rows[i / width] * columns[i % width] + bias[i % width];
  }
  run(kernels::linear_f8<Out>().ir(), dsl::ConstexprValues{{"BM", p.bm}, {"BN", p.bn}},
      Arguments{buffer(a), buffer(b), buffer(rows), buffer(columns), buffer(bias), empty<Memory<Out>>(expected.size()),
                int_of(p.m), int_of(p.n), int_of(p.k)},
      [&](const Arguments& out) { expect_norm(reals<Out>(out[5]), expected, 5e-3); });
}

TEST(QuantisedWeights, OfF8) {
  check_f8_weights<lang::f32, lang::f8e4m3>({17, 9, 21, 4, 8, 8}, check_both);
  check_f8_weights<lang::bf16, lang::f8e5m2>({16, 8, 8, 8, 4, 8}, check_both);
  check_f8_weights<lang::bf16, lang::f8e4m3>({20, 144, 320, 16, 64, 64}, check_compiled);
  check_f8<lang::f32>({17, 9, 150, 8, 4, 0}, check_both);
  check_f8<lang::bf16>({50, 70, 300, 32, 32, 0}, check_compiled);
}

// ---- microscaling ----

double power(uint8_t scale) { return std::exp2(scale - 127); }

template <class T, class Q>
void check_quantise_mx(size_t rows, size_t cols, int64_t block) {
  auto x = normals_of<T>(rows * cols, 1, 1e-3);
  std::fill_n(x.begin(), 32, Memory<T>{});
  if (rows > 1) x[cols + 5] = normals_of<T>(1, 1, 0, INFINITY)[0];
  const auto in = reals(x);
  check_both(kernels::quantise_mx<T, Q>().ir(), {{"BLOCK", block}},
             {buffer(x), empty<Memory<Q>>(in.size()), empty<uint8_t>(in.size() / 32),
              int_of(static_cast<int64_t>(rows)), int_of(static_cast<int64_t>(cols))},
             [&](const Arguments& out) {
               const auto q = reals<Q>(out[1]);
               const auto scale = values_of<uint8_t>(out[2]);
               const bool is_e4m3 = std::is_same_v<Q, lang::f8e4m3>;
               for (size_t group = 0; group < scale.size(); ++group) {
                 double top = 0;
                 for (size_t i = 0; i < 32; ++i) top = std::max(top, std::fabs(in[group * 32 + i]));
                 if (std::isinf(top)) {
                   EXPECT_EQ(scale[group], 255);
                   continue;
                 }
                 const double wanted = top == 0 ? 0 : std::floor(std::log2(top)) - (is_e4m3 ? 8 : 15) + 127;
                 EXPECT_EQ(scale[group], wanted);
                 for (size_t i = group * 32; i < group * 32 + 32; ++i) {
                   // Half a step of so many bits, or what saturates: at most a seventh of the largest there is.
                   const double step =
                       std::max(std::exp2(std::floor(std::log2(std::fabs(in[i]) + 1e-300))) / (is_e4m3 ? 16 : 8),
                                power(scale[group]) * (is_e4m3 ? 0x1p-10 : 0x1p-17));
                   const double most = power(scale[group]) * (is_e4m3 ? 448 : 57344);
                   EXPECT_NEAR(q[i] * power(scale[group]), std::clamp(in[i], -most, most), step);
                 }
               }
             });
}

// What operands in memory stand for, [rows, k].
template <class E>
std::vector<double> scaled(const std::vector<Memory<E>>& x, const std::vector<uint8_t>& scale) {
  static constexpr double kE2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  std::vector<double> out;
  for (size_t i = 0; i < scale.size() * 32; ++i) {
    double v = 0;
    if constexpr (std::is_same_v<E, lang::u8>) {
      const int code = x[i / 2] >> (i % 2 * 4) & 15;
      v = kE2m1[code & 7] * (code & 8 ? -1 : 1);
    } else {
      v = double{static_cast<float>(x[i])};
    }
    out.push_back(v * power(scale[i / 32]));
  }
  return out;
}

template <class E>
void check_mx(const Product& p, auto run) {
  constexpr bool kPacked = std::is_same_v<E, lang::u8>;
  const auto make = [](size_t count, uint32_t seed) {
    if constexpr (kPacked) {
      return bytes_of<uint8_t>(count / 2, seed);
    } else {
      return normals_of<E>(count, seed);
    }
  };
  const auto a = make(p.of(p.m, p.k), 1), b = make(p.of(p.n, p.k), 2);
  const auto a_scale = bytes_of<uint8_t>(p.of(p.m, p.k / 32), 3, 125, 129);
  const auto b_scale = bytes_of<uint8_t>(p.of(p.n, p.k / 32), 4, 125, 129);
  const auto expected = multiply(scaled<E>(a, a_scale), turned(scaled<E>(b, b_scale), p.k), p.m, p.n, p.k);
  run(kernels::matmul_mx<E>().ir(), p.config(),
      Arguments{buffer(a), buffer(b), buffer(a_scale), buffer(b_scale), empty<float>(expected.size()), int_of(p.m),
                int_of(p.n), int_of(p.k)},
      [&](const Arguments& out) { expect_norm(reals<lang::f32>(out[4]), expected, 5e-3); });
}

TEST(Microscaling, QuantiseAndMultiply) {
  check_quantise_mx<lang::f32, lang::f8e4m3>(3, 96, 64);
  check_quantise_mx<lang::bf16, lang::f8e5m2>(2, 160, 64);
  check_mx<lang::f8e4m3>({17, 9, 96, 8, 4, 64}, check_both);
  check_mx<lang::f8e5m2>({3, 5, 32, 8, 4, 32}, check_both);
  check_mx<lang::u8>({17, 9, 96, 8, 4, 64}, check_both);
  check_mx<lang::f8e4m3>({50, 70, 320, 32, 32, 64}, check_compiled);
  check_mx<lang::u8>({50, 70, 320, 32, 32, 64}, check_compiled);
}

}  // namespace
}  // namespace kiln::test
