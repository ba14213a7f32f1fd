// A multilayer perceptron, its loss, and one step of training: three graphs, each made of the one before.
#pragma once

#include "kiln/graph/differentiate.h"
#include "kiln/graph/graph.h"

namespace kiln::graph::examples {

// x: [batch, 2] points, labels: which of two classes. Weights are [outputs, inputs].
inline std::vector<InputSpec> mlp_inputs(const Dim& batch) {
  return {input("x", f32, {batch, 2}), input("labels", i64, {batch}), input("w1", f32, {16, 2}),
          input("b1", f32, {16}),      input("w2", f32, {2, 16}),     input("b2", f32, {2})};
}

inline GraphDef mlp_loss() {
  return graph("mlp_loss", mlp_inputs(dim("batch", 1, 4096)),
               [](Tensor x, Tensor labels, Tensor w1, Tensor b1, Tensor w2, Tensor b2) {
                 const Tensor hidden = tanh(linear(x, w1, b1));
                 const Tensor logits = linear(hidden, w2, b2);
                 return Outputs{{"loss", cross_entropy(logits, labels)}};
               });
}

// The loss, then its gradient by each weight: "d_w1", …
inline GraphDef mlp_gradients() { return value_and_grad(mlp_loss(), {"w1", "b1", "w2", "b2"}); }

// Weights are donated: each step may write the next ones where the last ones were.
inline GraphDef mlp_step() {
  const GraphDef gradients = mlp_gradients();
  std::vector<InputSpec> inputs = mlp_inputs(dim("batch", 1, 4096));
  for (size_t i = 2; i < inputs.size(); ++i) inputs[i].donated_to = "new_" + inputs[i].name;
  inputs.push_back(input("lr", f32, {}));
  return graph("mlp_step", inputs, [&](Tensors in) {
    const Tensor lr = in.back();
    in.pop_back();
    const Tensors out = inline_graph(gradients, in);  // loss, d_w1, d_b1, d_w2, d_b2
    Outputs next = {{"loss", out[0]}};
    for (size_t i = 2; i < in.size(); ++i) {
      next.emplace_back("new_" + inputs[i].name, sgd_step(in[i], out[i - 1], lr));
    }
    return next;
  });
}

}  // namespace kiln::graph::examples
