// Kernels of kernels/matmul_fused.h.
#include "kiln/dsl/instantiate.h"
#include "products.h"

namespace kiln::test {
namespace {

template <class T, class Run>
void check_residual(const Product& p, Run run) {
  const auto a = normals_of<T>(p.of(p.m, p.k), 1), b = normals_of<T>(p.of(p.k, p.n), 2);
  const auto bias = normals_of<T>(static_cast<size_t>(p.n), 3), residual = normals_of<T>(p.of(p.m, p.n), 4);
  auto expected = multiply(reals(a), reals(b), p.m, p.n, p.k);
  const auto shift = reals(bias), rest = reals(residual);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += shift[i % shift.size()] + rest[i];
  run(kernels::matmul_bias_residual<T>().ir(), p.config(),
      Arguments{buffer(a), buffer(b), buffer(bias), buffer(residual), empty<Memory<T>>(expected.size()), int_of(p.m),
                int_of(p.n), int_of(p.k)},
      [&](const Arguments& out) { expect_product<T>(out[4], expected, static_cast<size_t>(p.k)); });
}

TEST(FusedProducts, WithBiasAndResidual) {
  for_floats([]<class T>() {
    for (const Product& p : {Product{17, 9, 21, 8, 4, 8}, {16, 8, 8, 8, 4, 8}, {2, 3, 1, 8, 4, 8}}) {
      check_residual<T>(p, check_both);
    }
    check_residual<T>({50, 136, 400, 64, 128, 64, 4}, check_compiled);
  });
}

std::vector<float> factors(int64_t count, float first) {
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = first * (1 + static_cast<float>(i % 5));
  return out;
}

// Half a step from what float64 says, and what f32 loses of it. Some results are out of range.
template <class Out>
void expect_quantised(const TestArgument& out, const std::vector<double>& exact, double top) {
  const bool whole = std::is_same_v<Out, lang::i8>;
  const std::vector<double> actual = reals<Out>(out);
  ASSERT_EQ(actual.size(), exact.size());
  size_t wrong = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double wanted = std::clamp(exact[i], whole ? -top - 1 : -top, top);
    const double step = whole ? 1 : std::max(std::exp2(std::floor(std::log2(std::fabs(wanted) + 1e-30)) - 3), 0x1p-9);
    const bool close = std::fabs(actual[i] - wanted) <= step / 2 + 1e-4 * std::max(1.0, std::fabs(exact[i]));
    if (!close && ++wrong <= 3) ADD_FAILURE() << "at " << i << ": " << actual[i] << " instead of " << wanted;
  }
  EXPECT_EQ(wrong, 0u);
}

template <class T, class Out, class Run>
void check_quantise(const Product& p, float scale, Run run) {
  const auto a = elements<T>(p.of(p.m, p.k), 1), b = elements<T>(p.of(p.k, p.n), 2);
  const auto rows = factors(p.m, scale), columns = factors(p.n, 0.5F);
  auto exact = multiply(reals(a), reals(b), p.m, p.n, p.k);
  for (size_t i = 0; i < exact.size(); ++i) {
    exact[i] *= double{rows[i / static_cast<size_t>(p.n)]} * double{columns[i % static_cast<size_t>(p.n)]};
  }
  run(kernels::matmul_quantise<T, Out>().ir(), p.config(),
      Arguments{buffer(a), buffer(b), buffer(rows), buffer(columns), empty<Memory<Out>>(exact.size()), int_of(p.m),
                int_of(p.n), int_of(p.k)},
      [&](const Arguments& out) { expect_quantised<Out>(out[4], exact, std::is_same_v<Out, lang::i8> ? 127 : 448); });
}

TEST(FusedProducts, Quantised) {
  for_floats([]<class T>() {
    for (const Product& p : {Product{17, 9, 21, 8, 4, 8}, {2, 3, 1, 8, 4, 8}}) {
      check_quantise<T, lang::i8>(p, 2, check_both);
      check_quantise<T, lang::f8e4m3>(p, 8, check_both);
    }
  });
  check_quantise<lang::i8, lang::i8>({17, 9, 21, 8, 4, 8}, 1e-4F, check_both);
  check_quantise<lang::bf16, lang::i8>({100, 136, 300, 64, 128, 64}, 0.5F, check_compiled);
  check_quantise<lang::bf16, lang::f8e4m3>({100, 136, 300, 64, 128, 64, 3}, 1, check_compiled);
}

template <class T, class Run>
void check_w8(const Product& p, Run run) {
  const auto a = normals_of<T>(p.of(p.m, p.k), 1);
  const auto b = elements<lang::i8>(p.of(p.n, p.k), 2);
  const auto scale = factors(p.n, 0.01F);
  auto expected = multiply(reals(a), reals(turned(b, p.k)), p.m, p.n, p.k);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] *= double{scale[i % scale.size()]};
  run(kernels::matmul_w8<T>().ir(), p.config(),
      Arguments{buffer(a), buffer(b), buffer(scale), empty<Memory<T>>(expected.size()), int_of(p.m), int_of(p.n),
                int_of(p.k)},
      [&](const Arguments& out) { expect_product<T>(out[3], expected, static_cast<size_t>(p.k)); });
}

