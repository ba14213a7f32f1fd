// The types of all results, inferred again; those of nodes that are alike once.
#include "ir/id_table.h"
#include "kiln/graph/infer.h"
#include "verify/checks.h"

namespace kiln::graph {
namespace {

class TypeCheck {
 public:
  explicit TypeCheck(const Graph& graph) : graph_(graph) {}

  Result<void> node(const Body& body, const Node& node) {
    operands_.clear();
    results_.clear();
    for (const ValueId operand : body.operands_of(node)) {
      operands_.push_back(operand == kNoValue ? kNone : body.values[operand].type);
    }
    for (uint32_t i = 0; i < node.result_count; ++i) results_.push_back(body.values[node.first_result + i].type);
    // Attribute lists of an op are none of another's: the op is part of what is looked up.
    if (const auto known = known_.find(node.op, node.attrs, operands_); known && std::ranges::equal(*known, results_)) {
      return {};
    }
    types_.clear();
    for (const TypeId operand : operands_) types_.push_back(operand == kNone ? nullptr : &graph_.types[operand]);
    auto inferred = infer_types(graph_, node.op, types_, graph_.attrs(node));
    if (!inferred) return failure_at(graph_, body, node, inferred.error().message);
    // As GraphBuilder has them: with two forms of one node, a graph would have two keys.
    const std::vector<OperandInfo>& table = info(node.op).operands;
    if (!table.empty() && table.back().optional && operands_.size() < table.size()) {
      return failure_at(graph_, body, node, op_name(node) + ": operands that are left out at the end have no place");
    }
    if (auto fine = same_results(body, node, *inferred); !fine) return fine;
    known_.insert(node.op, node.attrs, operands_, results_);
    return {};
  }

 private:
  Result<void> same_results(const Body& body, const Node& node, const std::vector<TensorType>& inferred) const {
    if (inferred.size() != results_.size()) {
      return failure_at(graph_, body, node,
                        op_name(node) + ": gives " + std::to_string(inferred.size()) + " results, not " +
                            std::to_string(results_.size()));
    }
    for (size_t i = 0; i < inferred.size(); ++i) {
      const TensorType& stated = graph_.types[results_[i]];
      if (stated == inferred[i]) continue;
      return failure_at(graph_, body, node,
                        op_name(node) + ": result " + std::to_string(i) + " is " +
                            to_string(inferred[i], graph_.expr_names()) + ", not " +
                            to_string(stated, graph_.expr_names()));
    }
    return {};
  }

  const Graph& graph_;
  Signatures known_;
  std::vector<TypeId> operands_, results_;
  std::vector<const TensorType*> types_;
};

}  // namespace

Result<void> verify_types(const Graph& graph) {
  TypeCheck check(graph);
  for (const Body& body : graph.bodies) {
    for (const Node& node : body.nodes) {
      if (auto fine = check.node(body, node); !fine) return fine;
    }
  }
  return {};
}

}  // namespace kiln::graph
