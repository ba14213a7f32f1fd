// gradient, value_and_gradient, vjp, jvp: one pass back each, with other seeds and outputs.
//
// Forward mode is reverse mode twice (Townsend 2017): gradients are linear in their weights g, and the gradient of a
// linear map by its argument is the map the other way round. The g themselves drop out.
#include "kiln/graph/differentiate.h"

#include <algorithm>
#include <set>

#include "differentiate/driver.h"
#include "ir/prune.h"
#include "ir/renumber.h"

namespace kiln::graph {
namespace {

std::string at(const Graph& graph, const Location& loc) {
  const std::string where = graph.location_text(loc);
  return where.empty() ? "" : where + ": ";
}

// Where a value of the main body comes from.
Location location_of(const Graph& graph, ValueId value) {
  const Body& main = graph.main();
  const NodeId node = main.values[value].node;
  if (node != kNone) return main.nodes[node].loc;
  for (const Input& input : main.inputs) {
    if (input.value == value) return input.loc;
  }
  return {};
}

bool is_float(const Graph& graph, ValueId value) { return dsl::is_float(graph.type(graph.main(), value).element); }

std::string unique(std::set<std::string>& taken, const std::string& name) {
  std::string out = name;
  for (int i = 2; !taken.insert(out).second; ++i) out = name + "_" + std::to_string(i);
  return out;
}

// One pass back through a graph.
struct Pass {
  struct Seed {
    uint32_t output;
    std::string input;  // of the name; empty: 1
  };
  std::vector<Seed> seeds;
  std::vector<uint32_t> kept;  // outputs of the graph that stay, in front
  struct Gradient {
    uint32_t input;
    std::string output;
  };
  std::vector<Gradient> gradients;
};

// Which values the seeded outputs depend on.
std::vector<bool> useful_values(const Body& body, const Pass& pass) {
  std::vector<bool> useful(body.values.size(), false);
  for (const Pass::Seed& seed : pass.seeds) useful[body.outputs[seed.output].value] = true;
  for (size_t i = body.nodes.size(); i-- > 0;) {
    const Node& node = body.nodes[i];
    bool some = false;
    for (uint32_t k = 0; k < node.result_count; ++k) some = some || useful[node.first_result + k];
    if (!some) continue;
    for (const ValueId operand : body.operands_of(node)) {
      if (operand != kNoValue) useful[operand] = true;
    }
  }
  return useful;
}

// Whether the forward part stays as it is: no loop to keep what it carries, no call to inline.
bool stays(const Graph& graph) {
  return std::ranges::none_of(
      graph.main().nodes, [](const Node& node) { return node.op == TensorOp::kLoop || node.op == TensorOp::kCall; });
}

class PassRunner {
 public:
  PassRunner(const Graph& graph, const Pass& pass)
      : graph_(graph),
        main_(graph.main()),
        pass_(pass),
        stays_(stays(graph)),
        builder_(stays_ ? GraphBuilder::extend(graph) : GraphBuilder::rewrite(graph)),
        trace_(builder_, Location()),
        driver_(graph, builder_, trace_) {}

  Result<Graph> run() {
    auto inputs = add_inputs();
    if (!inputs) return inputs.error();
    std::vector<bool> wanted(main_.inputs.size(), false);
    for (const Pass::Gradient& gradient : pass_.gradients) wanted[gradient.input] = true;
    auto weights = add_weights();
    if (!weights) return weights.error();
    const std::vector<ValueId> outputs = add_forward(*inputs, wanted);
    if (trace_.failed()) return trace_.error();
    std::vector<Tensor> seeds = seeds_of(outputs, *weights);
    wanted.resize(builder_.body().inputs.size(), false);
    const std::vector<Tensor> gradients = driver_.backward(wanted, std::move(seeds));
    if (trace_.failed()) return trace_.error();
    if (auto added = add_outputs(outputs, *inputs, gradients); !added) return added.error();
    if (trace_.failed()) return trace_.error();
    Graph out = builder_.take();
    number_inputs_first(out.bodies[0]);
    return prune(std::move(out));
  }

