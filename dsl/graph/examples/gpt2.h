// GPT-2 (Radford and others 2019), one token at a time. Keys and values of earlier places are states: caches that are
// donated to their next values, so that a step writes one row of each in place.
#pragma once

#include "kiln/graph/graph.h"

namespace kiln::graph::examples {

struct Gpt2Config {
  int64_t layers = 2, width = 64, heads = 4, vocabulary = 256, places = 128;
};

// Names of what a layer holds, with the shapes.
inline std::vector<std::pair<std::string, Shape>> gpt2_layer_weights(const Gpt2Config& c) {
  return {{"norm1_weight", {c.width}}, {"norm1_bias", {c.width}},      {"wqkv", {3 * c.width, c.width}},
          {"bqkv", {3 * c.width}},     {"wo", {c.width, c.width}},     {"bo", {c.width}},
          {"norm2_weight", {c.width}}, {"norm2_bias", {c.width}},      {"w1", {4 * c.width, c.width}},
          {"b1", {4 * c.width}},       {"w2", {c.width, 4 * c.width}}, {"b2", {c.width}}};
}

// token: [batch], of place `place`; logits of the next one.
inline GraphDef gpt2_step(const Gpt2Config& c = {}) {
  const Dim batch = dim("batch", 1, 64);
  const Shape cache = {batch, c.heads, c.places, c.width / c.heads};
  std::vector<InputSpec> inputs = {input("token", i64, {batch}),
                                   input("place", i64, {}),
                                   input("embedding", f32, {c.vocabulary, c.width}),
                                   input("positions", f32, {c.places, c.width}),
                                   input("norm_weight", f32, {c.width}),
                                   input("norm_bias", f32, {c.width})};
  const size_t first_layer = inputs.size();
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = "h" + std::to_string(i) + "_";
    for (const auto& [name, shape] : gpt2_layer_weights(c)) inputs.push_back(input(layer + name, f32, shape));
    inputs.push_back(donated(layer + "keys", f32, cache, layer + "new_keys"));
    inputs.push_back(donated(layer + "values", f32, cache, layer + "new_values"));
  }
  return graph("gpt2_step", inputs, [&](Tensors in) {
    const Tensor token = in[0], place = in[1], table = in[2];
    const auto heads = [&](const Tensor& x) { return reshape(x, {batch, c.heads, c.width / c.heads}); };
    const Tensor seen = arange(c.places) <= place;
    Tensor x = embedding(table, token) + in[3](place);
    Outputs out;
    for (int64_t i = 0; i < c.layers; ++i) {
      const Tensor* w = &in[first_layer + static_cast<size_t>(i) * 14];
      const std::vector<Tensor> qkv = split(linear(layer_norm(x, w[0], w[1]), w[2], w[3]), 3, -1);
      const Tensor keys = set_at(w[12], {all, all, place}, heads(qkv[1]));
      const Tensor values = set_at(w[13], {all, all, place}, heads(qkv[2]));
      const Tensor mixed = attention(heads(qkv[0])(all, all, none), keys, values, {}, seen);
      x = x + linear(flatten(mixed, 1), w[4], w[5]);
      x = x + linear(gelu(linear(layer_norm(x, w[6], w[7]), w[8], w[9]), GeluKind::kTanh), w[10], w[11]);
      out.emplace_back("h" + std::to_string(i) + "_new_keys", keys);
      out.emplace_back("h" + std::to_string(i) + "_new_values", values);
    }
    out.emplace_back("logits", linear(layer_norm(x, in[4], in[5]), table));
    return out;
  });
}

}  // namespace kiln::graph::examples
