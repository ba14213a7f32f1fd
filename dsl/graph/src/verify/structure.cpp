// Numbers in range, order, names, donations; and that no body runs itself.
#include <unordered_set>

#include "kiln/graph/infer.h"
#include "verify/checks.h"

namespace kiln::graph {
namespace {

class BodyCheck {
 public:
  BodyCheck(const Graph& graph, const Body& body) : graph_(graph), body_(body) {}

  Result<void> run(bool is_main) {
    for (const Value& value : body_.values) {
      if (value.type >= graph_.types.size()) return fail("a value has a type that the graph has not");
    }
    if (auto fine = inputs(is_main); !fine) return fine;
    if (auto fine = nodes(); !fine) return fine;
    if (inputs_and_results_ != body_.values.size()) return fail("a value is neither an input nor a node's result");
    if (next_operand_ != body_.operands.size()) return fail("an operand is no node's");
    if (auto fine = outputs(); !fine) return fine;
    if (is_main) {
      if (auto fine = donations(); !fine) return fine;
    }
    return value_names();
  }

 private:
  Error fail(const std::string& what) const { return failure_at(graph_, body_, Location(), what); }
  bool knows(const Location& loc) const { return loc.file <= graph_.files.size(); }
  std::string text(ValueId value) const { return to_string(graph_.type(body_, value), graph_.expr_names()); }

  Result<void> inputs(bool is_main) {
    std::vector<bool> seen(body_.values.size(), false);
    for (const Input& input : body_.inputs) {
      const std::string what = "input " + input.name;
      if (!knows(input.loc)) return fail(what + " is in a file that the graph has not");
      const auto fail_here = [&](const std::string& why) { return failure_at(graph_, body_, input.loc, what + why); };
      if (input.name.empty()) return fail_here("has no name");
      if (!names_.insert(input.name).second) return fail_here(": two inputs have this name");
      if (input.value >= body_.values.size()) return fail_here(" has no value");
      if (body_.values[input.value].node != kNone) return fail_here(" is the result of a node");
      if (seen[input.value]) return fail_here(" has the value of another input");
      seen[input.value] = true;
      if (!is_main && input.donated_to != kNone) return fail_here(" is donated, and inputs of main alone may be");
    }
    inputs_and_results_ = body_.inputs.size();
    return {};
  }

  Result<void> nodes() {
    for (NodeId id = 0; id < body_.nodes.size(); ++id) {
      const Node& node = body_.nodes[id];
      if (static_cast<int>(node.op) >= kTensorOpCount) return fail("node " + std::to_string(id) + " has no op");
      if (!knows(node.loc)) return fail(op_name(node) + ": is in a file that the graph has not");
      if (const std::string problem = node_problem(id, node); !problem.empty()) {
        return failure_at(graph_, body_, node, op_name(node) + ": " + problem);
      }
    }
    return {};
  }

  std::string node_problem(NodeId id, const Node& node) {
    if (node.attrs >= graph_.attr_lists.size()) return "has attributes that the graph has not";
    if (node.first_operand != next_operand_ || node.operand_count > body_.operands.size() - next_operand_) {
      return "its operands are not those behind the operands of the node before";
    }
    next_operand_ += node.operand_count;
    for (const ValueId operand : body_.operands_of(node)) {
      if (operand == kNoValue) continue;
      if (operand >= body_.values.size()) return "an operand is no value of the body";
      const NodeId from = body_.values[operand].node;
      if (from != kNone && from >= id) return "an operand is used before the node that defines it";
    }
    if (node.first_result > body_.values.size() || node.result_count > body_.values.size() - node.first_result) {
      return "its results are no values of the body";
    }
    for (uint32_t i = 0; i < node.result_count; ++i) {
      if (body_.values[node.first_result + i].node != id) return "a result is of another node, or an input";
    }
    inputs_and_results_ += node.result_count;
    return {};
  }

  Result<void> outputs() {
    if (body_.outputs.empty()) return fail("there is no output");
    std::unordered_set<std::string> names;
    for (const Output& output : body_.outputs) {
      if (output.name.empty()) return fail("an output has no name");
      if (!names.insert(output.name).second) return fail("output " + output.name + ": two outputs have this name");
      if (output.value >= body_.values.size()) return fail("output " + output.name + " has no value");
    }
    return {};
  }

