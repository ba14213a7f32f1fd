// What decompositions compute, against loops in f64. The common cases are in evaluate/vectors/composites.json; here are
// the ends of ranges, sizes that are no constants, and what must not matter.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "evaluate/arrays.h"
#include "kiln/graph/graph.h"

namespace kiln::graph::decomposing {
namespace {

using Numbers = std::vector<double>;

std::vector<Numbers> run(const GraphDef& def, const std::vector<Array>& inputs) {
  if (!def.ir()) {
    ADD_FAILURE() << def.ir().error().message;
    return {{}, {}, {}};
  }
  auto got = evaluate(*def.ir(), inputs);
  if (!got) {
    ADD_FAILURE() << got.error().message;
    return {{}, {}, {}};
  }
  std::vector<Numbers> out;
  for (const Array& array : *got) {
    out.emplace_back();
    for (int64_t i = 0; i < array.count(); ++i) out.back().push_back(array.number(i));
  }
  return out;
}

void expect_near(const Numbers& got, const Numbers& wanted, double relative) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == wanted[i] || (std::isnan(got[i]) && std::isnan(wanted[i]))) continue;
    EXPECT_NEAR(got[i], wanted[i], relative * std::fabs(wanted[i])) << "element " << i;
  }
}

// Numbers of both signs without a pattern.
Numbers some(int64_t count, int seed) {
  Numbers out;
  for (int64_t i = 0; i < count; ++i) out.push_back(std::sin(static_cast<double>(i * 7 + seed) * 1.3) * 2);
  return out;
}

const float kInf = INFINITY;

TEST(DecomposedNumbers, AttributesBeyondTheRangeOfTheTypeAreInfinite) {
  const auto def = graph("g", {input("x", f16, {3})}, [](Tensor x) { return clamp(x, -1e300, 1e300); });
  EXPECT_EQ(run(def, {array_of(f16, {3}, {-60000, 1, kInf})})[0], (Numbers{-60000, 1, kInf}));
  const auto leaky = graph("g", {input("x", f32, {2})}, [](Tensor x) { return leaky_relu(x, 1e300); });
  EXPECT_EQ(run(leaky, {array_of(f32, {2}, {-1, 1})})[0], (Numbers{-kInf, 1}));
}

TEST(DecomposedNumbers, ActivationsOfLargeNumbers) {
  const Numbers x = {-1e38, -1000, -41, -40, 0, 39, 40, 41, 1000, 3e38};
  const auto of = [&](auto function) {
    const auto def = graph("g", {input("x", f32, {dim("n")})}, function);
    return run(def, {array_of(f32, {static_cast<int64_t>(x.size())}, x)})[0];
  };
  const auto expect = [&](auto function, auto formula, double relative) {
    Numbers wanted;
    for (const double each : x) wanted.push_back(static_cast<float>(formula(static_cast<float>(each))));
    expect_near(of(function), wanted, relative);
  };
  expect([](Tensor t) { return softplus(t); }, [](double v) { return v > 300 ? v : std::log1p(std::exp(v)); }, 1e-6);
  expect([](Tensor t) { return hard_swish(t); }, [](double v) { return v * (std::fmin(std::fmax(v + 3, 0), 6) / 6); },
         1e-6);
  expect([](Tensor t) { return elu(t, 2); }, [](double v) { return v > 0 ? v : 2 * std::expm1(v); }, 1e-6);
  expect([](Tensor t) { return mish(t); },
         [](double v) { return v * std::tanh(v > 300 ? v : std::log1p(std::exp(v))); }, 1e-6);
}

TEST(DecomposedNumbers, LinearRoundsOnce) {
  // 256 + 1 has no bf16 of its own: 257 would round to 256 before the bias brings it to 258.
  const auto def = graph("g", {input("x", bf16, {1, 2}), input("w", bf16, {1, 2}), input("b", bf16, {1})},
                         [](Tensor x, Tensor w, Tensor b) { return linear(x, w, b); });
  const auto got =
      run(def, {array_of(bf16, {1, 2}, {256, 1}), array_of(bf16, {1, 2}, {1, 1}), array_of(bf16, {1}, {1})});
  EXPECT_EQ(got[0], Numbers{258});
}

