// One layer of BERT's encoder (Devlin and others 2019): attention over all places that the mask shows, then two
// products with gelu between; a residual and a norm behind each.
#pragma once

#include "kiln/graph/graph.h"

namespace kiln::graph::examples {

struct BertConfig {
  int64_t width = 64, heads = 4, inner = 256;
  double eps = 1e-12;
};

// [b, n, width] as [b, heads, n, width/heads], and back.
inline Tensor split_heads(const Tensor& x, int64_t heads) {
  return permute(reshape(x, {x.extent(0), x.extent(1), heads, x.extent(2) / heads}), {0, 2, 1, 3});
}
inline Tensor join_heads(const Tensor& x) { return flatten(permute(x, {0, 2, 1, 3}), 2); }

inline GraphDef bert_layer(const BertConfig& c = {}) {
  const Dim batch = dim("batch", 1, 64), places = dim("places", 1, 512);
  const auto weight = [](std::string name, int64_t to, int64_t from) {
    return input(std::move(name), f32, {to, from});
  };
  const auto bias = [](std::string name, int64_t to) { return input(std::move(name), f32, {to}); };
  return graph("bert_layer",
               {input("x", f32, {batch, places, c.width}), input("mask", i1, {batch, places}),
                weight("wqkv", 3 * c.width, c.width), bias("bqkv", 3 * c.width), weight("wo", c.width, c.width),
                bias("bo", c.width), bias("norm1_weight", c.width), bias("norm1_bias", c.width),
                weight("w1", c.inner, c.width), bias("b1", c.inner), weight("w2", c.width, c.inner),
                bias("b2", c.width), bias("norm2_weight", c.width), bias("norm2_bias", c.width)},
               [&](Tensor x, Tensor mask, Tensor wqkv, Tensor bqkv, Tensor wo, Tensor bo, Tensor g1, Tensor h1,
                   Tensor w1, Tensor b1, Tensor w2, Tensor b2, Tensor g2, Tensor h2) {
                 const std::vector<Tensor> qkv = split(linear(x, wqkv, bqkv), 3, -1);
                 const Tensor seen = mask(all, none, none, all);  // the same for all heads and rows
                 const Tensor mixed = attention(split_heads(qkv[0], c.heads), split_heads(qkv[1], c.heads),
                                                split_heads(qkv[2], c.heads), {}, seen);
                 const Tensor y = layer_norm(x + linear(join_heads(mixed), wo, bo), g1, h1, c.eps);
                 return layer_norm(y + linear(gelu(linear(y, w1, b1)), w2, b2), g2, h2, c.eps);
               });
}

}  // namespace kiln::graph::examples