 private:
  Result<std::vector<ValueId>> add_inputs() {
    std::vector<ValueId> out;
    for (const Input& input : main_.inputs) {
      if (stays_) {
        out.push_back(input.value);
        continue;
      }
      auto value = builder_.add_input(input.name, graph_.type(main_, input.value), input.loc);
      if (!value) return value.error();
      out.push_back(*value);
    }
    return out;
  }
  std::vector<ValueId> add_forward(const std::vector<ValueId>& inputs, const std::vector<bool>& wanted) {
    std::vector<ValueId> out;
    if (stays_) {
      for (const Output& output : main_.outputs) out.push_back(output.value);
      return out;
    }
    out = driver_.forward(main_, inputs, wanted, useful_values(main_, pass_));
    if (!trace_.failed()) keep_names(out);
    return out;
  }
  Result<std::vector<ValueId>> add_weights() {
    std::vector<ValueId> out;
    for (const Pass::Seed& seed : pass_.seeds) {
      if (seed.input.empty()) continue;
      auto value = builder_.add_input(seed.input, graph_.type(main_, main_.outputs[seed.output].value));
      if (!value) return value.error();
      out.push_back(*value);
    }
    return out;
  }
  // Names for readers, of those values that are still there: outputs'.
  void keep_names(const std::vector<ValueId>& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (builder_.body().values[outputs[i]].node == kNone) continue;  // a call that gives what it took: an input
      const auto named = main_.names.find(main_.outputs[i].value);
      if (named != main_.names.end() && !builder_.body().names.contains(outputs[i])) {
        builder_.set_name(outputs[i], named->second);
      }
    }
  }
  std::vector<Tensor> seeds_of(const std::vector<ValueId>& outputs, const std::vector<ValueId>& weights) {
    std::vector<Tensor> seeds(builder_.body().values.size());
    size_t next = 0;
    for (const Pass::Seed& seed : pass_.seeds) {
      trace_.set_location(location_of(graph_, main_.outputs[seed.output].value));
      const ValueId output = outputs[seed.output];
      Tensor weight = seed.input.empty() ? number_like(trace_.tensor(output), 1) : trace_.tensor(weights[next++]);
      Tensor& sum = seeds[output];
      sum = sum.valid() ? sum + weight : weight;
    }
    seeds.resize(builder_.body().values.size());
    return seeds;
  }
  Result<void> add_outputs(const std::vector<ValueId>& outputs, const std::vector<ValueId>& inputs,
                           const std::vector<Tensor>& gradients) {
    for (const uint32_t output : pass_.kept) {
      if (auto added = builder_.add_output(main_.outputs[output].name, outputs[output]); !added) return added;
    }
    for (const Pass::Gradient& gradient : pass_.gradients) {
      const Tensor& found = gradients[gradient.input];
      trace_.set_location(main_.inputs[gradient.input].loc);
      const Tensor value = found.valid() ? found : zeros_of(builder_.type(inputs[gradient.input]));
      if (!value.valid()) return trace_.error();
      if (auto added = builder_.add_output(gradient.output, value.id()); !added) return added;
    }
    return donate();
  }
  Result<void> donate() {
    for (uint32_t i = 0; i < main_.inputs.size(); ++i) {
      const auto place = std::ranges::find(pass_.kept, main_.inputs[i].donated_to);
      if (main_.inputs[i].donated_to == kNone || place == pass_.kept.end()) continue;
      if (auto done = builder_.donate(i, static_cast<uint32_t>(place - pass_.kept.begin())); !done) return done;
    }
    return {};
  }

  const Graph& graph_;
  const Body& main_;
  const Pass& pass_;
  bool stays_;
  GraphBuilder builder_;
  Trace trace_;
  Driver driver_;
};

Result<Graph> run(const Graph& graph, const Pass& pass) { return PassRunner(graph, pass).run(); }

// --- what is asked for ---

std::set<std::string> names_of(const std::vector<Output>& outputs) {
  std::set<std::string> out;
  for (const Output& output : outputs) out.insert(output.name);
  return out;
}
std::set<std::string> names_of(const std::vector<Input>& inputs) {
  std::set<std::string> out;
  for (const Input& input : inputs) out.insert(input.name);
  return out;
}

// The numbers of inputs that have gradients.
Result<std::vector<uint32_t>> find_inputs(const Graph& graph, const std::vector<std::string>& names,
                                          const std::string& what) {
  const std::vector<Input>& inputs = graph.main().inputs;
  std::vector<uint32_t> out;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(inputs, name, &Input::name);
    if (found == inputs.end()) {
      std::string known;
      for (const Input& input : inputs) known += (known.empty() ? "" : ", ") + input.name;
      return invalid_argument(what + ": graph " + graph.main().name + " has no input " + name + "; it has " + known);
    }
    const auto number = static_cast<uint32_t>(found - inputs.begin());
    if (!is_float(graph, found->value)) {
      return invalid_argument(at(graph, found->loc) + what + ": input " + name + " is " +
                              to_string(graph.type(graph.main(), found->value), graph.expr_names()) +
                              ", and only floats have gradients");
    }
    if (std::ranges::find(out, number) != out.end()) return invalid_argument(what + ": input " + name + " twice");
    out.push_back(number);
  }
  return out;
}

Result<void> check_scalar(const Graph& graph, const std::string& what) {
  if (graph.main().outputs.empty()) return invalid_argument(what + ": graph " + graph.main().name + " has no output");
  const Output& output = graph.main().outputs[0];
  const TensorType& type = graph.type(graph.main(), output.value);
  if (type.shape.empty() && dsl::is_float(type.element)) return {};
  return invalid_argument(at(graph, location_of(graph, output.value)) + what + ": output " + output.name + " is " +
                          to_string(type, graph.expr_names()) +
                          ", not a scalar of floats; take its sum or mean, or vjp()");
}

