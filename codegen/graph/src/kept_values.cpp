// Which values several groups of a GPU read from memory, and which each computes for itself.
//
// What counts is what is moved. A value that is kept is written once and read by each; else each reads what it is made
// of. So of a norm of bf16, whose centred values are f32, nothing is kept; of a sum of three tensors that many read the
// sum is. From the first node to the last, so that what is made of a kept value is made of it.
#include <algorithm>

#include "groups.h"

namespace kiln::planner {

using graph::Body;
using graph::kNone;
using graph::kNoValue;
using graph::Node;

namespace {

constexpr int64_t kAlways = 64;  // a cost that is more than waiting for memory
constexpr size_t kMostSources = 8;

class Keeper {
 public:
  Keeper(const graph::Graph& graph, Grouping& grouping) : graph_(graph), body_(graph.main()), grouping_(grouping) {
    find_readers();
  }

  void keep(std::span<const int64_t> cost, int64_t least) {
    for (NodeId n = 0; n < body_.nodes.size(); ++n) {
      const Node& node = body_.nodes[n];
      if (grouping_.group_of[n] != kNone || readers_[n].size() < 2 || cost[n] < least || !may_be_kept(node)) continue;
      if (goes_on_in_one(n)) continue;
      if (cost[n] >= kAlways || moves_less(n)) grouping_.in_memory[node.first_result] = true;
    }
  }

 private:
  // By node that is in no group: which groups read it, through others that are in none.
  void find_readers() {
    readers_.resize(body_.nodes.size());
    users_.resize(body_.nodes.size());
    for (NodeId n = static_cast<NodeId>(body_.nodes.size()); n-- > 0;) {
      const Node& node = body_.nodes[n];
      const uint32_t group = grouping_.group_of[n];
      const bool is_kept = group == kNone && grouping_.in_memory[node.first_result];
      for (const ValueId operand : body_.operands_of(node)) {
        const NodeId from = operand == kNoValue ? kNone : body_.values[operand].node;
        if (from == kNone || grouping_.group_of[from] != kNone) continue;
        users_[from].insert(n);
        if (group != kNone) {
          readers_[from].insert(group);
        } else if (is_kept) {
          readers_[from].insert(static_cast<uint32_t>(grouping_.groups.size() + n));
        } else {
          readers_[from].insert(readers_[n].begin(), readers_[n].end());
        }
      }
    }
  }

  // Then what is made of it is read by the same, and no larger.
  bool goes_on_in_one(NodeId n) const {
    if (users_[n].size() != 1) return false;
    const NodeId user = *users_[n].begin();
    return grouping_.group_of[user] == kNone && may_be_kept(body_.nodes[user]) &&
           bytes(body_.nodes[user].first_result) <= bytes(body_.nodes[n].first_result);
  }

  bool moves_less(NodeId n) const {
    std::set<ValueId> seen, sources;
    std::vector<ValueId> open{body_.nodes[n].first_result};
    while (!open.empty() && sources.size() <= kMostSources) {
      const ValueId value = open.back();
      open.pop_back();
      if (value == kNoValue || !seen.insert(value).second) continue;
      const NodeId from = body_.values[value].node;
      const bool is_there = from == kNone || grouping_.group_of[from] != kNone || grouping_.in_memory[value];
      if (is_there) {
        sources.insert(value);
      } else {
        for (const ValueId operand : body_.operands_of(body_.nodes[from])) open.push_back(operand);
      }
    }
    if (sources.size() > kMostSources) return true;
    double read = 0;
    for (const ValueId source : sources) read += bytes(source);
    const auto readers = static_cast<double>(readers_[n].size());
    return read * (readers - 1) >= bytes(body_.nodes[n].first_result) * (readers + 1);
  }

  double bytes(ValueId value) const { return static_cast<double>(usual_bytes(graph_.type(body_, value))); }

  const graph::Graph& graph_;
  const Body& body_;
  Grouping& grouping_;
  std::vector<std::set<uint32_t>> readers_;
  std::vector<std::set<NodeId>> users_;  // by node
};

}  // namespace

int64_t usual_bytes(const graph::TensorType& type) {
  constexpr int64_t kUsualExtent = 2048, kMost = int64_t{1} << 50;
  int64_t out = std::max(1, dsl::info(type.element).bits / 8);
  for (const Expr& extent : type.shape) {
    if (__builtin_mul_overflow(out, extent.as_constant().value_or(kUsualExtent), &out)) return kMost;
  }
  return std::min(out, kMost);
}

bool may_be_kept(const Node& node) {
  return !is_view(node.op) && node.op != TensorOp::kIndex && node.op != TensorOp::kPad &&
         graph::info(node.op).family != graph::Family::kMake;
}

void keep_what_moves_less(const graph::Graph& graph, std::span<const int64_t> cost, int64_t least, Grouping& grouping) {
  Keeper(graph, grouping).keep(cost, least);
}

}  // namespace kiln::planner