TEST(DecomposedNumbers, VarianceOfFewElementsIsOverZero) {
  const auto def = graph("g", {input("x", f32, {dim("n", 0, 8), 2})},
                         [](Tensor x) { return Tensors{variance(x, {0}, 1), variance(x, {0}, 5)}; });
  const auto got = run(def, {array_of(f32, {2, 2}, {1, 5, 3, 5})});
  EXPECT_EQ(got[0], (Numbers{2, 0}));
  EXPECT_EQ(got[1][0], kInf);
  EXPECT_TRUE(std::isnan(got[1][1]));
}

TEST(DecomposedNumbers, FirstStepsOfAdamAreExact) {
  const auto def = graph(
      "g",
      {input("p", f32, {1}), input("g", f32, {1}), input("m", f32, {1}), input("v", f32, {1}), input("t", f32, {})},
      [](Tensor p, Tensor g, Tensor m, Tensor v, Tensor t) {
        const MomentStep step = adam_step(p, g, m, v, 1.0, t, {.beta2 = 0.9999});
        return Tensors{step.param, step.v};
      });
  double p = 0, m = 0, v = 0;
  for (int t = 1; t <= 5; ++t) {
    const double g = 0.25 * t;
    const auto got = run(def, {array_of(f32, {1}, {p}), array_of(f32, {1}, {g}), array_of(f32, {1}, {m}),
                               array_of(f32, {1}, {v}), array_of(f32, {}, {static_cast<double>(t)})});
    m = 0.9 * m + 0.1 * g;
    v = 0.9999 * v + 0.0001 * g * g;
    p -= m / (1 - std::pow(0.9, t)) / (std::sqrt(v / (1 - std::pow(0.9999, t))) + 1e-8);
    expect_near(got[0], {p}, 1e-6);
    expect_near(got[1], {v}, 1e-6);
  }
}

TEST(DecomposedNumbers, WithoutWeightDecayInfiniteParametersStay) {
  const auto def =
      graph("g", {input("p", f32, {1}), input("g", f32, {1})}, [](Tensor p, Tensor g) { return sgd_step(p, g, 0.5); });
  EXPECT_EQ(run(def, {array_of(f32, {1}, {kInf}), array_of(f32, {1}, {2})})[0], Numbers{kInf});
}

TEST(DecomposedNumbers, IntsOf32BitsQuantiseExactly) {
  const auto def = graph("g", {input("x", f32, {3}), input("z", i32, {})}, [](Tensor x, Tensor z) {
    const Tensor y = quantise(x, 1.0, z, i32);
    return Tensors{y, dequantise(y, 1.0, z)};
  });
  const auto got = run(def, {array_of(f32, {3}, {1, -2, 5e9}), array_of(i32, {}, {2000000001})});
  EXPECT_EQ(got[0], (Numbers{2000000002, 1999999999, 2147483647}));
  EXPECT_EQ(got[1], (Numbers{1, -2, 147483646.0F}));
}

TEST(DecomposedNumbers, IdsBeforeTheFirstBagBelongToNone) {
  for (const auto& [mode, wanted] : {std::pair{BagMode::kSum, Numbers{0, 0, 5, 50}},
                                     {BagMode::kMean, Numbers{0, 0, 2.5, 25}},
                                     {BagMode::kMax, Numbers{0, 0, 3, 30}}}) {
    const auto def = graph("g", {input("t", f32, {4, 2}), input("i", i32, {dim("m")}), input("o", i32, {dim("b")})},
                           [mode](Tensor t, Tensor i, Tensor o) { return embedding_bag(t, i, o, mode); });
    const auto got = run(def, {array_of(f32, {4, 2}, {1, 10, 2, 20, 3, 30, -9, -90}), array_of(i32, {3}, {3, 1, 2}),
                               array_of(i32, {2}, {1, 1})});
    EXPECT_EQ(got[0], wanted);
  }
}