std::vector<uint32_t> all_outputs(const Graph& graph) {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < graph.main().outputs.size(); ++i) out.push_back(i);
  return out;
}

void name_gradients(const Graph& graph, const std::vector<uint32_t>& inputs, Pass& pass) {
  std::set<std::string> taken;
  for (const uint32_t output : pass.kept) taken.insert(graph.main().outputs[output].name);
  for (const uint32_t input : inputs) {
    pass.gradients.push_back({input, unique(taken, "d_" + graph.main().inputs[input].name)});
  }
}

Result<Graph> of_scalar(const Graph& graph, const std::vector<std::string>& names, bool keep, const std::string& what) {
  if (auto fine = check_scalar(graph, what); !fine) return fine.error();
  auto inputs = find_inputs(graph, names, what);
  if (!inputs) return inputs.error();
  Pass pass;
  pass.seeds = {{0, ""}};
  if (keep) pass.kept = all_outputs(graph);
  name_gradients(graph, *inputs, pass);
  return run(graph, pass);
}

Pass weighed(const Graph& graph, const std::vector<uint32_t>& inputs) {
  Pass pass;
  std::set<std::string> taken = names_of(graph.main().inputs);
  for (uint32_t i = 0; i < graph.main().outputs.size(); ++i) {
    const Output& output = graph.main().outputs[i];
    if (is_float(graph, output.value)) pass.seeds.push_back({i, unique(taken, "g_" + output.name)});
  }
  pass.kept = all_outputs(graph);
  name_gradients(graph, inputs, pass);
  return pass;
}

// Takes inputs that nothing uses out of the main body.
Result<void> drop_inputs(Graph& graph, const std::set<std::string>& names) {
  Body& main = graph.bodies[0];
  const std::vector<bool> live = live_values(main);
  std::vector<bool> keep;
  for (const Input& input : main.inputs) {
    keep.push_back(!names.contains(input.name));
    if (!keep.back() && live[input.value]) return internal_error("jvp: a gradient is not linear in " + input.name);
  }
  prune_body(main, keep);
  graph = prune(std::move(graph));
  return {};
}

GraphDef as_definition(const GraphDef& graph, const std::vector<std::string>& inputs,
                       Result<Graph> (*function)(const Graph&, const std::vector<std::string>&)) {
  return graph.ir() ? GraphDef(function(*graph.ir(), inputs)) : graph;
}

}  // namespace

Result<Graph> gradient(const Graph& graph, const std::vector<std::string>& inputs) {
  if (graph.main().outputs.size() > 1) {
    return invalid_argument("gradient: graph " + graph.main().name + " has " +
                            std::to_string(graph.main().outputs.size()) +
                            " outputs; value_and_gradient() takes the first, vjp() all");
  }
  return of_scalar(graph, inputs, false, "gradient");
}

Result<Graph> value_and_gradient(const Graph& graph, const std::vector<std::string>& inputs) {
  return of_scalar(graph, inputs, true, "value_and_gradient");
}

Result<Graph> vjp(const Graph& graph, const std::vector<std::string>& names) {
  auto inputs = find_inputs(graph, names, "vjp");
  if (!inputs) return inputs.error();
  return run(graph, weighed(graph, *inputs));
}

Result<Graph> jvp(const Graph& graph, const std::vector<std::string>& names) {
  auto inputs = find_inputs(graph, names, "jvp");
  if (!inputs) return inputs.error();
  const Pass back = weighed(graph, *inputs);
  auto linear = run(graph, back);
  if (!linear) return linear;
  Pass forth;
  std::set<std::string> taken = names_of(graph.main().inputs), weights;
  for (const Pass::Seed& seed : back.seeds) taken.insert(seed.input);
  for (uint32_t i = 0; i < inputs->size(); ++i) {
    forth.seeds.push_back({static_cast<uint32_t>(back.kept.size()) + i, unique(taken, "t_" + names[i])});
  }
  forth.kept = back.kept;
  taken = names_of(graph.main().outputs);
  for (const Pass::Seed& seed : back.seeds) {
    const auto& all = linear->main().inputs;
    const auto input = static_cast<uint32_t>(std::ranges::find(all, seed.input, &Input::name) - all.begin());
    forth.gradients.push_back({input, unique(taken, "t_" + graph.main().outputs[seed.output].name)});
    weights.insert(seed.input);
  }
  auto out = run(*linear, forth);
  if (!out) return out;
  if (auto dropped = drop_inputs(*out, weights); !dropped) return dropped.error();
  return out;
}

GraphDef grad(const GraphDef& graph, const std::vector<std::string>& inputs) {
  return as_definition(graph, inputs, gradient);
}
GraphDef value_and_grad(const GraphDef& graph, const std::vector<std::string>& inputs) {
  return as_definition(graph, inputs, value_and_gradient);
}

}  // namespace kiln::graph