  Result<void> donations() {
    std::vector<uint32_t> donor(body_.outputs.size(), kNone);
    for (uint32_t i = 0; i < body_.inputs.size(); ++i) {
      const Input& input = body_.inputs[i];
      if (input.donated_to == kNone) continue;
      const auto fail_here = [&](const std::string& why) {
        return failure_at(graph_, body_, input.loc, "input " + input.name + why);
      };
      if (input.donated_to >= body_.outputs.size()) return fail_here(" is donated to an output that is not there");
      const Output& output = body_.outputs[input.donated_to];
      if (donor[input.donated_to] != kNone) {
        return fail_here(" is donated to output " + output.name + ", as input " +
                         body_.inputs[donor[input.donated_to]].name + " is");
      }
      donor[input.donated_to] = i;
      if (body_.values[input.value].type != body_.values[output.value].type) {
        return fail_here(" of " + text(input.value) + " cannot be donated to output " + output.name + " of " +
                         text(output.value));
      }
    }
    return {};
  }

  Result<void> value_names() {
    for (const auto& [value, name] : body_.names) {
      if (value >= body_.values.size()) return fail("the name " + name + " is of no value");
      if (body_.values[value].node == kNone) return fail("the name " + name + " is of an input, which has one");
      if (name.empty()) return fail("a value has an empty name");
      if (!names_.insert(name).second) return fail("two values have the name " + name);
    }
    return {};
  }

  const Graph& graph_;
  const Body& body_;
  std::unordered_set<std::string> names_;
  uint32_t next_operand_ = 0;
  size_t inputs_and_results_ = 0;
};

// A node's bodies, those of gradients of its kernels among them; numbers that are none are left to the type rules.
void add_bodies(const Graph& graph, const Node& node, std::vector<BodyId>& out) {
  const OpInfo& op = info(node.op);
  if (!op.has(kBody) && op.family != Family::kKernel) return;
  const AttrList& attrs = graph.attrs(node);
  for (size_t i = 0; i < op.attrs.size() && i < attrs.size(); ++i) {
    const int64_t* number = std::get_if<int64_t>(&attrs[i]);
    if (!number || *number < 0) continue;
    const auto id = static_cast<uint64_t>(*number);
    if (op.attrs[i].kind == AttrKind::kBody && id < graph.bodies.size()) out.push_back(static_cast<BodyId>(id));
    if (op.attrs[i].kind != AttrKind::kKernel || id >= graph.kernels.size()) continue;
    if (graph.kernels[id].gradient < graph.bodies.size()) out.push_back(graph.kernels[id].gradient);
  }
}

}  // namespace

Result<void> verify_structure(const Graph& graph) {
  std::unordered_set<std::string> names;
  for (size_t i = 0; i < graph.bodies.size(); ++i) {
    const Body& body = graph.bodies[i];
    if (body.name.empty()) return error(ErrorCode::kVerifyFailed, "body " + std::to_string(i) + " has no name");
    if (!names.insert(body.name).second) {
      return error(ErrorCode::kVerifyFailed, "two bodies have the name @" + body.name);
    }
    if (auto fine = BodyCheck(graph, body).run(i == 0); !fine) return fine;
  }
  return {};
}

Result<void> verify_acyclic(const Graph& graph) {
  enum class State : uint8_t { kNew, kOpen, kDone };
  std::vector<State> states(graph.bodies.size(), State::kNew);
  struct Frame {
    BodyId body;
    std::vector<BodyId> runs;
  };
  const auto open = [&](BodyId id) {
    states[id] = State::kOpen;
    Frame frame{id, {}};
    for (const Node& node : graph.bodies[id].nodes) add_bodies(graph, node, frame.runs);
    return frame;
  };
  for (BodyId root = 0; root < graph.bodies.size(); ++root) {
    if (states[root] != State::kNew) continue;
    std::vector<Frame> stack;
    stack.push_back(open(root));
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.runs.empty()) {
        states[frame.body] = State::kDone;
        stack.pop_back();
        continue;
      }
      const BodyId next = frame.runs.back();
      frame.runs.pop_back();
      if (states[next] == State::kOpen) {
        return error(ErrorCode::kVerifyFailed,
                     "@" + graph.bodies[next].name + " runs itself, by way of @" + graph.bodies[frame.body].name);
      }
      if (stack.size() >= kMaxNesting) {
        return error(ErrorCode::kVerifyFailed,
                     "@" + graph.bodies[next].name + " is more than " + std::to_string(kMaxNesting) + " bodies deep");
      }
      if (states[next] == State::kNew) stack.push_back(open(next));
    }
  }
  return {};
}

}  // namespace kiln::graph
