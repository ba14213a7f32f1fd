// The kernel library on the interpreter, against float64, with tails in every masked dimension.
#include <cmath>

#include "builder_helpers.h"
#include "kiln/dsl/kernels.h"
#include "kiln/dsl/library_names.h"
#include "kiln/dsl/text.h"

namespace kiln::dsl {
namespace {

using lang::i32;
using lang::Ptr;

static_assert(std::is_same_v<std::remove_cvref_t<decltype(kernels::vector_add())>,
                             KernelDef<Ptr<const lang::f32>, Ptr<const lang::f32>, Ptr<lang::f32>, i32>>);
static_assert(std::is_same_v<std::remove_cvref_t<decltype(kernels::matmul<lang::bf16>())>,
                             KernelDef<Ptr<const lang::bf16>, Ptr<const lang::bf16>, Ptr<lang::bf16>, i32, i32, i32>>);

// Numbers without pattern in [-2, 2].
std::vector<float> noise(size_t count, uint32_t seed) {
  std::vector<float> out(count);
  for (float& x : out) {
    seed = seed * 1664525 + 1013904223;
    x = static_cast<float>(seed >> 8) / (1 << 22) - 2;
  }
  return out;
}

Argument count_of(int n) { return number(static_cast<int64_t>(n)); }

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

void expect_near(double out, double expected) { EXPECT_NEAR(out, expected, 1e-5 + 1.3e-6 * std::abs(expected)); }

TEST(LibraryKernels, TheListVerifiesAndHasNamesSpacesAndGrids) {
  EXPECT_EQ(library_kernels().size(), 116u);
  std::string_view last;
  for (const LibraryKernel& entry : library_kernels()) {
    ASSERT_TRUE(entry.ir->ok()) << entry.name << ": " << entry.ir->error().message;
    const Kernel& kernel = entry.ir->value();
    EXPECT_LT(last, entry.name);
    last = entry.name;
    EXPECT_EQ(kernel.name, entry.name);
    auto verified = verify(kernel);
    EXPECT_TRUE(verified.ok()) << verified.error().message;
    for (const Constexpr& constant : kernel.constexprs) EXPECT_TRUE(constant.default_value) << constant.name;
  }
}

TEST(LibraryKernels, AreFoundByTheirNames) {
  const auto names = library_kernel_names();
  ASSERT_EQ(names.size(), library_kernels().size());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(names[i], library_kernels()[i].name);
    EXPECT_EQ(find_library_kernel(names[i]), library_kernels()[i].ir) << names[i];
  }
  EXPECT_EQ(find_library_kernel("soft"), nullptr);
  EXPECT_EQ(find_library_kernel(""), nullptr);
}

TEST(LibraryKernels, AllElementTypes) {
  auto check = [](const auto& def) { traced(def); };
  check(kernels::vector_add<lang::f16>());
  check(kernels::bias_gelu<lang::bf16>());
  check(kernels::softmax<lang::bf16>());
  check(kernels::layer_norm<lang::f16>());
  check(kernels::row_sum<lang::bf16>());
  check(kernels::matmul<lang::f16>());
  check(kernels::matmul_bias_act<lang::bf16>());
  check(kernels::sin2_cos2<lang::f16>());
}

TEST(LibraryKernels, ExponentialsAreAsAccurateAsTheTypeOfTheRowsCanTell) {
  auto count = [](const Result<Kernel>& kernel, std::string_view what) {
    const std::string text = print(*kernel);
    int out = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++out;
    return out;
  };
  for (const Result<Kernel>* narrow :
       {&kernels::softmax<lang::bf16>().ir(), &kernels::softmax_long<lang::f16>().ir(),
        &kernels::log_softmax<lang::bf16>().ir(), &kernels::cross_entropy<lang::bf16>().ir(),
        &kernels::cross_entropy_backward<lang::bf16>().ir()}) {
    EXPECT_GT(count(*narrow, "fn = exp"), 0);
    EXPECT_EQ(count(*narrow, "fn = exp, fast = 1"), count(*narrow, "fn = exp")) << (*narrow)->name;
  }
  for (const Result<Kernel>* wide :
       {&kernels::softmax<>().ir(), &kernels::softmax_long<>().ir(), &kernels::log_softmax<>().ir(),
        &kernels::cross_entropy<>().ir(), &kernels::cross_entropy_backward<>().ir()}) {
    EXPECT_GT(count(*wide, "fn = exp"), 0);
    EXPECT_EQ(count(*wide, "fast"), 0) << (*wide)->name;
  }
}

TEST(LibraryKernels, VectorAdd) {
  for (int n : {1, 15, 16, 17, 100}) {
    auto x = noise(n, 1), y = noise(n, 2);
    std::vector<float> out(n);
    run(traced(kernels::vector_add()), {{"BLOCK", 16}}, {buffer(x), buffer(y), buffer(out), count_of(n)});
    for (int i = 0; i < n; ++i) EXPECT_EQ(out[i], x[i] + y[i]);
  }
}

TEST(LibraryKernels, Sin2Cos2) {
  auto x = noise(37, 3);
  std::vector<float> y(37);
  run(traced(kernels::sin2_cos2()), {{"BLOCK", 16}}, {buffer(x), buffer(y), count_of(37)});
  for (float value : y) EXPECT_NEAR(value, 1, 1e-6);
}

TEST(LibraryKernels, BiasGelu) {
  for (auto [rows, cols] : {std::pair{7, 13}, {8, 16}, {1, 1}}) {
    auto x = noise(rows * cols, 4), bias = noise(cols, 5);
    std::vector<float> y(rows * cols);
    run(traced(kernels::bias_gelu()), {{"BR", 4}, {"BC", 8}},
        {buffer(x), buffer(bias), buffer(y), count_of(rows), count_of(cols)});
    for (int i = 0; i < rows * cols; ++i) expect_near(y[i], gelu(double{x[i]} + bias[i % cols]));
  }
}

TEST(LibraryKernels, Softmax) {
  const int rows = 5, cols = 13, stride = 17;
  auto x = noise(rows * stride, 6);
  std::vector<float> y(rows * stride, -1);
  run(traced(kernels::softmax()), {{"BLOCK", 16}},
      {buffer(x), buffer(y), count_of(rows), count_of(cols), count_of(stride)});
  for (int r = 0; r < rows; ++r) {
    double total = 0;
    for (int c = 0; c < cols; ++c) total += std::exp(double{x[r * stride + c]});
    for (int c = 0; c < cols; ++c) expect_near(y[r * stride + c], std::exp(double{x[r * stride + c]}) / total);
    for (int c = cols; c < stride; ++c) EXPECT_EQ(y[r * stride + c], -1);
  }
}

TEST(LibraryKernels, LayerNormWithMeanFarFromZero) {
  const int rows = 4, cols = 21, stride = 24;
  auto x = noise(rows * stride, 7), weight = noise(cols, 8), bias = noise(cols, 9);
  for (float& value : x) value += 10;  // a masked-off lane that counted would show
  std::vector<float> y(rows * stride, -1);
  const float eps = 1e-5f;
  run(traced(kernels::layer_norm()), {{"BLOCK", 32}},
      {buffer(x), buffer(weight), buffer(bias), buffer(y), count_of(rows), count_of(cols), count_of(stride),
       number(eps)});
  for (int r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    for (int c = 0; c < cols; ++c) mean += double{x[r * stride + c]} / cols;
    for (int c = 0; c < cols; ++c) variance += std::pow(x[r * stride + c] - mean, 2) / cols;
    for (int c = 0; c < cols; ++c) {
      expect_near(y[r * stride + c], (x[r * stride + c] - mean) / std::sqrt(variance + eps) * weight[c] + bias[c]);
    }
    EXPECT_EQ(y[r * stride + cols], -1);
  }
}

TEST(LibraryKernels, RowSum) {
  const int rows = 3, cols = 45, stride = 50;
  auto x = noise(rows * stride, 10);
  std::vector<float> y(rows);
  run(traced(kernels::row_sum()), {{"BLOCK", 16}},
      {buffer(x), buffer(y), count_of(rows), count_of(cols), count_of(stride)});
  for (int r = 0; r < rows; ++r) {
    double total = 0;
    for (int c = 0; c < cols; ++c) total += x[r * stride + c];
    expect_near(y[r], total);
  }
}

TEST(LibraryKernels, RowSumOfBf16SumsInF32) {
  const std::vector<kiln::bf16> x(1000, kiln::bf16::from(1));
  std::vector<kiln::bf16> y(1);
  run(traced(kernels::row_sum<lang::bf16>()), {{"BLOCK", 16}},
      {buffer(x), buffer(y), count_of(1), count_of(1000), count_of(1000)});
  EXPECT_EQ(static_cast<float>(y[0]), 1000);
}

template <class Def>
void check_matmul(const Def& def, bool with_bias) {
  for (auto [m, n, k] : {std::array{17, 9, 21}, {16, 8, 8}, {1, 1, 1}, {40, 10, 5}}) {
    auto a = noise(m * k, 11), b = noise(k * n, 12), bias = noise(n, 13);
    std::vector<float> c(m * n);
    std::vector<Argument> arguments = {buffer(a), buffer(b), buffer(c), count_of(m), count_of(n), count_of(k)};
    if (with_bias) arguments.insert(arguments.begin() + 2, buffer(bias));
    run(traced(def), {{"BM", 8}, {"BN", 4}, {"BK", 8}}, arguments);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double product = 0;
        for (int l = 0; l < k; ++l) product += double{a[i * k + l]} * b[l * n + j];
        expect_near(c[i * n + j], with_bias ? gelu(product + bias[j]) : product);
      }
    }
  }
}

TEST(LibraryKernels, Matmul) { check_matmul(kernels::matmul(), false); }
TEST(LibraryKernels, MatmulBiasAct) { check_matmul(kernels::matmul_bias_act(), true); }

}  // namespace
}  // namespace kiln::dsl
