#include "graph/encoder_layer.h"

namespace kiln::test {

using graph::f32;
using graph::input;
using graph::Tensor;
using graph::Tensors;

graph::GraphDef encoder_layer() {
  constexpr int64_t kHeads = 2, kWidth = kEncoderWidth, kInner = 80;
  const graph::Dim n = graph::dim("n", 1, 4096), s = graph::dim("s", 1, 4096);
  const auto heads = [=](const Tensor& x) {
    return permute(reshape(x, {n, s, kHeads, kWidth / kHeads}), {0, 2, 1, 3});
  };
  return graph::graph(
      "encoder_layer",
      {input("x", f32, {n, s, kWidth}), input("mask", graph::i1, {n, s}), input("qkv", f32, {3 * kWidth, kWidth}),
       input("out", f32, {kWidth, kWidth}), input("up", f32, {kInner, kWidth}), input("down", f32, {kWidth, kInner}),
       input("bias", f32, {kInner}), input("norm", f32, {kWidth})},
      [=](Tensors in) {
        const Tensor &x = in[0], mask = in[1];
        const Tensor qkv = linear(x, in[2]);
        const auto part = [&](int64_t i) { return heads(slice(qkv, 2, i * kWidth, (i + 1) * kWidth)); };
        const Tensor bias = where(reshape(mask, {n, 1, 1, s}), 0.0, -10000.0);
        const Tensor scores = matmul(part(0), transpose(part(1))) * 0.25 + bias;
        const Tensor seen = reshape(permute(matmul(softmax(scores), part(2)), {0, 2, 1, 3}), {n, s, kWidth});
        const Tensor y = layer_norm(x + linear(seen, in[3]), in[7]);
        return layer_norm(y + linear(gelu(linear(y, in[4], in[6])), in[5]), in[7]);
      });
}

}  // namespace kiln::test
