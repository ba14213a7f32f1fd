// Kernels of kernels/matmul.h.
#include <numeric>

#include "kiln/dsl/instantiate.h"
#include "products.h"
#include "sampled.h"

namespace kiln::test {
namespace {

template <class T, class Run>
void check_matmul(const Product& p, Run run) {
  using Out = kernels::ProductOf<T>;
  const auto a = elements<T>(p.of(p.m, p.k), 1), b = elements<T>(p.of(p.k, p.n), 2);
  const auto expected = multiply(reals(a), reals(b), p.m, p.n, p.k);
  run(kernels::matmul<T>().ir(), p.config(),
      Arguments{buffer(a), buffer(b), empty<Memory<Out>>(expected.size()), int_of(p.m), int_of(p.n), int_of(p.k)},
      [&](const Arguments& out) { expect_product<Out>(out[2], expected, static_cast<size_t>(p.k)); });
}

TEST(MatmulKernels, Matmul) {
  for_operands([]<class T>() {
    for (const Product& p :
         {Product{17, 9, 21, 8, 4, 8}, {16, 8, 8, 8, 4, 8}, {1, 1, 1, 8, 4, 8}, {40, 10, 5, 16, 16, 16}}) {
      check_matmul<T>(p, check_both);
    }
  });
}

TEST(MatmulKernels, RealShapes) {
  for_operands([]<class T>() { check_matmul<T>({100, 300, 768, 64, 128, 256}, check_compiled); });
  check_matmul<lang::f32>({128, 768, 768, 64, 128, 256}, check_compiled);
  if (!full()) return;
  for_operands([]<class T>() {
    for (auto [m, n, k] : {std::array<int64_t, 3>{512, 3072, 768}, {128, 4096, 4096}, {512, 1000, 2048}}) {
      check_matmul<T>({m, n, k, 128, 256, 256}, check_compiled);
    }
  });
}

TEST(MatmulKernels, InPartsOfTheInnerAxis) {
  for_operands([]<class T>() {
    check_matmul<T>({100, 300, 768, 64, 128, 64, 4}, check_compiled);
    check_matmul<T>({1, 40, 333, 16, 32, 32, 7}, check_compiled);
    check_matmul<T>({1, 40, 333, 1, 32, 32, 7}, check_compiled);
  });
}

TEST(MatmulKernels, ByWorkersThatShareIterations) {
  for_operands([]<class T>() {
    check_matmul<T>({100, 300, 768, 64, 128, 64, 2, 7}, check_compiled);
    check_matmul<T>({300, 200, 333, 64, 64, 32, 1, 13}, check_compiled);
    check_matmul<T>({1, 40, 333, 16, 32, 32, 7, 132}, check_compiled);
    check_matmul<T>({1, 40, 333, 1, 32, 32, 1, 13}, check_compiled);
  });
}

template <class T, class Run>
void check_batched(int64_t batch, const Product& p, Run run) {
  using Out = kernels::ProductOf<T>;
  const auto a = elements<T>(p.of(batch * p.m, p.k), 1), b = elements<T>(p.of(batch * p.k, p.n), 2);
  const auto x = reals(a), y = reals(b);
  std::vector<double> expected;
  for (int64_t i = 0; i < batch; ++i) {
    const std::vector<double> left(x.begin() + i * p.m * p.k, x.begin() + (i + 1) * p.m * p.k);
    const std::vector<double> right(y.begin() + i * p.k * p.n, y.begin() + (i + 1) * p.k * p.n);
    const auto one = multiply(left, right, p.m, p.n, p.k);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  run(kernels::batched_matmul<T>().ir(), p.config(),
      Arguments{buffer(a), buffer(b), empty<Memory<Out>>(expected.size()), int_of(batch), int_of(p.m), int_of(p.n),
                int_of(p.k)},
      [&](const Arguments& out) { expect_product<Out>(out[2], expected, static_cast<size_t>(p.k)); });
}

TEST(MatmulKernels, BatchedMatmul) {
  for_floats([]<class T>() {
    check_batched<T>(3, {17, 9, 21, 8, 4, 8}, check_both);
    check_batched<T>(1, {5, 30, 7, 8, 16, 8}, check_both);
  });
  check_batched<lang::f32>(12, {128, 128, 64, 64, 128, 64}, check_compiled);
  check_batched<lang::bf16>(3, {40, 72, 500, 64, 64, 64, 3}, check_compiled);
  check_batched<lang::bf16>(3, {40, 72, 500, 64, 64, 64, 2, 7}, check_compiled);
}

// Groups of these rows; behind them 3 that belong to none.
template <class T, class Run>
void check_grouped(const std::vector<int32_t>& sizes, const Product& p, Run run) {
  using Out = Memory<kernels::ProductOf<T>>;
  const int64_t rows = std::accumulate(sizes.begin(), sizes.end(), 0) + 3, groups = std::ssize(sizes);
  const auto a = elements<T>(p.of(rows, p.k), 1), b = elements<T>(p.of(groups * p.k, p.n), 2);
  const auto x = reals(a), y = reals(b);
  std::vector<double> expected;
  auto row = x.begin();
  for (int64_t g = 0; g < groups; ++g) {
    const auto end = row + sizes[static_cast<size_t>(g)] * p.k;
    const auto one = multiply({row, end}, {y.begin() + g * p.k * p.n, y.begin() + (g + 1) * p.k * p.n},
                              sizes[static_cast<size_t>(g)], p.n, p.k);
    expected.insert(expected.end(), one.begin(), one.end());
    row = end;
  }
  const TestArgument untouched = empty<Out>(p.of(rows, p.n));
  auto config = p.config();
  config["GROUPS"] = 8;
  run(kernels::grouped_matmul<T>().ir(), config,
      Arguments{buffer(a), buffer(b), buffer(sizes), untouched, int_of(rows), int_of(p.n), int_of(p.k), int_of(groups)},
      [&](const Arguments& out) {
        TestArgument written = out[3], rest = out[3];
        const auto end = static_cast<ptrdiff_t>(expected.size() * sizeof(Out));
        written.buffer.resize(static_cast<size_t>(end));
        expect_product<kernels::ProductOf<T>>(written, expected, static_cast<size_t>(p.k));
        EXPECT_TRUE(std::equal(rest.buffer.begin() + end, rest.buffer.end(), untouched.buffer.begin() + end));
      });
}

TEST(MatmulKernels, GroupedMatmul) {
  for_operands([]<class T>() {
    check_grouped<T>({5, 0, 17, 8}, {0, 9, 21, 8, 4, 8}, check_both);
    check_grouped<T>({0, 1}, {0, 30, 7, 8, 16, 8}, check_both);
  });
  check_grouped<lang::bf16>({70, 0, 3, 200, 64, 1, 0, 30}, {0, 300, 200, 64, 128, 64}, check_compiled);
  check_grouped<lang::bf16>({0, 3, 70}, {0, 120, 500, 64, 128, 64, 4}, check_compiled);
}

// Blocks of 128 along K, and of 128 rows of B, have factors of their own.
template <class Out, class Run>
void check_f8(const Product& p, double mean, double bound, Run run, int64_t spans_at_once = 1) {
  using F8 = lang::f8e4m3;
  const auto a = normals_of<F8>(p.of(p.m, p.k), 1, 0.25, mean), b = normals_of<F8>(p.of(p.n, p.k), 2, 0.25, mean);
  const int64_t spans = (p.k + 127) / 128;
  std::vector<float> a_scale(p.of(spans, p.m)), b_scale(p.of((p.n + 127) / 128, spans));
  for (size_t i = 0; i < a_scale.size(); ++i) a_scale[i] = 0.5F + static_cast<float>(i % 7) / 8;
  for (size_t i = 0; i < b_scale.size(); ++i) b_scale[i] = 0.25F + static_cast<float>(i % 3);
  auto wide_a = reals(a);
  const auto rows_of_b = reals(b);
  std::vector<double> wide_b(p.of(p.k, p.n));
  for (int64_t k = 0; k < p.k; ++k) {
    for (int64_t m = 0; m < p.m; ++m) {
      wide_a[static_cast<size_t>(m * p.k + k)] *= a_scale[static_cast<size_t>(k / 128 * p.m + m)];
    }
    for (int64_t n = 0; n < p.n; ++n) {
      wide_b[static_cast<size_t>(k * p.n + n)] =
          rows_of_b[static_cast<size_t>(n * p.k + k)] * b_scale[static_cast<size_t>(n / 128 * spans + k / 128)];
    }
  }
  const auto expected = multiply(wide_a, wide_b, p.m, p.n, p.k);
  run(kernels::matmul_f8<Out>().ir(), {{"BM", p.bm}, {"BN", p.bn}, {"SPANS", spans_at_once}},
      Arguments{buffer(a), buffer(b), buffer(a_scale), buffer(b_scale), empty<Memory<Out>>(expected.size()),
                int_of(p.m), int_of(p.n), int_of(p.k)},
      [&](const Arguments& out) { expect_norm(reals<Out>(out[4]), expected, bound); });
}

TEST(MatmulF8, FactorsByBlocks) {
  for_floats([]<class T>() {
    check_f8<T>({5, 7, 200, 4, 4, 0}, 0, 5e-3, check_both);
    check_f8<T>({9, 133, 129, 8, 8, 0}, 0, 5e-3, check_both);
    check_f8<T>({1, 1, 1, 4, 4, 0}, 0, 5e-3, check_both);
    check_f8<T>({5, 7, 200, 4, 4, 0}, 0, 5e-3, check_both, 2);
    check_f8<T>({5, 7, 300, 4, 4, 0}, 0, 5e-3, check_both, 2);
  });
  check_f8<lang::bf16>({200, 300, 512, 64, 128, 0}, 0, 5e-3, check_compiled);
  check_f8<lang::bf16>({200, 300, 896, 128, 128, 0}, 0, 5e-3, check_compiled, 2);
}

// Sums of numbers above 0, of which units that keep 14 bits would lose the small ones.
TEST(MatmulF8, LongSumsKeepTheirBits) { check_f8<lang::f32>({64, 128, 8192, 64, 128, 0}, 1, 2e-4, check_compiled); }

TEST(MatmulF8, BlocksOfBDoNotShareAProgram) {
  const auto& def = kernels::matmul_f8<lang::bf16>();
  auto instantiated = dsl::instantiate(*def.ir(), {{"BM", 64}, {"BN", 256}}, {});
  ASSERT_FALSE(instantiated);
  EXPECT_NE(instantiated.error().message.find("BN is no divisor of 128"), std::string::npos)
      << instantiated.error().message;
}

// B in panels of BN columns, `unit` rows side by side, with zeros behind the last row and column.
template <class T>
std::vector<Memory<T>> panels_of(const std::vector<Memory<T>>& b, const Product& p) {
  const int64_t unit = kernels::packed_unit_v<T>;
  std::vector<Memory<T>> out;
  for (int64_t first = 0; first < p.n; first += p.bn) {
    for (int64_t row = 0; row < p.k; row += unit) {
      for (int64_t column = first; column < first + p.bn; ++column) {
        for (int64_t i = row; i < row + unit; ++i) {
          const bool exists = column < p.n && i < p.k;
          out.push_back(exists ? b[p.of(i, p.n) + static_cast<size_t>(column)] : Memory<T>());
        }
      }
    }
  }
  return out;
}

template <class T, class Def, class Activation, class Run>
void check_bias(const Def& def, Activation activation, const Product& p, Run run, bool packed = false) {
  const auto a = normals_of<T>(p.of(p.m, p.k), 1), b = normals_of<T>(p.of(p.k, p.n), 2);
  const auto bias = normals_of<T>(static_cast<size_t>(p.n), 3);
  auto expected = multiply(reals(a), reals(b), p.m, p.n, p.k);
  const auto shift = reals(bias);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = activation(expected[i] + shift[i % shift.size()]);
  run(def.ir(), p.config(),
      Arguments{buffer(a), buffer(packed ? panels_of<T>(b, p) : b), buffer(bias), empty<Memory<T>>(expected.size()),
                int_of(p.m), int_of(p.n), int_of(p.k)},
      [&](const Arguments& out) { expect_product<T>(out[3], expected, static_cast<size_t>(p.k)); });
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double relu(double x) { return std::max(x, 0.0); }

TEST(MatmulKernels, WithBiasAndActivation) {
  for_floats([]<class T>() {
    for (const Product& p : {Product{17, 9, 21, 8, 4, 8}, {16, 8, 8, 8, 4, 8}, {2, 3, 1, 8, 4, 8}}) {
      check_bias<T>(kernels::matmul_bias_act<T>(), gelu, p, check_both);
      check_bias<T>(kernels::matmul_bias_relu<T>(), relu, p, check_both);
    }
    check_bias<T>(kernels::matmul_bias_act<T>(), gelu, {50, 136, 400, 64, 128, 64, 4}, check_compiled);
  });
}

TEST(PackedWeights, PanelsOfRowsAndOfColumns) {
  for_operands([]<class T>() {
    const Product p{0, 21, 19, 0, 8, 16};
    const auto b = elements<T>(p.of(p.k, p.n), 2);
    std::vector<Memory<T>> transposed;
    for (int64_t n = 0; n < p.n; ++n) {
      for (int64_t k = 0; k < p.k; ++k) transposed.push_back(b[static_cast<size_t>(k * p.n + n)]);
    }
    const auto panels = buffer(panels_of<T>(b, p));
    const auto check = [&](const std::vector<Memory<T>>& from, int64_t row, int64_t column) {
      const auto to = empty<std::byte>(panels.buffer.size());
      check_both(kernels::pack_weights<T>().ir(), {{"BN", p.bn}, {"BK", p.bk}},
                 Arguments{buffer(from), to, int_of(p.n), int_of(p.k), int_of(row), int_of(column)},
                 [&](const Arguments& out) { EXPECT_EQ(out[1].buffer, panels.buffer); });
    };
    check(b, p.n, 1);
    check(transposed, 1, p.k);
  });
}

template <class T, class Run>
void check_packed(const Product& p, Run run) {
  const auto a = elements<T>(p.of(p.m, p.k), 1), b = elements<T>(p.of(p.k, p.n), 2);
  const auto expected = multiply(reals(a), reals(b), p.m, p.n, p.k);
  run(kernels::matmul_packed<T>().ir(), p.config(),
      Arguments{buffer(a), buffer(panels_of<T>(b, p)), empty<Memory<kernels::ProductOf<T>>>(expected.size()),
                int_of(p.m), int_of(p.n), int_of(p.k)},
      [&](const Arguments& out) { expect_product<kernels::ProductOf<T>>(out[2], expected, static_cast<size_t>(p.k)); });
}

TEST(PackedWeights, Product) {
  const std::vector<Product> products = {{17, 9, 21, 8, 4, 8}, {1, 1, 1, 8, 4, 8}, {40, 10, 5, 16, 16, 16}};
  for_floats([&]<class T>() {
    for (const Product& p : sampled(products, 1)) {
      check_bias<T>(kernels::matmul_bias_act_packed<T>(), gelu, p, check_both, true);
    }
  });
  for_operands([&]<class T>() {
    for (const Product& p : sampled(products, 1)) check_packed<T>(p, check_both);
    // Whole blocks of K, which are read in place, and a part of one, which is not; few rows, and many.
    check_packed<T>({100, 300, 500, 64, 64, 128}, check_compiled);
    check_packed<T>({100, 64, 500, 64, 64, 128}, check_compiled);
    check_packed<T>({3, 130, 256, 8, 64, 64}, check_compiled);
    check_packed<T>({1, 130, 130, 1, 64, 64}, check_compiled);
  });
  if (!wants_targets("cpu")) return;
  // More rows than read B in place where it is not packed.
  check_packed<lang::f32>({600, 192, 768, 600, 64, 256}, check_compiled);
  check_packed<lang::f32>({600, 40, 300, 600, 16, 128}, check_compiled);
}

TEST(PackedWeights, BlocksHoldWholeUnits) {
  const auto message = [](const auto& def, int64_t bk) {
    const auto concrete = dsl::instantiate(*def.ir(), {{"BK", bk}}, {});
    return concrete ? std::string() : concrete.error().message;
  };
  const std::string expected = "BK is no multiple of the numbers in a unit of packed weights";
  EXPECT_NE(message(kernels::matmul_packed<lang::bf16>(), 47).find(expected), std::string::npos);
  EXPECT_NE(message(kernels::matmul_packed<lang::i8>(), 62).find(expected), std::string::npos);
  EXPECT_NE(message(kernels::pack_weights<lang::bf16>(), 63).find(expected), std::string::npos);
  EXPECT_EQ(message(kernels::matmul_packed<lang::i8>(), 60), "");
  EXPECT_EQ(message(kernels::matmul_packed<lang::f32>(), 47), "");
}

// The layers of DLRM's bottom and top parts.
TEST(MatmulKernels, LayersOfDlrm) {
  const int64_t batch = full() ? 2048 : 128;
  for (auto [k, n] : {std::pair<int64_t, int64_t>{13, 512}, {512, 256}, {256, 128}, {479, 1024}, {256, 1}}) {
    check_bias<lang::f32>(kernels::matmul_bias_relu(), relu, {batch, n, k, 64, 128, 256}, check_compiled);
  }
}

std::vector<double> layer(const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& bias,
                          int64_t rows, double lambda) {
  const auto n = static_cast<int64_t>(bias.size()), k = static_cast<int64_t>(w.size()) / n;
  auto out = multiply(x, w, rows, n, k);
  for (size_t i = 0; i < out.size(); ++i) {
    const double v = out[i] + bias[i % bias.size()];
    out[i] = v > lambda ? v - lambda : v < -lambda ? v + lambda : 0;
  }
  return out;
}

template <class T, class Run>
void check_mlp(int64_t rows, int64_t in, int64_t hidden, int64_t classes, const dsl::ConstexprValues& blocks, Run run) {
  auto weights = [](int64_t from, int64_t to, uint32_t seed) {
    return normals_of<T>(static_cast<size_t>(from * to), seed, 1 / std::sqrt(static_cast<double>(from)));
  };
  const auto x = normals_of<T>(static_cast<size_t>(rows * in), 1);
  const auto w1 = weights(in, hidden, 2), w2 = weights(hidden, hidden, 3), w3 = weights(hidden, hidden, 4),
             w4 = weights(hidden, classes, 5);
  const auto b1 = weights(1, hidden, 6), b2 = weights(1, hidden, 7), b3 = weights(1, hidden, 8),
             b4 = weights(1, classes, 9);
  const float lambda = 0.1f;
  auto h = layer(reals(x), reals(w1), reals(b1), rows, lambda);
  h = layer(h, reals(w2), reals(b2), rows, lambda);
  h = layer(h, reals(w3), reals(b3), rows, lambda);
  const auto expected = layer(h, reals(w4), reals(b4), rows, 0);
  dsl::ConstexprValues config = blocks;
  config.insert({{"IN", in}, {"HIDDEN", hidden}, {"OUT", classes}});
  run(kernels::mlp_softshrink<T>().ir(), config,
      Arguments{buffer(x), buffer(w1), buffer(b1), buffer(w2), buffer(b2), buffer(w3), buffer(b3), buffer(w4),
                buffer(b4), empty<Memory<T>>(expected.size()), int_of(rows), float_of(lambda)},
      [&](const Arguments& out) { expect_product<T>(out[9], expected, static_cast<size_t>(in)); });
}

TEST(MatmulKernels, MlpSoftshrink) {
  for_floats([]<class T>() {
    check_mlp<T>(7, 20, 12, 3, {{"BM", 4}, {"BK", 8}}, check_both);
    check_mlp<T>(5, 9, 16, 10, {{"BM", 8}, {"BK", 16}}, check_both);
  });
  check_mlp<lang::f32>(100, 784, 256, 10, {{"BM", 64}, {"BK", 112}}, check_compiled);
}

template <class T, class Run>
void check_interaction(int64_t batch, int64_t f, int64_t d, Run run) {
  const auto features = normals_of<T>(static_cast<size_t>(batch * f * d), 1);
  const auto x = reals(features);
  std::vector<double> expected;
  for (int64_t b = 0; b < batch; ++b) {
    const double* first = &x[static_cast<size_t>(b * f * d)];
    expected.insert(expected.end(), first, first + d);
    for (int64_t i = 0; i < f; ++i) {
      for (int64_t j = 0; j < i; ++j) {
        double total = 0;
        for (int64_t l = 0; l < d; ++l) total += first[i * d + l] * first[j * d + l];
        expected.push_back(total);
      }
    }
  }
  run(kernels::dlrm_interaction<T>().ir(), dsl::ConstexprValues{{"F", f}, {"D", d}},
      Arguments{buffer(features), empty<Memory<T>>(expected.size()), int_of(batch)},
      [&](const Arguments& out) { expect_product<T>(out[1], expected, static_cast<size_t>(d)); });
}

TEST(MatmulKernels, DlrmInteraction) {
  for_floats([]<class T>() {
    check_interaction<T>(3, 5, 6, check_both);
    check_interaction<T>(2, 2, 16, check_both);
  });
  check_interaction<lang::f32>(64, 27, 128, check_compiled);
}

}  // namespace
}  // namespace kiln::test