TEST(FusedProducts, WeightsOfEightBits) {
  for_floats([]<class T>() {
    for (const Product& p : {Product{17, 9, 21, 4, 8, 8}, {16, 8, 8, 8, 4, 8}, {1, 1, 1, 8, 4, 8}}) {
      check_w8<T>(p, check_both);
    }
    check_w8<T>({20, 144, 320, 16, 64, 64}, check_compiled);
    check_w8<T>({80, 144, 320, 64, 64, 128, 2}, check_compiled);
  });
}

template <class T, class Run>
void check_w4(const Product& p, int64_t ldb, Run run) {
  const auto a = normals_of<T>(p.of(p.m, p.k), 1);
  const auto bytes = ints(p.of(p.n, ldb), 0, 256, 2);
  const std::vector<uint8_t> b(bytes.begin(), bytes.end());
  const auto scale = normals_of<T>(p.of((p.k + 127) / 128, p.n), 3);
  const auto factor = reals(scale);
  std::vector<double> wide(p.of(p.k, p.n));
  for (size_t i = 0; i < wide.size(); ++i) {
    const auto columns = static_cast<size_t>(p.n), k = i / columns, n = i % columns;
    const int code = b[n * static_cast<size_t>(ldb) + k / 2] >> (k % 2 * 4) & 15;
    wide[i] = (code - 8) * factor[k / 128 * columns + n];
  }
  const auto expected = multiply(reals(a), wide, p.m, p.n, p.k);
  run(kernels::matmul_w4<T>().ir(), p.config(),
      Arguments{buffer(a), buffer(b), buffer(scale), empty<Memory<T>>(expected.size()), int_of(p.m), int_of(p.n),
                int_of(p.k), int_of(ldb)},
      [&](const Arguments& out) { expect_product<T>(out[3], expected, static_cast<size_t>(p.k)); });
}

TEST(FusedProducts, WeightsOfFourBits) {
  for_floats([]<class T>() {
    for (const Product& p : {Product{17, 9, 22, 4, 8, 8}, {16, 8, 140, 8, 4, 16}, {1, 1, 1, 8, 4, 8}}) {
      check_w4<T>(p, (p.k + 1) / 2 + 3, check_both);
    }
    check_w4<T>({20, 144, 320, 16, 64, 64}, 160, check_compiled);
    check_w4<T>({80, 144, 320, 64, 64, 128, 2}, 160, check_compiled);
  });
}

TEST(FusedProducts, BlocksOfWeightsShareAScale) {
  const auto instantiated = dsl::instantiate(*kernels::matmul_w4().ir(), {{"BK", 256}}, {});
  ASSERT_FALSE(instantiated);
  EXPECT_NE(instantiated.error().message.find("BK is no divisor of 128"), std::string::npos);
}

}  // namespace
}  // namespace kiln::test
