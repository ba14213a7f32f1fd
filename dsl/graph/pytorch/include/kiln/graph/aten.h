// Programs of ATen calls, and the graph of one: what PyTorch's torch.export writes into a `.pt2` and torch.compile
// hands to a backend, as data without PyTorch. docs/reference/graph-aten.md lists the overloads.
//
//   AtenProgram program;
//   program.inputs = {{"x", f32, {dim("n", 1, 64), 8}}};
//   program.calls = {{"aten.relu.default", {{"self", AtenName{"x"}}}, {"relu"}, "model.py:12 in forward"}};
//   program.outputs = {{"y", "relu"}};
//   Result<Graph> graph = graph_of(program);
//
// Values; thread-safe as such.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kiln/dsl/result.h"
#include "kiln/graph/dim.h"

namespace kiln::graph {

// A tensor of the program: an input, or a result of a call in front. Empty: none (of a list of optional tensors).
struct AtenName {
  std::string name;
  bool operator==(const AtenName&) const = default;
};

struct AtenArgument;
using AtenList = std::vector<AtenArgument>;

// One argument of a call. std::monostate is None. A Dim stands for an int that is known when the graph runs. Words are
// enums that are texts in PyTorch ("mean", "floor"). Devices, layouts and memory formats have no meaning in a graph,
// and are left out.
struct AtenArgument {
  std::variant<std::monostate, bool, int64_t, double, std::string, ElementType, Dim, AtenName, AtenList> value;
};

struct AtenCall {
  std::string target;  // "aten.add.Tensor"; an overload without a name is "default"
  // By the names of the schema. What is left out has the schema's default.
  std::vector<std::pair<std::string, AtenArgument>> arguments;
  std::vector<std::string> results;  // names of the results, in order; an empty one is not used
  std::string place;                 // the author's line, for messages; may be empty
};

struct AtenInput {
  std::string name;
  ElementType element;
  Shape shape;
  std::string donated_to;  // the name of an output that takes over its memory; empty: none
};

struct AtenProgram {
  std::string name;
  std::vector<AtenInput> inputs;
  std::vector<AtenCall> calls;
  std::vector<std::pair<std::string, std::string>> outputs;  // name of the output, name of the tensor
};

// The graph of a program. Inputs and outputs keep their names, as far as a graph allows those (the others have `_` for
// what it does not), and their order; a program with random numbers gets two inputs more at the end, `seed` and
// `offset` (u64[]). A call that writes in place, `aten.add_.Tensor`, gives its operand a new value, for all that comes
// later. Errors: one of several lines, each with the call, its place, and what is wrong: an overload that there is no
// graph of (every one is listed, once, with the number of its calls), an argument that is missing or of another kind, a
// tensor that no call gives, types that do not fit.
Result<Graph> graph_of(const AtenProgram& program);

// Whether a graph can have a call of this target. `torch.compile` cuts a program where it is false.
bool is_known_aten(std::string_view target);

}  // namespace kiln::graph
