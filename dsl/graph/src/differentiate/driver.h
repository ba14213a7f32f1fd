// The way back through a graph, body by body.
//
//   forward    the nodes as they are, but that loops on the way keep what they carry into each pass as further stacks,
//              and calls that need not be computed again are inlined
//   backward   from the last node to the first, each by its rule; gradients of one value add up
//
// Bodies of cond, loop and checkpoint get a body of their own on the way back, which computes the forward part again
// from the operands and goes back through it.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>

#include "differentiate/rules.h"

namespace kiln::graph {

// Which values of a body move with some of its inputs, as far as gradients flow.
class Activity {
 public:
  explicit Activity(const Graph& graph) : graph_(graph) {}
  std::vector<bool> values(const Body& body, const std::vector<bool>& inputs);
  // Of a node, by result.
  std::vector<bool> results(const Body& body, const Node& node, const std::vector<bool>& operands);
  // Of a loop's body, by input, once what is carried has come round; `operands` of the loop.
  std::vector<bool> loop_inputs(BodyId body, int64_t carried, std::vector<bool> operands);

 private:
  // By output of a body.
  const std::vector<bool>& outputs(BodyId body, const std::vector<bool>& inputs);

  const Graph& graph_;
  std::map<std::pair<BodyId, std::vector<bool>>, std::vector<bool>> known_;
};

class Driver {
 public:
  // The builder goes on with `source`'s bodies (GraphBuilder::rewrite), which the trace is open on.
  Driver(const Graph& source, GraphBuilder& builder, Trace& trace)
      : source_(source), builder_(builder), trace_(trace), activity_(source) {}

  // Adds the nodes of a body of the source to the open one, which has the inputs. `wanted` by input; `useful` by value
  // of the body, empty: all. The body's outputs here. Errors go to the trace.
  std::vector<ValueId> forward(const Body& body, std::span<const ValueId> inputs, const std::vector<bool>& wanted,
                               const std::vector<bool>& useful = {});
  // Gradients of the inputs of the open body, whose nodes are all of the forward part; seeds by value.
  std::vector<Tensor> backward(const std::vector<bool>& wanted, std::vector<Tensor> seeds);

  // --- what rules of bodies ask for ---
  GraphBuilder& builder() { return builder_; }
  const Graph& source() const { return source_; }
  Trace& trace() { return trace_; }
  struct KeptLoop {
    BodyId original;
    size_t results;  // before what is kept
  };
  // Of a loop of the open body, by its body.
  KeptLoop kept(BodyId body, size_t results) const;
  // Of a body of the source, as Activity has it.
  std::vector<bool> loop_inputs(BodyId body, int64_t carried, const std::vector<bool>& operands) {
    return activity_.loop_inputs(body, carried, operands);
  }
  // The gradient of a composite by its decomposition: of one node, as a graph.
  const Graph* composite(const Adjoint& adjoint);

 private:
  struct Composite {
    TensorOp op;
    AttrList attrs;
    std::vector<TensorType> types;
    std::vector<bool> wanted, given;
    Graph graph;
  };

  bool copy_node(const Body& body, const Node& node, std::vector<ValueId>& here, const std::vector<bool>& active,
                 const std::vector<bool>& useful);
  bool inline_call(const Node& node, std::span<const ValueId> operands, std::vector<ValueId>& here,
                   const std::vector<bool>& operand_active);
  AttrsId attrs_here(AttrsId source);
  const AttrList& list_of(AttrsId id);
  // The loop's body with what it carries as further outputs.
  BodyId keeping(BodyId body, int64_t carried);
  // `adjoint` is memory that is used again from node to node.
  void run_rule(NodeId id, const std::vector<bool>& active, std::vector<Tensor>& gradients, Adjoint& adjoint);

  const Graph& source_;
  GraphBuilder& builder_;
  Trace& trace_;
  Activity activity_;
  std::unordered_map<BodyId, BodyId> keeping_;  // original → with what it carries
  std::unordered_map<BodyId, KeptLoop> kept_;   // the other way
  std::vector<std::unique_ptr<Composite>> composites_;
  std::vector<std::unique_ptr<const AttrList>> lists_;  // by id of the graph that is built: those of rules
  std::vector<AttrsId> attrs_;                          // by those of the source; kNone: not here yet
  std::vector<ValueId> operands_;                       // of the node that is copied: memory that is used again
};

}  // namespace kiln::graph
