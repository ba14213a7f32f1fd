// The evaluator: nodes of a body in order, values dropped behind their last use.
#include "kiln/graph/evaluate.h"

#include <algorithm>
#include <new>

#include "evaluate/array_loops.h"
#include "kiln/dsl/float_mode.h"
#include "kiln/graph/decompose.h"
#include "kiln/graph/sizes.h"

namespace kiln::graph {
namespace evaluator {

Result<int64_t> Machine::number(const Expr& expr) const {
  if (auto constant = expr.as_constant()) return *constant;
  auto value = expr.evaluate(dims);
  if (value) return value;
  for (const uint32_t dim : mentioned_dims(expr)) {
    if (dims.constexprs[dim]) continue;
    return invalid_argument("no input says what the dim `" + graph.dims[dim].name + "` is, and it was not given");
  }
  return invalid_argument(dsl::to_string(expr, graph.expr_names()) + " is not an i64 for the given sizes");
}

Result<Extents> Step::extents(size_t attr) const {
  Extents out;
  for (const Expr& expr : shape_attr(attrs(), attr)) {
    auto value = machine.number(expr);
    if (!value) return fail(value.error().message);
    out.push_back(*value);
  }
  return out;
}

Error Step::fail(const std::string& what) const {
  const std::string place = machine.graph.location_text(node.loc);
  return invalid_argument((place.empty() ? "" : place + ": ") + info(node.op).name + ": " + what);
}

namespace {

Result<void> run_node(Step& step) {
  switch (info(step.node.op).family) {
    case Family::kMake:
      return run_make(step);
    case Family::kElementwise:
      return run_elementwise(step);
    case Family::kView:
      return run_view(step);
    case Family::kCat:
      return run_cat(step);
    case Family::kIndex:
      return run_index(step);
    case Family::kReduce:
      return run_reduce(step);
    case Family::kScan:
      return run_scan(step);
    case Family::kOrder:
      return run_order(step);
    case Family::kContract:
      return run_dot(step);
    case Family::kConv:
      return run_conv(step);
    case Family::kWindow:
      return run_window(step);
    case Family::kResize:
      return run_resize(step);
    case Family::kControl:
      return run_control(step);
    case Family::kKernel:
      return run_kernel(step);
    case Family::kNorm:
    case Family::kOptimiser:
      break;  // composites all
  }
  return internal_error("evaluate: `" + info(step.node.op).name + "` is not a primitive");
}

// An input that the evaluation may keep: floats widened, i1 as 0 or 1.
Array prepared(const Machine& machine, const Array& array) {
  if (array.element == ElementType::kI1) {
    std::vector<uint64_t> bits = all_bits(array);
    for (uint64_t& word : bits) word = word != 0;
    Array out = own(ElementType::kI1, array.shape);
    store_all(out, bits);
    return out;
  }
  return converted(array, machine.computed(array.element));
}

}  // namespace

Result<std::vector<Array>> run_body(Machine& machine, BodyId id, std::vector<Array> inputs, int64_t lanes) {
  const Body& body = machine.graph.bodies[id];
  const BodyPlan& plan = machine.bodies[id];
  std::vector<Array> values(body.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[body.inputs[i].value] = std::move(inputs[i]);
  std::vector<const Array*> operands;
  for (size_t n = 0; n < body.nodes.size(); ++n) {
    const Node& node = body.nodes[n];
    operands.clear();
    for (const ValueId operand : body.operands_of(node)) {
      operands.push_back(operand == kNoValue ? nullptr : &values[operand]);
    }
    Step step{machine, body, node, operands, lanes};
    if (auto done = run_node(step); !done) return done.error();
    for (size_t i = 0; i < step.results.size(); ++i) values[node.first_result + i] = std::move(step.results[i]);
    for (uint32_t i = plan.released_begin[n]; i < plan.released_begin[n + 1]; ++i) values[plan.released[i]] = Array{};
  }
  std::vector<Array> out;
  for (const Output& output : body.outputs) out.push_back(values[output.value]);
  return out;
}

namespace {

// Dims' sizes, of inputs that are as the graph declares them.
Result<void> bind(Machine& machine, std::span<const Array> inputs, const std::map<std::string, int64_t>& sizes) {
  const Graph& graph = machine.graph;
  const Body& body = graph.main();
  std::vector<DeclaredTensor> declared;
  std::vector<GivenTensor> given;
  for (const Input& input : body.inputs) declared.push_back({input.name, &graph.type(body, input.value)});
  for (const Array& array : inputs) given.push_back({array.element, array.shape});
  auto bound = bind_sizes(body.name, graph.dims, declared, given, sizes);
  if (!bound) return bound.error();
  machine.dims = std::move(*bound);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Array& array = inputs[i];
    const std::string name = "input `" + body.inputs[i].name + "`";
    if (array.strides.size() != array.shape.size()) {
      return invalid_argument(name + " has " + std::to_string(array.strides.size()) + " strides for the shape " +
                              text(array.shape));
    }
    if (array.data == nullptr && array.count() > 0) {
      return invalid_argument(name + " is " + std::string(dsl::info(array.element).name) + text(array.shape) +
                              ", but its data are null");
    }
  }
  return {};
}

Result<std::vector<Array>> run(const Graph& graph, std::span<const Array> inputs,
                               const std::map<std::string, int64_t>& sizes, const EvaluateOptions& options) {
  Machine machine{graph, options};
  if (auto bound = bind(machine, inputs, sizes); !bound) return bound.error();
  if (auto planned = plan(machine); !planned) return planned.error();
  std::vector<Array> values;
  for (const Array& input : inputs) values.push_back(prepared(machine, input));
  auto out = run_body(machine, 0, std::move(values));
  if (!out) return out;
  for (Array& array : *out) {
    // An input's memory, or a part of another value's, is no array of the caller's own.
    const bool whole = array.storage && is_contiguous(array) && array.data == array.storage->data();
    if (!whole || array.storage.use_count() > 1) array = contiguous(array);
  }
  return out;
}

}  // namespace
}  // namespace evaluator

Result<std::vector<Array>> evaluate(const Graph& graph, std::span<const Array> inputs,
                                    const std::map<std::string, int64_t>& sizes, const EvaluateOptions& options) try {
  const dsl::FloatMode mode;
  const auto composite = [](const Node& node) { return info(node.op).has(kComposite); };
  const bool any = std::any_of(graph.bodies.begin(), graph.bodies.end(), [&](const Body& body) {
    return std::any_of(body.nodes.begin(), body.nodes.end(), composite);
  });
  if (!any) return evaluator::run(graph, inputs, sizes, options);
  auto primitives = decompose(graph);
  if (!primitives) return primitives.error();
  return evaluator::run(*primitives, inputs, sizes, options);
} catch (const std::bad_alloc&) {
  return error(ErrorCode::kOutOfMemory, "not enough memory to evaluate `" + graph.main().name + "`");
}

}  // namespace kiln::graph
