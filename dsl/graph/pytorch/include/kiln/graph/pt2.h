// Models that PyTorch exported: `.pt2` files of torch.export.save, read without PyTorch.
//
//   auto model = graph::read_pt2("model.pt2");
//   if (!model) …model.error().message…
//   auto graph = graph::graph_of(model->program);         // kiln/graph/aten.h
//   // Inputs of the graph: first the weights, then the caller's, in the order of the module's forward().
//
// A `.pt2` is a ZIP archive whose members are stored as they are: `models/NAME.json`, a program of ATen calls in
// PyTorch's export schema 8 (torch/_export/serde/schema.py), and the bytes of each weight. Weights are mapped, not
// copied. Save `exported.run_decompositions()` for programs with few kinds of calls; others are read as well.
//
// Thread-safe. docs/use/graphs.md, "Models of PyTorch".
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/graph/aten.h"
#include "kiln/graph/evaluate.h"

namespace kiln::graph {

// A parameter, buffer or constant of the model, and its values: the input `input` of the program.
struct Pt2Weight {
  std::string input;  // "p_l_weight"
  std::string name;   // "l.weight", as the module calls it
  Array values;       // borrows the file's mapping; strides as they were saved
};

// A weight or input that a run gives a new value, such as the running mean of a batch norm.
struct Pt2State {
  std::string input, output;  // names in the program
};

struct Pt2Model {
  AtenProgram program;
  std::vector<Pt2Weight> weights;
  std::vector<std::string> inputs;   // the caller's
  std::vector<std::string> outputs;  // the caller's
  std::vector<Pt2State> states;
  std::shared_ptr<const void> file;  // the mapping that weights borrow
};

// Of a file with several models the one of this name; empty: the only one. Errors name the file and what of it: no
// archive, truncated, compressed members, bytes outside of the file, another schema, weights that are pickles (tensor
// subclasses), complex numbers.
Result<Pt2Model> read_pt2(const std::string& path, std::string_view name = {});

// The JSON text of an exported program, as `models/NAME.json` has it, without weights: of `weights` only the names are
// set. `what` names it in errors. torch.compile's backend writes the same.
Result<Pt2Model> read_exported_json(std::string_view json, std::string_view what);

}  // namespace kiln::graph
