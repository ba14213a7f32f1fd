// AdamW (Loshchilov, Hutter 2019) for a dictionary of parameters: one graph that steps all of them, with the gradients
// scaled down together where their common norm is above 1.
#pragma once

#include <map>

#include "kiln/graph/graph.h"

namespace kiln::graph::examples {

using Parameters = std::map<std::string, Shape>;

// Inputs NAME, d_NAME, m_NAME and v_NAME of each parameter, then lr and step (1, 2, …).
inline GraphDef adamw(const Parameters& parameters, double weight_decay = 0.01) {
  std::vector<InputSpec> inputs;
  for (const auto& [name, shape] : parameters) {
    inputs.push_back(donated(name, f32, shape, "new_" + name));
    inputs.push_back(input("d_" + name, f32, shape));
    inputs.push_back(donated("m_" + name, f32, shape, "new_m_" + name));
    inputs.push_back(donated("v_" + name, f32, shape, "new_v_" + name));
  }
  inputs.push_back(input("lr", f32, {}));
  inputs.push_back(input("step", i64, {}));
  return graph("adamw", inputs, [&](Tensors in) {
    const Tensor lr = in[in.size() - 2], step = in.back();
    Tensor squares = full({}, 0, f32);
    for (size_t i = 1; i + 2 < in.size(); i += 4) squares = squares + sum(square(in[i]));
    const Tensor scale = 1 / max(sqrt(squares), 1);
    Outputs out;
    size_t i = 0;
    for (const auto& [name, shape] : parameters) {
      const MomentStep next = adam_step(in[i], in[i + 1] * scale, in[i + 2], in[i + 3], lr, step,
                                        {.weight_decay = weight_decay, .decoupled = true});
      out.emplace_back("new_" + name, next.param);
      out.emplace_back("new_m_" + name, next.m);
      out.emplace_back("new_v_" + name, next.v);
      i += 4;
    }
    return out;
  });
}

}  // namespace kiln::graph::examples
