#include "decompose/samples.h"

namespace kiln::graph::decomposing {
namespace {

// Symbolic sizes of the samples.
struct Sizes {
  Dim b = dim("b", 1, 64), n = dim("n", 1, 4096), c = 8 * dim("c", 1, 64), g = dim("g", 1, 8), m = dim("m", 0, 4096);
};

class Collector {
 public:
  template <class Function>
  void add(std::string name, std::vector<InputSpec> inputs, Function function) {
    out.push_back({name, graph(std::move(name), std::move(inputs), function)});
  }
  std::vector<Sample> out;
};

std::string with_type(const char* name, ElementType type) {
  return std::string(name) + "_" + std::string(dsl::info(type).name);
}

void activations(Collector& all, const Sizes& s, ElementType type) {
  const auto one = [&](const char* name, auto function) {
    all.add(with_type(name, type), {input("x", type, {s.n, 3})}, function);
  };
  one("relu", [](Tensor x) { return relu(x); });
  one("leaky_relu", [](Tensor x) { return leaky_relu(x, 0.2); });
  one("elu", [](Tensor x) { return elu(x, 1.5); });
  one("clamp", [](Tensor x) { return clamp(x, -1, 2); });
  one("sigmoid", [](Tensor x) { return sigmoid(x); });
  one("silu", [](Tensor x) { return silu(x); });
  one("gelu_erf", [](Tensor x) { return gelu(x); });
  one("gelu_tanh", [](Tensor x) { return gelu(x, GeluKind::kTanh); });
  one("softplus", [](Tensor x) { return softplus(x); });
  one("mish", [](Tensor x) { return mish(x); });
  one("hard_sigmoid", [](Tensor x) { return hard_sigmoid(x); });
  one("hard_swish", [](Tensor x) { return hard_swish(x); });
}

void statistics(Collector& all, const Sizes& s, ElementType type) {
  const auto one = [&](const char* name, auto function) {
    all.add(with_type(name, type), {input("x", type, {s.b, s.n, 5})}, function);
  };
  one("mean", [](Tensor x) { return mean(x, {0, 1}); });
  one("mean_of_all", [](Tensor x) { return mean(x); });
  one("variance", [](Tensor x) { return variance(x, {1}, 1, true); });
  one("logsumexp", [](Tensor x) { return logsumexp(x, {-1}); });
  one("logsumexp_kept", [](Tensor x) { return logsumexp(x, {0, 2}, true); });
  one("softmax", [](Tensor x) { return softmax(x, 1); });
  one("log_softmax", [](Tensor x) { return log_softmax(x); });
  one("dropout", [](Tensor x) { return dropout(x, 0.25, 7, 9); });
  one("tril", [](Tensor x) { return tril(x, -1); });
  one("triu", [](Tensor x) { return triu(x, 2); });
}

void norms(Collector& all, const Sizes& s, ElementType type) {
  const InputSpec x = input("x", type, {s.b, s.c, s.n}), w = input("w", f32, {s.c}), v = input("v", f32, {s.c});
  all.add(with_type("layer_norm", type), {x, input("w", f32, {s.n}), input("v", f32, {s.n})},
          [](Tensor x, Tensor w, Tensor v) { return layer_norm(x, w, v); });
  all.add(with_type("layer_norm_2", type), {x}, [](Tensor x) { return layer_norm(x, {}, {}, 0.1, 2); });
  all.add(with_type("rms_norm", type), {x, input("w", type, {s.n})}, [](Tensor x, Tensor w) { return rms_norm(x, w); });
  all.add(with_type("group_norm", type), {x, w, v},
          [](Tensor x, Tensor w, Tensor v) { return group_norm(x, 4, w, v); });
  all.add(with_type("batch_norm", type), {x, w, v},
          [](Tensor x, Tensor w, Tensor v) { return batch_norm(x, w, v, w, v); });
  all.add(with_type("batch_norm_training", type), {x, w, v}, [](Tensor x, Tensor w, Tensor v) {
    const BatchNormStep step = batch_norm_training(x, w, v, w, v);
    return Tensors{step.y, step.mean, step.variance};
  });
}

void layers(Collector& all, const Sizes& s, ElementType type) {
  const InputSpec x = input("x", type, {s.b, s.c, 9}), image = input("x", type, {s.b, 4, s.n + 3, 11});
  all.add(with_type("linear", type), {x, input("w", type, {s.n, 9}), input("v", type, {s.n})},
          [](Tensor x, Tensor w, Tensor v) { return linear(x, w, v); });
  all.add(with_type("linear_plain", type), {x, input("w", type, {s.n, 9})},
          [](Tensor x, Tensor w) { return linear(x, w); });
  all.add(with_type("conv_bias", type), {image, input("w", type, {6, 2, 3, 3}), input("v", type, {6})},
          [](Tensor x, Tensor w, Tensor v) { return conv(x, w, v, {{2, 1}, {1, 1}, {1, 1}, {}, 2}); });
  all.add(with_type("max_pool", type), {image},
          [](Tensor x) { return max_pool(x, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, {}}); });
  all.add(with_type("avg_pool", type), {image},
          [](Tensor x) { return avg_pool(x, {{3, 3}, {2, 2}, {1, 1}, {1, 0}, {}}); });
  all.add(with_type("avg_pool_inside", type), {image},
          [](Tensor x) { return avg_pool(x, {{3, 3}, {2, 2}, {1, 1}, {1, 0}, {}}, false); });
  all.add(with_type("rope", type),
          {input("x", type, {s.b, s.n, 8}), input("c", type, {s.n, 4}), input("s", type, {s.n, 4})},
          [](Tensor x, Tensor c, Tensor s) { return Tensors{rope(x, c, s), rope(x, c, s, true)}; });
  all.add(with_type("cross_entropy", type), {input("x", type, {s.b, s.n, s.c}), input("t", i32, {s.b, s.n})},
          [](Tensor x, Tensor t) {
            return Tensors{cross_entropy(x, t), cross_entropy(x, t, LossReduction::kNone, 0, 0.1),
                           cross_entropy(x, t, LossReduction::kSum)};
          });
  all.add(with_type("cross_entropy_of_one", type), {input("x", type, {s.c}), input("t", i64, {})},
          [](Tensor x, Tensor t) { return cross_entropy(x, t); });
}

void tables(Collector& all, const Sizes& s, ElementType type) {
  const InputSpec table = input("table", type, {s.n, 6}), ids = input("ids", i32, {s.m}), bags = input("o", i64, {s.b});
  all.add(with_type("embedding", type), {table, input("ids", i64, {s.b, 3})},
          [](Tensor table, Tensor ids) { return embedding(table, ids); });
  all.add(with_type("embedding_bag", type), {table, ids, bags}, [](Tensor table, Tensor ids, Tensor bags) {
    return Tensors{embedding_bag(table, ids, bags), embedding_bag(table, ids, bags, BagMode::kMean),
                   embedding_bag(table, ids, bags, BagMode::kMax)};
  });
  all.add(with_type("embedding_bag_weighted", type), {table, ids, bags, input("w", type, {s.m})},
          [](Tensor table, Tensor ids, Tensor bags, Tensor w) {
            return embedding_bag(table, ids, bags, BagMode::kSum, w);
          });
  all.add(with_type("one_hot", type), {input("ids", u8, {s.b})},
          [n = s.n, type](Tensor ids) { return one_hot(ids, n, type); });
  all.add(with_type("interaction", type), {input("d", type, {s.b, 6}), input("f", type, {s.b, 3, 6})},
          [](Tensor d, Tensor f) { return Tensors{interaction(d, f), interaction(d, f, true)}; });
}

void attentions(Collector& all, const Sizes& s, ElementType type) {
  const auto qkv = [&](const Dim& heads, const Dim& groups, const Dim& width) {
    return std::vector<InputSpec>{input("q", type, {s.b, heads, s.n, width}),
                                  input("k", type, {s.b, groups, s.m, width}), input("v", type, {s.b, groups, s.m, 5})};
  };
  const auto with = [](std::vector<InputSpec> inputs, InputSpec mask) {
    inputs.push_back(std::move(mask));
    return inputs;
  };
  all.add(with_type("attention", type), qkv(4, 4, 16), [](Tensor q, Tensor k, Tensor v) { return attention(q, k, v); });
  all.add(with_type("attention_causal", type), qkv(4, 4, s.c),
          [](Tensor q, Tensor k, Tensor v) { return attention(q, k, v, {.causal = true}); });
  all.add(with_type("attention_window", type), qkv(8, 2, 16), [](Tensor q, Tensor k, Tensor v) {
    return Tensors{attention(q, k, v, {.window = 3}), attention(q, k, v, {.causal = true, .window = 2, .scale = 0.5})};
  });
  all.add(with_type("attention_grouped", type), with(qkv(3 * s.g, s.g, 16), input("mask", i1, {3 * s.g, s.n, s.m})),
          [](Tensor q, Tensor k, Tensor v, Tensor mask) { return attention(q, k, v, {}, mask); });
  all.add(with_type("attention_added", type), with(qkv(6, 3, 16), input("mask", type, {s.b, 1, 1, s.m})),
          [](Tensor q, Tensor k, Tensor v, Tensor mask) { return attention(q, k, v, {.causal = true}, mask); });
  all.add(with_type("paged_attention", type),
          {input("q", type, {s.b, 6, 16}), input("k", type, {s.n, 2, 4, 16}), input("v", type, {s.n, 2, 4, 5}),
           input("table", i32, {s.b, s.m}), input("lengths", i32, {s.b})},
          [](Tensor q, Tensor k, Tensor v, Tensor table, Tensor lengths) {
            return paged_attention(q, k, v, table, lengths);
          });
}

void few_bits(Collector& all, const Sizes& s, ElementType type) {
  const InputSpec x = input("x", type, {s.b, s.n});
  all.add(
      with_type("quantise", type), {x, input("s", type, {}), input("z", i8, {})},
      [](Tensor x, Tensor scale, Tensor zero) { return Tensors{quantise(x, scale, zero, i8, 0), quantise(x, scale)}; });
  for (const ElementType ints : {u8, i32}) {
    all.add(with_type("dequantise", type) + "_" + std::string(dsl::info(ints).name),
            {input("x", ints, {s.b, s.n}), input("s", type, {s.n}), input("z", ints, {s.n})},
            [type](Tensor x, Tensor scale, Tensor zero) { return dequantise(x, scale, zero, type, 1); });
  }
}

void optimisers(Collector& all, const Sizes& s, ElementType type) {
  const std::vector<InputSpec> inputs = {input("p", type, {s.n, 3}), input("g", type, {s.n, 3}),
                                         input("m", f32, {s.n, 3}), input("v", f32, {s.n, 3}), input("t", f32, {})};
  const auto one = [&](const char* name, auto function) { all.add(with_type(name, type), inputs, function); };
  one("sgd", [](Tensor p, Tensor g, Tensor, Tensor, Tensor) { return sgd_step(p, g, 0.1, 0.01); });
  one("momentum", [](Tensor p, Tensor g, Tensor m, Tensor, Tensor) {
    const BufferStep step = momentum_step(p, g, m, 0.1, {.nesterov = true, .weight_decay = 0.1});
    return Tensors{step.param, step.buffer};
  });
  for (const bool decoupled : {false, true}) {
    one(decoupled ? "adamw" : "adam", [decoupled](Tensor p, Tensor g, Tensor m, Tensor v, Tensor t) {
      const MomentStep step = adam_step(p, g, m, v, 0.1, t, {.weight_decay = 0.1, .decoupled = decoupled});
      return Tensors{step.param, step.m, step.v};
    });
  }
  one("adagrad", [](Tensor p, Tensor g, Tensor, Tensor v, Tensor) {
    const BufferStep step = adagrad_step(p, g, v, 0.1);
    return Tensors{step.param, step.buffer};
  });
  one("lamb", [](Tensor p, Tensor g, Tensor m, Tensor v, Tensor t) {
    const MomentStep step = lamb_step(p, g, m, v, 0.1, t);
    return Tensors{step.param, step.m, step.v};
  });
}

}  // namespace

std::vector<Sample> samples() {
  Collector all;
  const Sizes sizes;
  for (const ElementType type : {f32, bf16, f64}) {
    activations(all, sizes, type);
    statistics(all, sizes, type);
    norms(all, sizes, type);
    layers(all, sizes, type);
    tables(all, sizes, type);
    attentions(all, sizes, type);
    few_bits(all, sizes, type);
    optimisers(all, sizes, type);
  }
  return all.out;
}

}  // namespace kiln::graph::decomposing