TEST(DecomposedNumbers, BagsOfNoIdsAndNoBags) {
  const auto def =
      graph("g", {input("t", f32, {2, 1}), input("i", i64, {dim("m", 0, 9)}), input("o", i64, {dim("b", 0, 9)})},
            [](Tensor t, Tensor i, Tensor o) { return embedding_bag(t, i, o, BagMode::kMax); });
  EXPECT_EQ(run(def, {array_of(f32, {2, 1}, {1, 2}), array_of(i64, {0}, {}), array_of(i64, {2}, {0, 0})})[0],
            (Numbers{0, 0}));
  EXPECT_EQ(run(def, {array_of(f32, {2, 1}, {1, 2}), array_of(i64, {1}, {1}), array_of(i64, {0}, {})})[0], Numbers{});
}

// q [b, h, m, d] of h = 3·g heads over g, all of symbolic sizes.
TEST(DecomposedNumbers, GroupedHeadsOfSymbolicNumber) {
  const Dim b = dim("b"), g = dim("g"), m = dim("m"), n = dim("n"), d = dim("d");
  const auto def = graph("g",
                         {input("q", f32, {b, 3 * g, m, d}), input("k", f32, {b, g, n, d}),
                          input("v", f32, {b, g, n, 2}), input("mask", i1, {3 * g, 1, n})},
                         [](Tensor q, Tensor k, Tensor v, Tensor mask) {
                           return attention(q, k, v, {.causal = true, .window = 2}, mask);
                         });
  const int64_t B = 2, G = 2, M = 4, N = 3, D = 5, H = 3 * G;
  const Numbers q = some(B * H * M * D, 1), k = some(B * G * N * D, 2), v = some(B * G * N * 2, 3);
  Numbers mask;
  for (int64_t i = 0; i < H * N; ++i) mask.push_back(i % 5 != 0);
  Numbers wanted;
  for (int64_t bi = 0; bi < B; ++bi) {
    for (int64_t h = 0; h < H; ++h) {
      for (int64_t mi = 0; mi < M; ++mi) {
        double total = 0, y[2] = {0, 0};
        for (int64_t ni = 0; ni < N; ++ni) {
          if (ni > mi + N - M || ni <= mi + N - M - 2 || mask[static_cast<size_t>(h * N + ni)] == 0) continue;
          double score = 0;
          for (int64_t i = 0; i < D; ++i) {
            score += q[static_cast<size_t>(((bi * H + h) * M + mi) * D + i)] *
                     k[static_cast<size_t>(((bi * G + h / 3) * N + ni) * D + i)];
          }
          const double e = std::exp(score / std::sqrt(D));
          total += e;
          for (int64_t i = 0; i < 2; ++i) y[i] += e * v[static_cast<size_t>(((bi * G + h / 3) * N + ni) * 2 + i)];
        }
        for (const double each : y) wanted.push_back(total == 0 ? 0 : each / total);
      }
    }
  }
  const auto got = run(def, {array_of(f32, {B, H, M, D}, q), array_of(f32, {B, G, N, D}, k),
                             array_of(f32, {B, G, N, 2}, v), array_of(i1, {H, 1, N}, mask)});
  expect_near(got[0], wanted, 1e-5);
}

TEST(DecomposedNumbers, AddedMaskOfMinusInfinityHidesARow) {
  const auto def = graph("g", {input("q", f32, {1, 1, 2, 2}), input("mask", f32, {2, 2})},
                         [](Tensor q, Tensor mask) { return attention(q, q, q, {}, mask); });
  const auto got =
      run(def, {array_of(f32, {1, 1, 2, 2}, {1, 2, 3, 4}), array_of(f32, {2, 2}, {-kInf, -kInf, 0, -kInf})});
  EXPECT_EQ(got[0], (Numbers{0, 0, 1, 2}));
}

