// graph(): the trace of an author's function, and graphs inside of graphs.
#include "kiln/graph/graph.h"

#include <algorithm>
#include <exception>

#include "ir/renumber.h"
#include "kiln/graph/extents.h"
#include "trace/call.h"

namespace kiln::graph {
namespace {

// One trace of an author's function, from inputs to outputs.
class Session {
 public:
  Session(std::string name, const SourceLocation& loc)
      : what_("graph " + name), loc_(loc), builder_(std::move(name)), trace_(builder_) {}

  Trace& trace() { return trace_; }
  GraphBuilder& builder() { return builder_; }
  void fail(const std::string& message) { trace_.report(loc_, what_ + ": " + message); }

  void add_outputs(const Outputs& outputs) {
    if (outputs.empty() && !trace_.failed()) fail("no outputs");
    for (const auto& [name, tensor] : outputs) {
      if (!trace_.usable(tensor, "output " + name, loc_)) continue;
      if (name.empty()) fail("an output without a name");
      auto added = builder_.add_output(name, trace_.resolve(tensor, loc_));
      if (!added) fail(added.error().message);
    }
  }
  std::optional<uint32_t> find_output(const std::string& name) const {
    const std::vector<Output>& outputs = builder_.body().outputs;
    for (uint32_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].name == name) return i;
    }
    return std::nullopt;
  }
  // The function's outputs, as far as it gets.
  void run(const std::function<Outputs(Tensors)>& function, Tensors inputs, size_t takes) {
    if (takes != kAnyCount && takes != inputs.size()) {
      fail(std::to_string(inputs.size()) + " tensors for a function that takes " + std::to_string(takes));
      return;
    }
    try {
      add_outputs(function(std::move(inputs)));
    } catch (const std::exception& thrown) {
      fail(std::string("its function threw: ") + thrown.what());
    }
  }
  Result<Graph> finish() {
    if (trace_.failed()) return trace_.error();
    return builder_.take();
  }

 private:
  std::string what_;
  SourceLocation loc_;
  GraphBuilder builder_;
  Trace trace_;
};

Tensor declare(Session& session, const InputSpec& spec) {
  Trace& trace = session.trace();
  const std::string what = "input " + spec.name;
  auto shape = trace.exprs(spec.shape, what, spec.loc);
  if (spec.name.empty()) trace.report(spec.loc, "input: a name is missing");
  if (!shape) return {};
  return trace.add_input(spec.name, {spec.element, std::move(*shape)}, spec.loc);
}

void donate(Session& session, const std::vector<InputSpec>& inputs) {
  for (uint32_t i = 0; i < inputs.size() && !session.trace().failed(); ++i) {
    if (inputs[i].donated_to.empty()) continue;
    const auto output = session.find_output(inputs[i].donated_to);
    if (!output) {
      session.trace().report(inputs[i].loc, "input " + inputs[i].name + ": it is donated to " + inputs[i].donated_to +
                                                ", which is no output");
      continue;
    }
    if (auto done = session.builder().donate(i, *output); !done) {
      session.trace().report(inputs[i].loc, done.error().message);
    }
  }
}

GraphDef nested(const std::string& name, const SourceLocation& loc) {
  return GraphDef(error(ErrorCode::kVerifyFailed, std::string(loc.file_name()) + ":" + std::to_string(loc.line()) +
                                                      ":" + std::to_string(loc.column()) + ": graph " + name +
                                                      ": inside of the function of another graph; use inline_graph() "
                                                      "there"));
}

