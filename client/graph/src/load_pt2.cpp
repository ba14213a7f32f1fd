#include <algorithm>

#include "kiln/client/pt2.h"
#include "kiln/graph/pt2.h"

namespace kiln::client {

Result<LoadedModel> load_pt2(const std::string& path, std::string_view name) {
  auto model = graph::read_pt2(path, name);
  if (!model) return model.error();
  auto graph = graph::graph_of(model->program);
  if (!graph) return error(graph.error().code, path + ": " + graph.error().message);
  LoadedModel out{.graph = std::move(*graph),
                  .weights = {},
                  .states = {},
                  .inputs = std::move(model->inputs),
                  .outputs = std::move(model->outputs)};
  for (const graph::Pt2Weight& weight : model->weights) {
    ArrayView view = {.element = weight.values.element,
                      .shape = weight.values.shape,
                      .strides = weight.values.strides,
                      .data = weight.values.data,
                      .owner = model->file};
    const auto state = std::ranges::find(model->states, weight.input, &graph::Pt2State::input);
    if (state == model->states.end()) {
      out.weights.emplace(weight.input, std::move(view));
    } else {
      out.states.emplace(weight.input, ModelState{state->output, std::move(view)});
    }
  }
  return out;
}

}  // namespace kiln::client
