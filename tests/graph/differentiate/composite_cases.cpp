#include "differentiate/differences.h"

namespace kiln::graph::test {
namespace {

using Unary = Tensor (*)(Operand);
GradientCase unary(const char* name, Unary f, double low = -3, double high = 3) {
  return {name, {input("x", f64, {case_n(), 3})}, [f](Tensors x) { return Tensors{f(x[0])}; }, low, high};
}

std::vector<GradientCase> activation_cases() {
  const Dim n = case_n();
  const std::vector<InputSpec> x = {input("x", f64, {n, 3})};
  return {
      unary("relu", relu),
      {"leaky_relu", x, [](Tensors t) { return Tensors{leaky_relu(t[0], 0.2)}; }},
      {"elu", x, [](Tensors t) { return Tensors{elu(t[0], 1.5)}; }},
      {"clamp", x, [](Tensors t) { return Tensors{sin(clamp(t[0], -1, 1.1))}; }},
      unary("sigmoid", sigmoid),
      unary("silu", silu),
      {"gelu", x, [](Tensors t) { return Tensors{gelu(t[0]), gelu(t[0], GeluKind::kTanh)}; }},
      unary("softplus", softplus),
      unary("mish", mish),
      unary("hard_sigmoid", hard_sigmoid, -4.5, 4.5),
      unary("hard_swish", hard_swish, -4.5, 4.5),
  };
}

std::vector<GradientCase> norm_cases() {
  const Dim n = case_n(), m = case_m();
  return {
      {"softmax",
       {input("x", f64, {n, m, 3})},
       [](Tensors t) { return Tensors{softmax(t[0], 1), sin(softmax(t[0]))}; }},
      {"log_softmax",
       {input("x", f64, {n, m})},
       [](Tensors t) { return Tensors{log_softmax(t[0], 0), sin(log_softmax(t[0]))}; }},
      {"layer_norm",
       {input("x", f64, {n, 3, 4}), input("w", f64, {4}), input("b", f64, {4})},
       [](Tensors t) { return Tensors{layer_norm(t[0], t[1], t[2], 0.1)}; }},
      {"layer_norm over two axes",
       {input("x", f64, {n, 3, 4})},
       [](Tensors t) { return Tensors{layer_norm(t[0], {}, {}, 0.1, 2)}; }},
      {"rms_norm",
       {input("x", f64, {n, 3, 4}), input("w", f64, {4})},
       [](Tensors t) { return Tensors{rms_norm(t[0], t[1], 0.1), rms_norm(t[0], {}, 0.2, 2)}; }},
      {"group_norm",
       {input("x", f64, {n, 4, 3}), input("w", f64, {4}), input("b", f64, {4})},
       [](Tensors t) { return Tensors{group_norm(t[0], 2, t[1], t[2], 0.1)}; }},
      {"batch_norm",
       {input("x", f64, {n, 2, 3}), input("mean", f64, {2}), input("v", f64, {2}), input("w", f64, {2}),
        input("b", f64, {2})},
       [](Tensors t) { return Tensors{batch_norm(t[0], t[1], t[2], t[3], t[4])}; },
       0.3,
       2},
      {"batch_norm_training",
       {input("x", f64, {n + 1, 2, 3}), input("mean", f64, {2}), input("v", f64, {2}), input("w", f64, {2}),
        input("b", f64, {2})},
       [](Tensors t) {
         const BatchNormStep out = batch_norm_training(t[0], t[1], t[2], t[3], t[4], 0.1);
         return Tensors{out.y, out.mean, out.variance};
       }},
  };
}

std::vector<GradientCase> layer_cases() {
  const Dim n = case_n(), m = case_m();
  std::vector<GradientCase> out = {
      {"embedding",
       {input("t", f64, {4, n}), input("i0_4", i32, {m, 2})},
       [](Tensors t) { return Tensors{sin(embedding(t[0], t[1]))}; }},
      {"embedding_bag",
       {input("t", f64, {4, n}), input("i0_4", i32, {5}), input("i1_1", i64, {1}), input("w", f64, {5})},
       [](Tensors t) {
         return Tensors{sin(embedding_bag(t[0], t[1], t[2], BagMode::kSum, t[3])),
                        embedding_bag(t[0], t[1], t[2], BagMode::kMean)};
       }},
      {"attention",
       {input("q", f64, {1, 4, n, 3}), input("k", f64, {1, 2, m, 3}), input("v", f64, {1, 2, m, 2}),
        input("mask", f64, {n, m})},
       [](Tensors t) { return Tensors{attention(t[0], t[1], t[2], {}, t[3])}; }},
      {"attention, causal",
       {input("q", f64, {2, 1, n, 3}), input("k", f64, {2, 1, n, 3}), input("v", f64, {2, 1, n, 3})},
       [](Tensors t) { return Tensors{attention(t[0], t[1], t[2], {.causal = true, .window = 2, .scale = 0.3})}; }},
      {"paged_attention",
       {input("q", f64, {2, 2, 3}), input("k", f64, {4, 1, 2, 3}), input("v", f64, {4, 1, 2, 3}),
        input("i0_4", i32, {2, 2}), input("i1_4", i32, {2})},
       [](Tensors t) { return Tensors{paged_attention(t[0], t[1], t[2], t[3], t[4] + 1)}; },
       -2,
       2,
       0,
       false},
      {"cross_entropy",
       {input("x", f64, {n, m, 4}), input("i0_4", i64, {n, m})},
       [](Tensors t) {
         return Tensors{cross_entropy(t[0], t[1]), cross_entropy(t[0], t[1], LossReduction::kSum, -100, 0.1),
                        cross_entropy(t[0], t[1], LossReduction::kNone, 2)};
       }},
      {"cross_entropy without some",
       {input("x", f64, {8, 3}), input("i0_3", i64, {8})},
       [](Tensors t) { return Tensors{cross_entropy(t[0], t[1], LossReduction::kMean, 1, 0.2)}; }},
      {"rope",
       {input("x", f64, {n, m, 4})},
       [](Tensors t) {
         const Tensor angles = iota(f64, {case_m(), 2}, 0);
         return Tensors{sin(rope(t[0], cos(angles), sin(angles))), rope(t[0], cos(angles), sin(angles), true)};
       }},
      {"rope by its angles",
       {input("x", f64, {n, m, 4}), input("c", f64, {m, 2}), input("s", f64, {m, 2})},
       [](Tensors t) { return Tensors{rope(t[0], t[1], t[2])}; }},
      {"dropout", {input("x", f64, {n, 5})}, [](Tensors t) { return Tensors{sin(dropout(t[0], 0.4, 11, 5))}; }},
      {"interaction",
       {input("a", f64, {n, 3}), input("b", f64, {n, 2, 3})},
       [](Tensors t) { return Tensors{interaction(t[0], t[1]), interaction(t[0], t[1], true)}; }},
      {"triangle", {input("x", f64, {n, 4, 3})}, [](Tensors t) { return Tensors{sin(tril(t[0], 1)), triu(t[0])}; }},
      {"one_hot",
       {input("x", f64, {n, 4}), input("i0_4", i32, {n})},
       [](Tensors t) { return Tensors{t[0] * one_hot(t[1], 4, f64)}; }},
      {"dequantise",
       {input("s", f64, {3}), input("i0_9", i8, {n, 3})},
       [](Tensors t) { return Tensors{sin(dequantise(t[1], t[0], {}, f64, 1))}; }},
  };
  return out;
}

std::vector<GradientCase> optimiser_cases() {
  const Dim n = case_n();
  const InputSpec p = input("p", f64, {n, 2}), g = input("g", f64, {n, 2}), a = input("a", f64, {n, 2}),
                  b = input("b", f64, {n, 2}), lr = input("lr", f64, {});
  return {
      {"sgd_step", {p, g, lr}, [](Tensors t) { return Tensors{sgd_step(t[0], t[1], t[2], 0.1)}; }},
      {"momentum_step",
       {p, g, a, lr},
       [](Tensors t) {
         const BufferStep out = momentum_step(t[0], t[1], t[2], t[3], {0.9, 0.1, true, 0.1});
         return Tensors{out.param, out.buffer};
       }},
      {"adam_step",
       {p, g, a, b, lr},
       [](Tensors t) {
         const MomentStep out = adam_step(t[0], t[1], t[2], t[3], t[4], 3, {0.8, 0.9, 1e-3, 0.1, true});
         return Tensors{out.param, out.m, out.v};
       },
       0.3,
       2},
      {"adagrad_step",
       {p, g, a, lr},
       [](Tensors t) {
         const BufferStep out = adagrad_step(t[0], t[1], t[2], t[3], 1e-3, 0.1);
         return Tensors{out.param, out.buffer};
       },
       0.3,
       2},
      {"lamb_step",
       {p, g, a, b, lr},
       [](Tensors t) {
         const MomentStep out = lamb_step(t[0], t[1], t[2], t[3], t[4], 3, {0.8, 0.9, 1e-3, 0.1, false});
         return Tensors{out.param, out.m, out.v};
       },
       0.3,
       2},
  };
}

}  // namespace

std::vector<GradientCase> composite_cases() {
  std::vector<GradientCase> out;
  for (auto* part : {activation_cases, norm_cases, layer_cases, optimiser_cases}) {
    for (GradientCase& each : part()) out.push_back(std::move(each));
  }
  return out;
}

}  // namespace kiln::graph::test