TEST(DecomposedNumbers, WhatPagesHoldBehindTheEndDoesNotMatter) {
  const Dim b = dim("b"), t = dim("t"), p = dim("p");
  const auto def = graph("g",
                         {input("q", f32, {b, 1, 1}), input("k", f32, {p, 1, 2, 1}), input("v", f32, {p, 1, 2, 1}),
                          input("table", i32, {b, t}), input("lengths", i32, {b})},
                         [](Tensor q, Tensor k, Tensor v, Tensor table, Tensor lengths) {
                           return paged_attention(q, k, v, table, lengths);
                         });
  const double nan = NAN;
  // Page 1 is half full; the second entries of the table are of no page.
  const auto got = run(def, {array_of(f32, {2, 1, 1}, {0, 0}), array_of(f32, {2, 1, 2, 1}, {1, 2, 3, nan}),
                             array_of(f32, {2, 1, 2, 1}, {10, 20, 30, nan}), array_of(i32, {2, 2}, {0, 99, 1, -7}),
                             array_of(i32, {2}, {2, 1})});
  EXPECT_EQ(got[0], (Numbers{15, 30}));
}

TEST(DecomposedNumbers, PairsOfManyFeatures) {
  for (const bool diagonal : {false, true}) {
    const int64_t features = 400, rows = features + 1;
    const auto def = graph("g", {input("d", f32, {1, 1}), input("f", f32, {1, features, 1})},
                           [diagonal](Tensor d, Tensor f) { return interaction(d, f, diagonal); });
    Numbers f;
    for (int64_t i = 1; i < rows; ++i) f.push_back(static_cast<double>(i));
    Numbers wanted = {1000};
    const auto row = [](int64_t i) { return i == 0 ? 1000.0 : static_cast<double>(i); };
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < i + diagonal; ++j) wanted.push_back(row(i) * row(j));
    }
    EXPECT_EQ(run(def, {array_of(f32, {1, 1}, {1000}), array_of(f32, {1, features, 1}, f)})[0], wanted);
  }
}

TEST(DecomposedNumbers, DropoutNextToOneLeavesNothing) {
  const auto def =
      graph("g", {input("x", f32, {1000})}, [](Tensor x) { return dropout(x, std::nextafter(1.0, 0.0), 1, 2); });
  EXPECT_EQ(run(def, {array_of(f32, {1000}, some(1000, 1))})[0], Numbers(1000, 0.0));
}

TEST(DecomposedNumbers, AnIgnoredNumberThatTargetsCannotBe) {
  const auto def = graph("g", {input("x", f32, {2, 2}), input("t", u8, {2})},
                         [](Tensor x, Tensor t) { return cross_entropy(x, t, LossReduction::kSum, -100); });
  expect_near(run(def, {array_of(f32, {2, 2}, {0, 0, 0, 0}), array_of(u8, {2}, {0, 1})})[0], {2 * std::numbers::ln2},
              1e-6);
}

TEST(DecomposedNumbers, GroupNormOfSymbolicChannels) {
  const auto def = graph("g", {input("x", f64, {dim("b"), 4 * dim("c"), 2})},
                         [](Tensor x) { return group_norm(x, 2, {}, {}, 0.5); });
  const Numbers x = some(2 * 8 * 2, 4);
  Numbers wanted;
  for (size_t group = 0; group < 4; ++group) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < 8; ++i) mean += x[group * 8 + i] / 8;
    for (size_t i = 0; i < 8; ++i) square += std::pow(x[group * 8 + i] - mean, 2) / 8;
    for (size_t i = 0; i < 8; ++i) wanted.push_back((x[group * 8 + i] - mean) / std::sqrt(square + 0.5));
  }
  expect_near(run(def, {array_of(f64, {2, 8, 2}, x)})[0], wanted, 1e-12);
}

}  // namespace
}  // namespace kiln::graph::decomposing