// Whether the tensors are what the graph's inputs are; its dims are numbered here by `dims`.
void check_inputs(Call& call, const Graph& graph, const Tensors& inputs, const std::vector<uint32_t>& dims) {
  const Body& main = graph.main();
  if (inputs.size() != main.inputs.size()) {
    call.fail(std::to_string(inputs.size()) + " tensors for the " + std::to_string(main.inputs.size()) +
              " inputs of graph " + main.name);
  }
  for (size_t i = 0; i < inputs.size() && call.ok(); ++i) {
    const Tensor given = call.tensor(Operand(inputs[i], call.loc()));
    const TensorType& type = graph.type(main, main.inputs[i].value);
    bool same = call.ok() && type.element == call.element(given) && type.rank() == call.rank(given);
    for (int axis = 0; same && axis < type.rank(); ++axis) {
      const Expr wanted = renumber(type.shape[static_cast<size_t>(axis)], dims);
      same = equal(call.trace().graph().dims, wanted, call.extent(given, axis)) == Known::kYes;
    }
    if (!call.ok() || same) continue;
    call.fail("input " + main.inputs[i].name + " of graph " + main.name + " is " + to_string(type, graph.expr_names()) +
              ", given is " + call.text(given));
  }
}

}  // namespace

InputSpec input(std::string name, ElementType element, Shape shape, SourceLocation loc) {
  return {std::move(name), element, std::move(shape), {}, loc};
}

InputSpec donated(std::string name, ElementType element, Shape shape, std::string output, SourceLocation loc) {
  return {std::move(name), element, std::move(shape), std::move(output), loc};
}

Outputs detail::name_outputs(Tensors tensors) {
  Outputs out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    out.emplace_back(tensors.size() == 1 ? "y" : "y" + std::to_string(i), tensors[i]);
  }
  return out;
}

GraphDef trace(std::string name, std::vector<InputSpec> inputs, const std::function<Outputs(Tensors)>& function,
               SourceLocation loc, size_t takes) {
  if (Trace::current()) return nested(name, loc);
  Session session(std::move(name), loc);
  if (session.builder().body().name.empty()) session.fail("it has no name");
  Tensors tensors;
  for (const InputSpec& spec : inputs) tensors.push_back(declare(session, spec));
  session.run(function, std::move(tensors), takes);
  donate(session, inputs);
  return GraphDef(session.finish());
}

Tensors inline_graph(const GraphDef& graph, Tensors inputs, SourceLocation loc) {
  Call call("inline_graph", loc);
  if (!graph.ir()) {
    call.fail(graph.ir().error().message);
    return {};
  }
  const Graph& from = *graph.ir();
  const Tensors failed(from.main().outputs.size());
  std::vector<uint32_t> dims;
  for (const DimInfo& dim : from.dims) {
    if (!call.ok()) return failed;
    auto number = call.trace().builder().add_dim(dim);
    if (!number) call.fail(number.error().message);
    dims.push_back(number ? *number : 0);
  }
  check_inputs(call, from, inputs, dims);
  if (!call.ok()) return failed;
  std::vector<ValueId> ids;
  for (const Tensor& each : inputs) ids.push_back(call.trace().resolve(each, loc));
  auto outputs = call.trace().builder().inline_body(from, 0, ids);
  if (!outputs) {
    call.fail(outputs.error().message);
    return failed;
  }
  Tensors out;
  for (const ValueId each : *outputs) out.push_back(call.trace().tensor(each));
  return out;
}

GraphDef compose_traced(const GraphDef& first, const std::function<Outputs(Tensors)>& function, SourceLocation loc,
                        size_t takes) {
  if (!first.ir()) return first;
  const Graph& from = *first.ir();
  const Body& main = from.main();
  if (Trace::current()) return nested(main.name, loc);
  Session session(main.name, loc);
  Tensors inputs;
  for (const Input& each : main.inputs) {
    const Shape shape = [&] {
      Shape out;
      for (const Expr& extent : from.type(main, each.value).shape) out.emplace_back(extent, from.dims);
      return out;
    }();
    inputs.push_back(declare(session, {each.name, from.type(main, each.value).element, shape, {}, loc}));
  }
  Tensors outputs = inline_graph(first, inputs, loc);
  session.run(function, std::move(outputs), takes);
  for (uint32_t i = 0; i < main.inputs.size() && !session.trace().failed(); ++i) {
    if (main.inputs[i].donated_to == kNone) continue;
    const auto output = session.find_output(main.outputs[main.inputs[i].donated_to].name);
    // Another output may have the name, of another type: then it is no next value of the state.
    if (output) static_cast<void>(session.builder().donate(i, *output));
  }
  return GraphDef(session.finish());
}

}  // namespace kiln::graph
