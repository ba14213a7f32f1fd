// The evaluator's inside: an evaluation in progress, one node of it, and one function a family of ops.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kiln/graph/evaluate.h"

namespace kiln::graph::evaluator {

// Bodies inside bodies: the evaluator calls itself for each.
inline constexpr int kMaxDepth = 100;

using Extents = std::vector<int64_t>;

// What is known of a body before it runs.
struct BodyPlan {
  std::vector<uint32_t> released;        // values after whose last use nothing needs them, by node
  std::vector<uint32_t> released_begin;  // into `released`, one more than there are nodes
  bool lanewise = false;                 // takes and gives scalars, one element at a time: runs for many at once
};

struct Machine {
  const Graph& graph;  // of primitives
  const EvaluateOptions& options;
  dsl::Bindings dims = {};
  std::vector<Extents> shapes = {};  // by TypeId
  std::vector<BodyPlan> bodies = {};
  std::vector<std::shared_ptr<const dsl::Kernel>> kernels = {};  // instantiated, by number; made when first run

  // The type that a tensor's elements have here.
  ElementType computed(ElementType declared) const {
    return options.wide && dsl::is_float(declared) ? ElementType::kF64 : declared;
  }
  // Its value for the sizes; the error says which dims have none.
  Result<int64_t> number(const Expr& expr) const;
};

// One node with its operands.
struct Step {
  Machine& machine;
  const Body& body;
  const Node& node;
  std::span<const Array* const> operands;  // null where an optional one is left out
  int64_t lanes = -1;                      // the body runs for so many scalars at once; -1: as it stands
  std::vector<Array> results = {};

  const AttrList& attrs() const { return machine.graph.attrs(node); }
  const Array& operand(size_t i) const { return *operands[i]; }
  ElementType declared_operand(size_t i) const { return machine.graph.type(body, body.operands_of(node)[i]).element; }
  ElementType declared_result(size_t i = 0) const {
    return machine.graph.type(body, node.first_result + static_cast<uint32_t>(i)).element;
  }
  Extents shape(size_t i = 0) const {
    if (lanes >= 0) return {lanes};
    return machine.shapes[body.values[node.first_result + i].type];
  }
  // A new result of zeros.
  Array& make(size_t i = 0) {
    results.push_back(own(machine.computed(declared_result(i)), shape(i)));
    return results.back();
  }
  void give(Array array) { results.push_back(std::move(array)); }
  Result<Extents> extents(size_t attr) const;
  // An error at the node's source line that names its op.
  Error fail(const std::string& what) const;
};

// The outputs of a body for its inputs. `lanes`: inputs are [lanes], of a lanewise body.
Result<std::vector<Array>> run_body(Machine& machine, BodyId body, std::vector<Array> inputs, int64_t lanes = -1);

Result<void> run_make(Step& step);
Result<void> run_elementwise(Step& step);
Result<void> run_math(Step& step);
void run_convert(Step& step);  // cast, bitcast
Result<void> run_view(Step& step);
Result<void> run_cat(Step& step);
Result<void> run_index(Step& step);
Result<void> run_reduce(Step& step);
Result<void> run_reduce_custom(Step& step);
Result<void> run_scan(Step& step);
Result<void> run_scan_custom(Step& step);
Result<void> run_order(Step& step);
Result<void> run_dot(Step& step);
Result<void> run_conv(Step& step);
Result<void> run_window(Step& step);
Result<void> run_resize(Step& step);
Result<void> run_control(Step& step);
Result<void> run_kernel(Step& step);

// Shapes of all types, releases, and what the memory limit says (plan.cpp).
Result<void> plan(Machine& machine);

// "[2, 3]"
std::string text(std::span<const int64_t> numbers);

}  // namespace kiln::graph::evaluator
