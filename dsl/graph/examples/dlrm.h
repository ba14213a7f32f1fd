// DLRM (Naumov and others 2019): dense features through a perceptron, categories through bags of embeddings, the
// products of all pairs of them, and a second perceptron to the chance of a click.
#pragma once

#include "kiln/graph/graph.h"

namespace kiln::graph::examples {

struct DlrmConfig {
  int64_t tables = 3, rows = 1000, width = 16, dense = 13;
};

inline GraphDef dlrm(const DlrmConfig& c = {}) {
  const Dim batch = dim("batch", 1, 65536), ids = dim("ids", 0, 1 << 20);
  const int64_t pairs = (c.tables + 1) * c.tables / 2;
  std::vector<InputSpec> inputs = {input("dense", f32, {batch, c.dense}), input("bottom_w", f32, {c.width, c.dense}),
                                   input("bottom_b", f32, {c.width}), input("top_w", f32, {1, c.width + pairs}),
                                   input("top_b", f32, {1})};
  for (int64_t i = 0; i < c.tables; ++i) {
    const std::string number = std::to_string(i);
    inputs.push_back(input("table" + number, f32, {c.rows, c.width}));
    inputs.push_back(input("ids" + number, i64, {ids}));  // of all samples, one behind the other
    inputs.push_back(input("offsets" + number, i64, {batch}));
  }
  return graph("dlrm", inputs, [&](Tensors in) {
    const Tensor dense = relu(linear(in[0], in[1], in[2]));
    std::vector<Tensor> bags;
    for (size_t i = 5; i < in.size(); i += 3) bags.push_back(embedding_bag(in[i], in[i + 1], in[i + 2]));
    const Tensor features = interaction(dense, stack(bags, 1));
    return Outputs{{"click", sigmoid(linear(features, in[3], in[4]))(all, 0)}};
  });
}

}  // namespace kiln::graph::examples
