// Activations, softmax, norms and losses in the forms in which exporters write them, and what only looks like them.
#include <numbers>

#include "recognise/recognising.h"

namespace kiln::graph::recognising {
namespace {

using enum TensorOp;

std::vector<InputSpec> x_of(ElementType type = f32) { return {input("x", type, {dim("b"), dim("n"), 6})}; }

// A reduction whose axis comes back by a reshape.
Tensor sum_reshaped(const Tensor& x) { return expand_dims(sum(x, {-1}), -1); }

// --- activations ---

TEST(Recognise, Sigmoid) {
  recognised(x_of(), [](Tensor x) { return 1 / (1 + exp(-x)); }, {{kSigmoid, 1}});
  recognised(x_of(), [](Tensor x) { return 1 / (exp(x * -1) + 1); }, {{kSigmoid, 1}});
  recognised(x_of(), [](Tensor x) { return pow(exp(0 - x) + 1.0, -1.0); }, {{kSigmoid, 1}});
}

TEST(Recognise, NotSigmoid) {
  recognised(x_of(), [](Tensor x) { return 1 / (1 + exp(x)); }, {});
  recognised(x_of(), [](Tensor x) { return exp(x) / (1 + exp(x)); }, {});
  recognised(x_of(), [](Tensor x) { return 1 / (2 + exp(-x)); }, {});
  recognised(x_of(), [](Tensor x) { return 2 / (1 + exp(-x)); }, {});
}

TEST(Recognise, Silu) {
  recognised(x_of(), [](Tensor x) { return x / (1 + exp(-x)); }, {{kSilu, 1}});
  recognised(x_of(), [](Tensor x) { return (1 / (1 + exp(-x))) * x; }, {{kSilu, 1}});
  recognised(x_of(), [](Tensor x) { return x * sigmoid(x); }, {{kSilu, 1}});
  recognised(x_of(), [](Tensor x) { return x * sigmoid(x + 1); }, {});
}

TEST(Recognise, WhatOthersUseStaysComputed) {
  const Graph after = recognised(x_of(),
                                 [](Tensor x) {
                                   const Tensor gate = 1 / (1 + exp(-x));
                                   return Tensors{x * gate, gate, exp(-x)};
                                 },
                                 {{kSilu, 1}, {kSigmoid, 1}});
  EXPECT_EQ(after.main().nodes.size(), 4u);  // neg, exp, sigmoid, silu
}

TEST(Recognise, GeluByErf) {
  const double c = std::numbers::sqrt2 / 2;
  const Found gelu = {{kGelu, 1}};
  recognised(x_of(), [&](Tensor x) { return x * 0.5 * (1 + erf(x * c)); }, gelu);
  recognised(x_of(), [&](Tensor x) { return 0.5 * (x * (erf(x / std::numbers::sqrt2) + 1)); }, gelu);
  recognised(x_of(), [&](Tensor x) { return x * (1 + erf(c * x)) / 2; }, gelu);
  recognised(x_of(), [&](Tensor x) { return x * ((1 + erf(c * x)) * 0.5); }, gelu);
  recognised(x_of(), [&](Tensor x) { return 0.5 * x * erfc(-x * c); }, gelu);
  // Of a product: the x of the factors is the whole of it.
  recognised(
      x_of(),
      [&](Tensor x) {
        const Tensor y = x * (x * 3);
        return (1 + erf(y * c)) * (y * 0.5);
      },
      gelu);
  const Graph after = recognised(x_of(), [&](Tensor x) { return x * 0.5 * (1 + erf(x * c)); }, gelu);
  EXPECT_EQ(int_attr(after.attrs(only(after, kGelu)), 0), static_cast<int64_t>(GeluKind::kErf));
}

TEST(Recognise, GeluByTanh) {
  const double c = std::sqrt(2 / std::numbers::pi);
  const Found gelu = {{kGelu, 1}};
  recognised(x_of(), [&](Tensor x) { return 0.5 * x * (1 + tanh(c * (x + 0.044715 * (x * x * x)))); }, gelu);
  recognised(x_of(), [&](Tensor x) { return 0.5 * x * (1 + tanh((x + pow(x, 3.0) * 0.044715) * c)); }, gelu);
  recognised(x_of(), [&](Tensor x) { return x * (0.5 * (tanh(c * x * (1 + 0.044715 * x * x)) + 1)); }, {});
  recognised(x_of(), [&](Tensor x) { return x * (0.5 * (tanh(x * c * (1 + 0.044715 * (x * x))) + 1)); }, gelu);
  const Graph after =
      recognised(x_of(), [&](Tensor x) { return 0.5 * x * (1 + tanh(c * (x + 0.044715 * (x * x * x)))); }, gelu);
  EXPECT_EQ(int_attr(after.attrs(only(after, kGelu)), 0), static_cast<int64_t>(GeluKind::kTanh));
}

TEST(Recognise, NotGelu) {
  const double c = std::numbers::sqrt2 / 2, t = std::sqrt(2 / std::numbers::pi);
  recognised(x_of(), [&](Tensor x) { return x * 0.5 * (1 + erf(x * 0.7)); }, {});
  recognised(x_of(), [&](Tensor x) { return x * 0.4 * (1 + erf(x * c)); }, {});
  recognised(x_of(), [&](Tensor x) { return (x + 1) * 0.5 * (1 + erf(x * c)); }, {});
  recognised(x_of(), [&](Tensor x) { return x * x * 0.5 * (1 + erf(x * c)); }, {});
  recognised(x_of(), [&](Tensor x) { return 0.5 * x * (1 + tanh(t * (x + 0.0447 * (x * x * x)))); }, {});
  recognised(x_of(), [&](Tensor x) { return 0.5 * x * (1 + tanh(t * (x + 0.044715 * (x * x)))); }, {});
}

// --- softmax ---

TEST(Recognise, Softmax) {
  const Found softmax = {{kSoftmax, 1}};
  recognised(
      x_of(),
      [](Tensor x) {
        const Tensor e = exp(x - reduce_max(x, {-1}, true));
        return e / sum(e, {-1}, true);
      },
      softmax);
  recognised(
      x_of(),
      [](Tensor x) {
        const Tensor e = exp(x - expand_dims(reduce_max(x, {1}), 1));
        return e / expand_dims(sum(e, {1}), 1);
      },
      softmax);
  recognised(
      x_of(),
      [](Tensor x) {
        const Tensor e = exp(x - reduce_max(x, {-1}, true));
        return e * (1 / sum_reshaped(e));
      },
      softmax);
  const Graph after = recognised(
      x_of(),
      [](Tensor x) {
        const Tensor y = x * 0.125, e = exp(y - reduce_max(y, {1}, true));
        return e / sum(e, {1}, true) + 1;
      },
      softmax);
  EXPECT_EQ(int_attr(after.attrs(only(after, kSoftmax)), 0), 1);
}

TEST(Recognise, NotSoftmax) {
  // Without the max, e^x is infinite from 89 on.
  recognised(x_of(), [](Tensor x) { return exp(x) / sum(exp(x), {-1}, true); }, {});
  recognised(x_of(),
             [](Tensor x) {
               const Tensor e = exp(x - reduce_max(x, {1}, true));
               return e / sum(e, {2}, true);
             },
             {});
  recognised(x_of(),
             [](Tensor x) {
               const Tensor e = exp(x - reduce_min(x, {1}, true));
               return e / sum(e, {1}, true);
             },
             {});
  recognised(x_of(),
             [](Tensor x) {
               const Tensor e = exp(x - reduce_max(x * 2, {1}, true));
               return e / sum(e, {1}, true);
             },
             {});
  // Each row of a square has the sum of another one.
  recognised({input("x", f32, {6, 6})},
             [](Tensor x) {
               const Tensor e = exp(x - reduce_max(x, {1}, true));
               return e / sum(e, {1});
             },
             {});
  // Over two axes at once.
  recognised(x_of(),
             [](Tensor x) {
               const Tensor e = exp(x - reduce_max(x, {1, 2}, true));
               return e / sum(e, {1, 2}, true);
             },
             {});
}

TEST(Recognise, LogSoftmaxAndLogsumexp) {
  recognised(x_of(),
             [](Tensor x) {
               const Tensor y = x - reduce_max(x, {-1}, true);
               return y - log(sum(exp(y), {-1}, true));
             },
             {{kLogSoftmax, 1}});
  // log(softmax) is -inf where softmax is 0.
  recognised(x_of(), [](Tensor x) { return log(softmax(x)); }, {});
  recognised(x_of(),
             [](Tensor x) {
               const Tensor y = x - reduce_max(x, {-1}, true);
               return y - log(sum(exp(x), {-1}, true));
             },
             {});
  for (const bool keep : {false, true}) {
    recognised(x_of(),
               [keep](Tensor x) {
                 const Tensor most = reduce_max(x, {0, 2}, true), top = where(abs(most) == INFINITY, 0, most);
                 const Tensor y = log(sum(exp(x - top), {0, 2}, true)) + top;
                 return keep ? y : squeeze(y, {0, 2});
               },
               {{kLogsumexp, 1}});
  }
  recognised(x_of(),
             [](Tensor x) {
               const Tensor most = reduce_max(x, {0, 2}, true), top = where(isinf(most), 0, most);
               return log(sum(exp(x - top), {0, 2})) + squeeze(top, {0, 2});
             },
             {{kLogsumexp, 1}});
  // A row of -inf is NaN here.
  recognised(x_of(),
             [](Tensor x) {
               const Tensor top = reduce_max(x, {2}, true);
               return log(sum(exp(x - top), {2}, true)) + top;
             },
             {});
}

// --- statistics ---

TEST(Recognise, MeanAndVariance) {
  recognised(x_of(), [](Tensor x) { return sum(x, {2}) / 6; }, {{kMean, 1}});
  recognised(x_of(), [](Tensor x) { return sum(x, {2}, true) * (1.0 / 6); }, {{kMean, 1}});
  recognised(x_of(), [](Tensor x) { return sum(x, {0, 1}) / extent(dim("b") * dim("n"), f32); }, {{kMean, 1}});
  recognised(x_of(), [](Tensor x) { return sum(x, {2}) / 5; }, {});
  recognised(x_of(), [](Tensor x) { return sum(x, {1}) / extent(dim("b"), f32); }, {});
  recognised(x_of(), [](Tensor x) { return mean(square(x - mean(x, {1, 2}, true)), {1, 2}); }, {{kVariance, 1}});
  const Graph after =
      recognised(x_of(), [](Tensor x) { return sum(square(x - mean(x, {2}, true)), {2}) / 5; }, {{kVariance, 1}});
  EXPECT_EQ(int_attr(after.attrs(only(after, kVariance)), 1), 1);
  // This form cancels.
  recognised(x_of(), [](Tensor x) { return mean(square(x), {2}) - square(mean(x, {2})); }, {});
  recognised(x_of(), [](Tensor x) { return mean(square(x - mean(x, {1}, true)), {2}); }, {});
}

// --- norms ---

Tensor centered(const Tensor& x) { return x - mean(x, {-1}, true); }
Tensor spread(const Tensor& x) { return mean(square(centered(x)), {-1}, true); }

TEST(Recognise, LayerNorm) {
  const Found norm = {{kLayerNorm, 1}};
  recognised(x_of(), [](Tensor x) { return centered(x) * rsqrt(spread(x) + 1e-5); }, norm);
  recognised(x_of(), [](Tensor x) { return centered(x) / sqrt(1e-5 + spread(x)); }, norm);
  recognised(x_of(), [](Tensor x) { return (1 / sqrt(spread(x) + 1e-5)) * centered(x); }, norm);
  recognised(x_of(), [](Tensor x) { return centered(x) * pow(spread(x) + 1e-5, -0.5); }, norm);
  std::vector<InputSpec> all = x_of();
  all.push_back(input("w", f32, {6}));
  all.push_back(input("v", f32, {6}));
  const Graph after = recognised(
      all, [](Tensor x, Tensor w, Tensor v) { return v + w * (centered(x) * rsqrt(spread(x) + 0.25)); }, norm);
  const Node& node = only(after, kLayerNorm);
  EXPECT_EQ(after.main().nodes.size(), 1u);
  EXPECT_EQ(float_attr(after.attrs(node), 1), 0.25);
  // Over two axes, with a bias alone.
  recognised(
      {input("x", f32, {dim("b"), dim("n"), 6}), input("v", f32, {dim("n"), 6})},
      [](Tensor x, Tensor v) {
        const Tensor mean_of = mean(x, {1, 2}, true), spread_of = variance(x, {1, 2}, 0, true);
        return (x - mean_of) * rsqrt(spread_of + 1e-6) + v;
      },
      norm);
}

TEST(Recognise, NotLayerNorm) {
  const Found parts = {{kMean, 0}};
  (void)parts;
  recognised(x_of(), [](Tensor x) { return centered(x) / (sqrt(variance(x, {-1}, 0, true)) + 1e-5); }, {});
  recognised(x_of(), [](Tensor x) { return centered(x) * rsqrt(variance(x, {-1}, 1, true) + 1e-5); }, {});
  recognised(x_of(), [](Tensor x) { return centered(x) * rsqrt(variance(x, {1}, 0, true) + 1e-5); }, {});
  recognised(x_of(),
             [](Tensor x) {
               return (x - mean(x, {1}, true)) * rsqrt(variance(x, {1}, 0, true) + 1e-5);  // not the last axes
             },
             {});
  recognised(x_of(), [](Tensor x) { return centered(x) * rsqrt(variance(x, {-1}, 0, true)); }, {});
  // A weight that lies along another axis stays a product.
  recognised(
      {input("x", f32, {6, 6}), input("w", f32, {6})},
      [](Tensor x, Tensor w) { return centered(x) * rsqrt(variance(x, {-1}, 0, true) + 1e-5) * expand_dims(w, 1); },
      {{kLayerNorm, 1}});
}

TEST(Recognise, RmsNorm) {
  const Found norm = {{kRmsNorm, 1}};
  std::vector<InputSpec> all = x_of();
  all.push_back(input("w", f32, {6}));
  const Graph after =
      recognised(all, [](Tensor x, Tensor w) { return w * (x * rsqrt(mean(pow(x, 2.0), {-1}, true) + 1e-6)); }, norm);
  EXPECT_EQ(after.main().nodes.size(), 1u);
  recognised(all, [](Tensor x, Tensor w) { return x / sqrt(sum(x * x, {-1}, true) / 6 + 1e-6) * w; }, norm);
  recognised(x_of(), [](Tensor x) { return x * rsqrt(mean(x * x, {1}, true) + 1e-6); }, {});
  recognised(x_of(), [](Tensor x) { return (x + 1) * rsqrt(mean(x * x, {-1}, true) + 1e-6); }, {});
  // As models of language write it: in f32, rounded, then the weight.
  const Graph rounded = recognised(
      {input("x", bf16, {dim("n"), 6}), input("w", bf16, {6})},
      [](Tensor x, Tensor w) {
        const Tensor wide = cast(x, f32);
        return w * cast(wide * rsqrt(mean(wide * wide, {-1}, true) + 1e-6), bf16);
      },
      norm, 0.01);
  EXPECT_LE(rounded.main().nodes.size(), 3u);
}

TEST(Recognise, GroupAndBatchNorm) {
  const std::vector<InputSpec> all = {input("x", f32, {dim("b"), 6, dim("n"), 2}), input("w", f32, {6}),
                                      input("v", f32, {6})};
  const auto by_channel = [](Tensor w) { return reshape(w, {6, 1, 1}); };
  const Graph after = recognised(
      all,
      [&](Tensor x, Tensor w, Tensor v) {
        const Tensor parts = reshape(x, {dim("b"), 3, 2, 2 * dim("n")});
        const Tensor mean_of = mean(parts, {2, 3}, true), spread_of = variance(parts, {2, 3}, 0, true);
        return reshape((parts - mean_of) * rsqrt(spread_of + 1e-5), x.shape()) * by_channel(w) + by_channel(v);
      },
      {{kGroupNorm, 1}});
  EXPECT_EQ(after.main().nodes.size(), 1u);
  EXPECT_EQ(int_attr(after.attrs(only(after, kGroupNorm)), 0), 3);
  const Graph given =
      recognised(all,
                 [&](Tensor x, Tensor w, Tensor v) {
                   const Tensor spread_of = square(v);
                   return (x - by_channel(w)) * rsqrt(by_channel(spread_of) + 1e-5) * by_channel(w) + by_channel(v);
                 },
                 {{kBatchNorm, 1}});
  EXPECT_EQ(given.main().nodes.size(), 2u);
}

// --- losses, layers ---

std::vector<InputSpec> loss_inputs() {
  return {input("x", f32, {dim("b"), dim("n"), 6}), input("t", i64, {dim("b"), dim("n")})};
}
Tensor pick(const Tensor& logs, const Tensor& t) { return -squeeze(gather(logs, expand_dims(t, -1), -1), {-1}); }

TEST(Recognise, CrossEntropy) {
  const Found loss = {{kCrossEntropy, 1}};
  const auto reduction = [](const Graph& graph) {
    return enum_attr<LossReduction>(graph.attrs(only(graph, kCrossEntropy)), 0);
  };
  EXPECT_EQ(reduction(recognised(
                loss_inputs(), [](Tensor x, Tensor t) { return pick(log_softmax(x), t); }, loss)),
            LossReduction::kNone);
  EXPECT_EQ(reduction(recognised(
                loss_inputs(), [](Tensor x, Tensor t) { return mean(pick(log_softmax(x), t)); }, loss)),
            LossReduction::kMean);
  EXPECT_EQ(reduction(recognised(
                loss_inputs(), [](Tensor x, Tensor t) { return sum(pick(log_softmax(x), t)); }, loss)),
            LossReduction::kSum);
  // With targets that are ignored, as the decomposition of nll_loss has them.
  const Graph after = recognised(
      loss_inputs(),
      [](Tensor x, Tensor t) {
        const Tensor counts = t != 2, safe = where(counts, t, 0);
        const Tensor losses = where(counts, pick(log_softmax(x), safe), 0);
        return sum(losses) / cast(sum(counts), f32);
      },
      loss);
  EXPECT_EQ(reduction(after), LossReduction::kMean);
  EXPECT_EQ(int_attr(after.attrs(only(after, kCrossEntropy)), 1), 2);
  EXPECT_EQ(after.main().nodes.size(), 1u);
}

TEST(Recognise, NotCrossEntropy) {
  recognised(loss_inputs(),
             [](Tensor x, Tensor t) { return squeeze(gather(log_softmax(x), expand_dims(t, -1), -1), {-1}); }, {});
  recognised(loss_inputs(), [](Tensor x, Tensor t) { return pick(log_softmax(x, 1), t); }, {});
  // Over all targets instead of those that count.
  const Graph after = recognised(loss_inputs(),
                                 [](Tensor x, Tensor t) {
                                   const Tensor counts = t != 2, safe = where(counts, t, 0);
                                   return mean(where(counts, pick(log_softmax(x), safe), 0));
                                 },
                                 {{kCrossEntropy, 1}});
  EXPECT_EQ(enum_attr<LossReduction>(after.attrs(only(after, kCrossEntropy)), 0), LossReduction::kNone);
  // Another number is made safe than is left out.
  recognised(loss_inputs(),
             [](Tensor x, Tensor t) { return where(t != 2, pick(log_softmax(x), where(t != 1, t, 0)), 0); }, {});
}

TEST(Recognise, Linear) {
  const std::vector<InputSpec> all = {input("x", f32, {dim("b"), 4, 6}), input("w", f32, {3, 6}), input("v", f32, {3})};
  const Found linear_ = {{kLinear, 1}};
  recognised(all, [](Tensor x, Tensor w, Tensor v) { return dot(x, w, {{}, {}, {2}, {1}}) + v; }, linear_);
  const Graph after =
      recognised(all, [](Tensor x, Tensor w, Tensor v) { return v + matmul(x, transpose(w)); }, linear_);
  EXPECT_EQ(after.main().nodes.size(), 1u);
  recognised(all, [](Tensor x, Tensor w, Tensor) { return matmul(x, transpose(w)); }, {});
  recognised({input("x", f32, {4, 6}), input("w", f32, {4, 6}), input("v", f32, {4})},
             [](Tensor x, Tensor w, Tensor v) { return matmul(x, transpose(w)) + expand_dims(v, 1); }, {});
}

// Casts of a small float around a composite of f32 are what it does itself.
TEST(Recognise, RoundedComposites) {
  const Graph after = recognised(
      x_of(bf16),
      [](Tensor x) {
        const Tensor wide = cast(x, f32), e = exp(wide - reduce_max(wide, {-1}, true));
        return cast(e / sum(e, {-1}, true), bf16);
      },
      {{kSoftmax, 1}}, 0.01);
  EXPECT_EQ(after.main().nodes.size(), 1u);
  const Graph other = recognised(x_of(f16), [](Tensor x) { return cast(softmax(cast(x, f32)), bf16); }, {}, 0.01);
  EXPECT_EQ(other.main().nodes.size(), 3u);
}

TEST(Recognise, InsideOfBodies) {
  const auto def = graph("g", x_of(), [](Tensor x) {
    return loop(2, {x}, {},
                [](Tensors in, Tensors) {
                  const Tensor e = exp(in[0] - reduce_max(in[0], {-1}, true));
                  return LoopStep{{e / sum(e, {-1}, true)}, {}};
                })
        .carried;
  });
  recognised(def, {{kSoftmax, 1}});
}

}  // namespace
}  // namespace kiln::graph::recognising
