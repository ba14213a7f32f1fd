// Every kernel of the library, compiled, against the interpreter: odd shapes, tails in every dimension, several
// configs.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cuda_device.h"
#include "harness.h"
#include "kiln/dsl/kernels.h"

namespace kiln::test {
namespace {

std::vector<float> normals(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& x : out) x = normal(generator);
  return out;
}

TestArgument floats(size_t count, uint32_t seed) { return buffer(normals(count, seed)); }
TestArgument number(int64_t value) { return scalar_bits(static_cast<uint32_t>(value)); }

void expect_close(const std::vector<float>& actual, const std::vector<float>& expected, double rtol, double atol) {
  ASSERT_EQ(actual.size(), expected.size());
  size_t wrong = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i], e = expected[i];
    const bool same = (std::isnan(a) && std::isnan(e)) || a == e || std::fabs(a - e) <= atol + rtol * std::fabs(e);
    if (!same && ++wrong <= 3) ADD_FAILURE() << "at " << i << ": " << a << " instead of " << e;
  }
  EXPECT_EQ(wrong, 0u);
}

struct Case {
  dsl::ConstexprValues constexprs;
  std::vector<TestArgument> arguments;
};

void check(const Result<dsl::Kernel>& ir, const Case& test, double rtol = 4e-6, double atol = 1e-5) {
  ASSERT_TRUE(ir.ok()) << ir.error().message;
  auto artifact = compile(*ir, test.constexprs);
  if (is_refused(artifact)) return;
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  std::vector<TestArgument> actual = test.arguments, expected = test.arguments;
  auto ran = run_compiled(*ir, *artifact, actual);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  auto interpreted = run_interpreted(*ir, test.constexprs, {}, expected);
  ASSERT_TRUE(interpreted.ok()) << interpreted.error().message;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i].is_buffer) expect_close(values_of<float>(actual[i]), values_of<float>(expected[i]), rtol, atol);
  }
}

TEST(LibraryOnCpu, VectorAdd) {
  for (int64_t n : {1, 15, 64, 1000, 4096, 10007}) {
    for (int64_t block : {64, 100, 1024}) {
      SCOPED_TRACE(std::to_string(n) + " by " + std::to_string(block));
      const auto size = static_cast<size_t>(n);
      check(kernels::vector_add().ir(),
            {{{"BLOCK", block}}, {floats(size, 1), floats(size, 2), floats(size, 3), number(n)}});
    }
  }
}

TEST(LibraryOnCpu, Sin2Cos2) {
  for (int64_t n : {1, 1000, 4097}) {
    const auto size = static_cast<size_t>(n);
    check(kernels::sin2_cos2().ir(), {{{"BLOCK", 512}}, {floats(size, 1), floats(size, 3), number(n)}});
  }
}

TEST(LibraryOnCpu, BiasGelu) {
  for (auto [rows, cols] : {std::pair<int64_t, int64_t>{1, 1}, {3, 17}, {7, 1000}, {33, 129}}) {
    for (auto [br, bc] : {std::pair<int64_t, int64_t>{1, 64}, {4, 100}, {4, 1024}}) {
      SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(cols) + " by " + std::to_string(br) + "x" +
                   std::to_string(bc));
      const auto size = static_cast<size_t>(rows * cols);
      check(kernels::bias_gelu().ir(),
            {{{"BR", br}, {"BC", bc}},
             {floats(size, 1), floats(static_cast<size_t>(cols), 2), floats(size, 3), number(rows), number(cols)}});
    }
  }
}

TEST(LibraryOnCpu, Softmax) {
  for (auto [rows, cols, block] :
       {std::array<int64_t, 3>{1, 1, 64}, {3, 17, 17}, {5, 1000, 1024}, {2, 1024, 1024}, {4, 300, 777}}) {
    SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(cols) + " by " + std::to_string(block));
    const int64_t stride = cols + 3;
    const auto size = static_cast<size_t>((rows - 1) * stride + cols);
    check(kernels::softmax().ir(),
          {{{"BLOCK", block}}, {floats(size, 1), floats(size, 2), number(rows), number(cols), number(stride)}});
  }
}

TEST(LibraryOnCpu, LayerNorm) {
  for (auto [rows, cols, block] :
       {std::array<int64_t, 3>{1, 1, 64}, {3, 17, 17}, {5, 1000, 1024}, {2, 768, 768}, {4, 300, 777}}) {
    SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(cols) + " by " + std::to_string(block));
    const auto size = static_cast<size_t>(rows * cols), width = static_cast<size_t>(cols);
    check(kernels::layer_norm().ir(),
          {{{"BLOCK", block}},
           {floats(size, 1), floats(width, 2), floats(width, 3), floats(size, 4), number(rows), number(cols),
            number(cols), scalar_bits(std::bit_cast<uint32_t>(1e-5f))}});
  }
}

TEST(LibraryOnCpu, RowSum) {
  for (auto [rows, cols, block] :
       {std::array<int64_t, 3>{1, 1, 64}, {3, 17, 17}, {5, 1000, 256}, {2, 5000, 1024}, {4, 300, 77}}) {
    SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(cols) + " by " + std::to_string(block));
    const auto size = static_cast<size_t>(rows * cols), out = static_cast<size_t>(rows);
    check(kernels::row_sum().ir(),
          {{{"BLOCK", block}}, {floats(size, 1), floats(out, 2), number(rows), number(cols), number(cols)}}, 1e-5,
          1e-4);
  }
}

TEST(LibraryOnCpu, Matmul) {
  for (auto [m, n, k] :
       {std::array<int64_t, 3>{1, 1, 1}, {17, 33, 5}, {64, 64, 64}, {100, 75, 130}, {1, 70, 300}, {70, 1, 40}}) {
    for (auto [bm, bn, bk] : {std::array<int64_t, 3>{32, 64, 64}, {128, 128, 256}, {7, 40, 30}, {1, 1, 1}}) {
      if (bm == 1 && m * n * k > 4000) continue;
      if (on_cuda() && bk == 256) continue;  // more shared memory than a block has
      SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " by " + std::to_string(bm));
      check(kernels::matmul().ir(),
            {{{"BM", bm}, {"BN", bn}, {"BK", bk}},
             {floats(static_cast<size_t>(m * k), 1), floats(static_cast<size_t>(k * n), 2),
              floats(static_cast<size_t>(m * n), 3), number(m), number(n), number(k)}},
            1e-4, 1e-4);
    }
  }
}

TEST(LibraryOnCpu, MatmulBiasAct) {
  check(
      kernels::matmul_bias_act().ir(),
      {{{"BM", 32}, {"BN", 64}, {"BK", 48}},
       {floats(50 * 70, 1), floats(70 * 90, 2), floats(90, 5), floats(50 * 90, 3), number(50), number(90), number(70)}},
      1e-4, 1e-4);
}

}  // namespace
}  // namespace kiln::test
