// The driver: each node is added to the new graph, then looked at with what lies before it; where it ends a pattern,
// the composite stands for it. What nothing uses afterwards is left out.
#include "kiln/graph/recognise.h"

#include <array>

#include "ir/rewrite.h"
#include "kiln/graph/verify.h"
#include "recognise/matching.h"

namespace kiln::graph {
namespace recognition {

using enum TensorOp;

std::span<const Pattern> patterns_of(TensorOp op) {
  static constexpr std::array kDivs = {find_same,    find_softmax, find_norm,     find_gelu,         find_silu,
                                       find_sigmoid, find_mean,    find_variance, find_cross_entropy};
  static constexpr std::array kMuls = {find_same, find_softmax, find_norm, find_weight,
                                       find_gelu, find_silu,    find_mean, find_variance};
  static constexpr std::array kPows = {find_sigmoid};
  static constexpr std::array kAdds = {find_same, find_logsumexp, find_bias, find_linear, find_smoothed};
  static constexpr std::array kSubs = {find_log_softmax, find_cross_entropy};
  static constexpr std::array kLosses = {find_cross_entropy};
  static constexpr std::array kMeans = {find_variance, find_cross_entropy};
  static constexpr std::array kReshapes = {find_view, find_linear_of_rows, find_group_norm, find_cross_entropy};
  static constexpr std::array kCasts = {find_same, find_rounded, find_linear};
  static constexpr std::array kDots = {find_attention};
  static constexpr std::array kOthers = {find_same};
  switch (op) {
    case kDiv:
      return kDivs;
    case kMul:
      return kMuls;
    case kPow:
      return kPows;
    case kAdd:
      return kAdds;
    case kSub:
      return kSubs;
    case kNeg:
    case kSelect:
    case kReduce:
      return kLosses;
    case kMean:
      return kMeans;
    case kReshape:
      return kReshapes;
    case kCast:
      return kCasts;
    case kDot:
      return kDots;
    case kBroadcast:
    case kPermute:
    case kCmp:
    case kNot:
    case kAnd:
    case kOr:
      return kOthers;
    default:
      return {};
  }
}

namespace {

// A composite may end another pattern, but no chain of them is longer.
constexpr int kMostSteps = 8;

ValueId recognised(GraphBuilder& builder, ValueId value, const Location& loc) {
  for (int step = 0; step < kMostSteps; ++step) {
    Matching matching(builder, loc);
    const Node* node = matching.node(value);
    if (!node) return value;
    ValueId found = kNoValue;
    for (const Pattern pattern : patterns_of(node->op)) {
      found = pattern(matching, value);
      // Another type would be a pattern that looked at less than it replaces.
      if (found != kNoValue && builder.type(found) == builder.type(value)) break;
      found = kNoValue;
    }
    if (found == kNoValue || found == value) return value;
    value = found;
  }
  return value;
}

// By node, whether an output needs it.
std::vector<bool> needed(const Body& body) {
  std::vector<bool> values(body.values.size(), false), nodes(body.nodes.size(), false);
  for (const Output& output : body.outputs) values[output.value] = true;
  for (size_t i = body.nodes.size(); i > 0; --i) {
    const Node& node = body.nodes[i - 1];
    for (uint32_t k = 0; k < node.result_count; ++k) nodes[i - 1] = nodes[i - 1] || values[node.first_result + k];
    if (!nodes[i - 1]) continue;
    for (const ValueId operand : body.operands_of(node)) {
      if (operand != kNoValue) values[operand] = true;
    }
  }
  return nodes;
}

Result<Graph> without_unused(const Graph& graph) {
  const Body* at = nullptr;
  std::vector<bool> keeps;
  return rewrite(graph,
                 [&](GraphBuilder&, const Body& body, const Node& node, std::span<const ValueId>,
                     const AttrList&) -> Result<std::optional<std::vector<ValueId>>> {
                   if (&body != at) {
                     at = &body;
                     keeps = needed(body);
                   }
                   if (keeps[static_cast<size_t>(&node - body.nodes.data())])
                     return std::optional<std::vector<ValueId>>();
                   return std::optional(std::vector<ValueId>(node.result_count, kNoValue));
                 });
}

std::map<TensorOp, int> composites_of(const Graph& graph) {
  std::map<TensorOp, int> out;
  for (const Body& body : graph.bodies) {
    for (const Node& node : body.nodes) {
      if (info(node.op).has(kComposite)) ++out[node.op];
    }
  }
  return out;
}

}  // namespace
}  // namespace recognition

Result<Recognised> recognise(const Graph& graph) {
  using namespace recognition;
  if (auto sound = verify(graph); !sound) return sound.error();
  auto replaced = rewrite(graph,
                          [](GraphBuilder& builder, const Body&, const Node& node, std::span<const ValueId> operands,
                             const AttrList& attrs) -> Result<std::optional<std::vector<ValueId>>> {
                            if (node.result_count != 1 || patterns_of(node.op).empty()) {
                              return std::optional<std::vector<ValueId>>();
                            }
                            auto value = builder.add_one(node.op, operands, attrs, node.loc);
                            if (!value) return value.error();
                            return std::optional(std::vector{recognised(builder, *value, node.loc)});
                          });
  if (replaced) replaced = without_unused(*replaced);
  if (!replaced) return replaced.error();
  Recognised out{std::move(*replaced), {}};
  const auto before = composites_of(graph);
  for (const auto& [op, count] : composites_of(out.graph)) {
    const auto known = before.find(op);
    const int fresh = count - (known == before.end() ? 0 : known->second);
    if (fresh > 0) out.found.emplace(op, fresh);
  }
  return out;
}

}  // namespace kiln::graph
