// Models that PyTorch exported, ready to compile: a graph and its weights out of a `.pt2` file, without PyTorch.
//
//   kiln::Client client;
//   auto model = kiln::load_pt2("model.pt2");
//   if (!model) …model.error().message…
//   auto fn = client.compile(model->graph, {.target = "cpu"});
//   if (!fn) …fn.error().message…
//   auto bound = fn->bind(model->weights);                    // packed and folded once
//   if (!bound) …bound.error().message…
//   auto y = (*bound)({array(x, {8, 784})});                  // the inputs of forward(), in order
//
// kiln/graph/pt2.h says what a file may have. docs/use/graphs.md, "Models of PyTorch".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/client/array.h"
#include "kiln/dsl/result.h"
#include "kiln/graph/ir.h"

namespace kiln::client {

// A weight that runs give a new value, such as the running mean of a batch norm that trains: an input of the graph that
// is donated to the output `next`.
struct ModelState {
  std::string next;
  ArrayView initial;
};

struct LoadedModel {
  graph::Graph graph;                        // its inputs: weights and states, then those of forward()
  std::map<std::string, ArrayView> weights;  // by input, as CompiledGraph::bind takes them
  std::map<std::string, ModelState> states;  // by input
  std::vector<std::string> inputs;           // of forward()
  std::vector<std::string> outputs;          // of forward(); the graph's others are the states' next values
};

// Of a file with several models the one of this name; empty: the only one. Values are the file's own memory, which each
// of them keeps mapped: the file must not shrink while they live. Thread-safe. Errors name the file and what of it, or
// the calls that there is no graph of, with the author's lines.
Result<LoadedModel> load_pt2(const std::string& path, std::string_view name = {});

}  // namespace kiln::client

namespace kiln {
using client::load_pt2;
using client::LoadedModel;
}  // namespace kiln
