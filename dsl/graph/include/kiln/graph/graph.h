// graph(name, inputs, function): traces a C++ function into a graph.
//
//   Dim batch = dim("batch", 1, 4096);
//   auto mlp = graph("mlp", {input("x", f32, {batch, 784}), input("w", f32, {256, 784}), input("b", f32, {256})},
//                    [](Tensor x, Tensor w, Tensor b) { return gelu(linear(x, w, b)); });
//
// The function takes as many Tensors as there are inputs, or one Tensors (a vector). It gives a Tensor, a Tensors, or
// Outputs with names. Traces do not nest on a thread; graphs are values and may be used on any.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kiln/graph/control.h"
#include "kiln/graph/functions.h"

namespace kiln::graph {

struct InputSpec {
  std::string name;
  ElementType element;
  Shape shape;
  std::string donated_to;  // the name of an output; empty: none
  SourceLocation loc;
};
InputSpec input(std::string name, ElementType element, Shape shape, SourceLocation loc = SourceLocation::current());
// A state: its memory may be taken over by the output of this name, its next value.
InputSpec donated(std::string name, ElementType element, Shape shape, std::string output,
                  SourceLocation loc = SourceLocation::current());

// Outputs by name. Without names they are "y", or "y0", "y1", ….
using Outputs = std::vector<std::pair<std::string, Tensor>>;

// A traced graph, or what was wrong with it: one error of several lines, "FILE:LINE:COLUMN: …".
class GraphDef {
 public:
  explicit GraphDef(Result<Graph> ir) : ir_(std::move(ir)) {}
  const Result<Graph>& ir() const { return ir_; }
  // As a `.kg` file has it.
  Result<std::string> text() const;

 private:
  Result<Graph> ir_;
};

// How many tensors a function takes: any number, or so many.
inline constexpr size_t kAnyCount = ~size_t{0};
// The function gets the inputs as tensors. It is not run where it takes another number of them. An exception that
// derives from std::exception ends the trace with an error that has its text.
GraphDef trace(std::string name, std::vector<InputSpec> inputs, const std::function<Outputs(Tensors)>& function,
               SourceLocation loc = SourceLocation::current(), size_t takes = kAnyCount);

namespace detail {
Outputs name_outputs(Tensors tensors);

template <class Function, size_t... I>
auto call_with(Function& function, Tensors& inputs, std::index_sequence<I...>) {
  return function(inputs[I]...);
}
// How many Tensors a function takes: 0 … 32.
template <class Function, class Sequence>
struct TakesTensors : std::false_type {};
template <class Function, size_t... I>
struct TakesTensors<Function, std::index_sequence<I...>>
    : std::is_invocable<Function&, std::enable_if_t<(I >= 0), Tensor>...> {};
template <class Function, size_t N = 0>
constexpr size_t tensors_taken() {
  static_assert(N <= 32, "the function of a graph takes Tensors, one for each input, or one Tensors");
  if constexpr (TakesTensors<Function, std::make_index_sequence<N>>::value) {
    return N;
  } else {
    return tensors_taken<Function, N + 1>();
  }
}
template <class Result>
Outputs as_outputs(Result result) {
  if constexpr (std::is_same_v<Result, Outputs>) {
    return result;
  } else if constexpr (std::is_same_v<Result, Tensor>) {
    return name_outputs({result});
  } else {
    static_assert(std::is_same_v<Result, Tensors>, "the function of a graph gives a Tensor, a Tensors or Outputs");
    return name_outputs(std::move(result));
  }
}
template <class Function>
constexpr size_t count_taken() {
  if constexpr (std::is_invocable_v<Function&, Tensors>) {
    return kAnyCount;
  } else {
    return tensors_taken<Function>();
  }
}
// Of exactly as many tensors as it takes.
template <class Function>
Outputs apply(Function& function, Tensors tensors) {
  if constexpr (std::is_invocable_v<Function&, Tensors>) {
    return as_outputs(function(std::move(tensors)));
  } else {
    return as_outputs(call_with(function, tensors, std::make_index_sequence<tensors_taken<Function>()>()));
  }
}
}  // namespace detail

template <class Function>
GraphDef graph(std::string name, std::vector<InputSpec> inputs, Function function,
               SourceLocation loc = SourceLocation::current()) {
  return trace(
      std::move(name), std::move(inputs), [&](Tensors tensors) { return detail::apply(function, std::move(tensors)); },
      loc, detail::count_taken<Function>());
}

// The outputs of a graph for tensors of the current trace, its nodes among its own. The inputs' types must be those of
// the graph; dims are the same by name. As many tensors as it has outputs, invalid ones after an error.
Tensors inline_graph(const GraphDef& graph, Tensors inputs, SourceLocation loc = SourceLocation::current());

// A graph followed by a function of its outputs: a graph of the same name and inputs. Donations stay where an output of
// that name is left.
GraphDef compose_traced(const GraphDef& first, const std::function<Outputs(Tensors)>& function, SourceLocation loc,
                        size_t takes);
template <class Function>
GraphDef compose(const GraphDef& first, Function function, SourceLocation loc = SourceLocation::current()) {
  return compose_traced(
      first, [&](Tensors tensors) { return detail::apply(function, std::move(tensors)); }, loc,
      detail::count_taken<Function>());
}

}  // namespace kiln::graph
