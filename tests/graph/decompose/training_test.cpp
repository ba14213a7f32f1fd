// The functions of training.h against loops in f64.
#include "kiln/graph/training.h"

#include <gtest/gtest.h>

#include <cmath>

#include "evaluate/arrays.h"
#include "kiln/graph/graph.h"

namespace kiln::graph::training {
namespace {

using Numbers = std::vector<double>;

std::vector<Numbers> outputs_of(const GraphDef& def, const std::vector<Array>& inputs) {
  if (!def.ir()) {
    ADD_FAILURE() << def.ir().error().message;
    return std::vector<Numbers>(4);
  }
  auto got = evaluate(*def.ir(), inputs);
  if (!got) {
    ADD_FAILURE() << got.error().message;
    return std::vector<Numbers>(4);
  }
  std::vector<Numbers> out;
  for (const Array& array : *got) {
    out.emplace_back();
    for (int64_t i = 0; i < array.count(); ++i) out.back().push_back(array.number(i));
  }
  return out;
}

void expect_near_all(const Numbers& got, const Numbers& wanted, double relative) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], wanted[i], relative * (std::fabs(wanted[i]) + 1e-3)) << "element " << i;
  }
}

const Dim n = dim("n", 1, 1024);

TEST(Training, LionGoesByTheSign) {
  const auto def = graph("g", {input("p", f32, {n}), input("g", f32, {n}), input("m", f32, {n}), input("lr", f32, {})},
                         [](Tensor p, Tensor g, Tensor m, Tensor lr) {
                           const BufferStep next = lion_step(p, g, m, lr, {0.5, 0.75, 0.25});
                           return Tensors{next.param, next.buffer};
                         });
  const Numbers p = {1, -2, 3, 4}, g = {3, -1, 2, 0}, m = {-1, 1, -5, 0};
  const auto got =
      outputs_of(def, {array_of(f32, {4}, p), array_of(f32, {4}, g), array_of(f32, {4}, m), array_of(f32, {}, {0.5})});
  Numbers next, moved;
  for (size_t i = 0; i < 4; ++i) {
    const double towards = 0.5 * m[i] + 0.5 * g[i];
    next.push_back(p[i] * (1 - 0.125) - 0.5 * (towards > 0 ? 1 : towards < 0 ? -1 : 0));
    moved.push_back(0.75 * m[i] + 0.25 * g[i]);
  }
  EXPECT_EQ(got[0], next);
  EXPECT_EQ(got[1], moved);
}

TEST(Training, GradientsAreClippedByTheNormOfAll) {
  const auto def = graph("g", {input("a", f32, {n, 2}), input("b", bf16, {}), input("most", f32, {})},
                         [](Tensor a, Tensor b, Tensor most) {
                           const auto clipped = clip_by_global_norm({a, b}, most);
                           return Tensors{clipped[0], clipped[1], global_norm({a, b}), all_finite({a, b})};
                         });
  const auto run = [&](const Numbers& a, double b, double most) {
    return outputs_of(def, {array_of(f32, {2, 2}, a), array_of(bf16, {}, {b}), array_of(f32, {}, {most})});
  };
  const auto cut = run({3, 0, -4, 0}, 12, 6.5);
  expect_near_all(cut[0], {1.5, 0, -2, 0}, 1e-6);
  expect_near_all(cut[1], {6}, 1e-2);
  expect_near_all(cut[2], {13}, 1e-6);
  EXPECT_EQ(cut[3], Numbers{1});
  EXPECT_EQ(run({3, 0, -4, 0}, 12, 100)[0], (Numbers{3, 0, -4, 0}));
  EXPECT_EQ(run({3, 0, std::nan(""), 0}, 12, 1)[3], Numbers{0});
  EXPECT_EQ(run({3, 0, 1, 0}, -INFINITY, 1)[3], Numbers{0});
}

TEST(Training, NoTensorsAreAnErrorWithItsLine) {
  const auto def = graph("g", {input("a", f32, {n})}, [](Tensor) { return global_norm({}); });
  ASSERT_FALSE(def.ir());
  EXPECT_NE(def.ir().error().message.find("training_test.cpp"), std::string::npos) << def.ir().error().message;
  EXPECT_NE(def.ir().error().message.find("global_norm: no tensors"), std::string::npos) << def.ir().error().message;
}

TEST(Training, RowsAreQuantisedAsTheyCome) {
  const auto def =
      graph("g", {input("x", f32, {n, 3}), input("w", i8, {2, 3}), input("scale", f32, {2}), input("b", f32, {2})},
            [](Tensor x, Tensor w, Tensor scale, Tensor b) {
              const QuantisedRows rows = quantise_rows(x);
              return Tensors{rows.values, rows.scale, dynamic_linear(x, w, scale, b)};
            });
  const Numbers x = {1, -2, 0.5, 0, 0, 0, 127, 63, 1}, w = {1, 2, 3, -4, 5, 127}, scale = {0.5, 2}, b = {10, -1};
  const auto got = outputs_of(
      def, {array_of(f32, {3, 3}, x), array_of(i8, {2, 3}, w), array_of(f32, {2}, scale), array_of(f32, {2}, b)});
  Numbers values, scales, y;
  for (size_t r = 0; r < 3; ++r) {
    double top = 0;
    for (size_t c = 0; c < 3; ++c) top = std::max(top, std::fabs(x[r * 3 + c]));
    scales.push_back(top / 127);
    for (size_t c = 0; c < 3; ++c) values.push_back(top == 0 ? 0 : std::nearbyint(x[r * 3 + c] / (top / 127)));
    for (size_t o = 0; o < 2; ++o) {
      double total = 0;
      for (size_t c = 0; c < 3; ++c) total += values[r * 3 + c] * w[o * 3 + c];
      y.push_back(total * scales[r] * scale[o] + b[o]);
    }
  }
  EXPECT_EQ(got[0], values);
  expect_near_all(got[1], scales, 1e-6);
  expect_near_all(got[2], y, 1e-6);
}

TEST(Training, WeightsMustBeBytes) {
  const auto def = graph("g", {input("x", f32, {n, 3}), input("w", f32, {2, 3})},
                         [](Tensor x, Tensor w) { return dynamic_linear(x, w, 1.0); });
  ASSERT_FALSE(def.ir());
  EXPECT_NE(def.ir().error().message.find("dynamic_linear: weights are of i8, not "), std::string::npos)
      << def.ir().error().message;
}

}  // namespace
}  // namespace kiln::graph::training
