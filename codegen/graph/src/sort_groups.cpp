// In which order groups run: each behind those it needs, and so that little memory is in use at once. The weights'
// gradients of a training step are such a choice: each as soon as it can be, and what it reads is free; or all at the
// end, with all that they read still there.
#include <functional>

#include "groups.h"

namespace kiln::planner {

using graph::kNone;
using graph::kNoValue;

namespace {

constexpr size_t kMostTried = 64;  // groups that could run next

using Order = std::vector<uint32_t>;  // groups

// As the nodes come.
Order order_of_nodes(const Grouping& grouping) {
  const size_t count = grouping.groups.size();
  std::vector<NodeId> last(count);
  for (NodeId n = 0; n < grouping.group_of.size(); ++n) {
    if (grouping.group_of[n] != kNone) last[grouping.group_of[n]] = n;
  }
  Order by_node(count), out;
  for (uint32_t i = 0; i < count; ++i) by_node[i] = i;
  std::sort(by_node.begin(), by_node.end(), [&](uint32_t a, uint32_t b) { return last[a] < last[b]; });
  std::vector<bool> seen(count);
  const std::function<void(uint32_t)> visit = [&](uint32_t group) {
    if (seen[group]) return;
    seen[group] = true;
    for (const uint32_t other : grouping.groups[group].needs) visit(other);
    out.push_back(group);
  };
  for (const uint32_t group : by_node) visit(group);
  return out;
}

// What lies in the arena, and who reads it.
class Lives {
 public:
  Lives(const graph::Graph& graph, const Grouping& grouping) : graph_(graph), body_(graph.main()), grouping_(grouping) {
    reads_.resize(grouping.groups.size());
    std::vector<std::vector<NodeId>> nodes(grouping.groups.size());
    for (NodeId n = 0; n < body_.nodes.size(); ++n) {
      if (grouping.group_of[n] != kNone) nodes[grouping.group_of[n]].push_back(n);
    }
    for (uint32_t group = 0; group < grouping.groups.size(); ++group) find_reads(group, nodes[group]);
    std::vector<bool> is_output(body_.values.size());
    for (const graph::Output& output : body_.outputs) is_output[output.value] = true;
    for (const Group& group : grouping.groups) {
      int64_t& given = given_.emplace_back();
      for (const ValueId root : group.roots) given += is_output[root] ? 0 : bytes(root);
    }
    is_output_ = std::move(is_output);
  }

  void start() {
    left_.assign(body_.values.size(), 0);
    for (const std::vector<ValueId>& reads : reads_) {
      for (const ValueId value : reads) ++left_[value];
    }
    live_ = peak_ = 0;
  }
  // How many bytes more are in use behind a group than before it.
  int64_t change(uint32_t group) const {
    int64_t out = given_[group];
    for (const ValueId value : reads_[group]) out -= left_[value] == 1 ? kept(value) : 0;
    return out;
  }
  void run(uint32_t group) {
    peak_ = std::max(peak_, live_ + given_[group]);
    live_ += change(group);
    for (const ValueId value : reads_[group]) --left_[value];
  }
  int64_t peak() const { return peak_; }

 private:
  int64_t bytes(ValueId value) const { return usual_bytes(graph_.type(body_, value)); }
  // Of a value that lies in the arena.
  int64_t kept(ValueId value) const {
    return body_.values[value].node == kNone || is_output_[value] ? 0 : bytes(value);
  }

  // Through what is computed where it is read.
  void find_reads(uint32_t group, std::span<const NodeId> nodes) {
    std::vector<ValueId> open;
    std::set<ValueId> seen;
    const auto look_at = [&](NodeId node) {
      for (const ValueId operand : body_.operands_of(body_.nodes[node])) {
        if (operand != kNoValue && seen.insert(operand).second) open.push_back(operand);
      }
    };
    for (const NodeId node : nodes) look_at(node);
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      const NodeId node = body_.values[value].node;
      if (node != kNone && grouping_.group_of[node] == group) continue;
      if (grouping_.in_memory[value]) {
        reads_[group].push_back(value);
      } else if (node != kNone) {
        look_at(node);
      }
    }
  }

  const graph::Graph& graph_;
  const graph::Body& body_;
  const Grouping& grouping_;
  std::vector<std::vector<ValueId>> reads_;  // by group
  std::vector<int64_t> given_;               // by group: bytes
  std::vector<bool> is_output_;
  std::vector<uint32_t> left_;  // by value: groups that are still to read it
  int64_t live_ = 0, peak_ = 0;
};

// Always what frees the most, or takes the least; of equal ones the first in the given order.
Order order_of_memory(const Grouping& grouping, const Order& given, Lives& lives) {
  const size_t count = grouping.groups.size();
  std::vector<uint32_t> waits(count), place(count);
  std::vector<std::vector<uint32_t>> behind(count);
  for (uint32_t group = 0; group < count; ++group) {
    place[given[group]] = group;
    for (const uint32_t other : grouping.groups[group].needs) {
      if (other == group) continue;
      behind[other].push_back(group);
      ++waits[group];
    }
  }
  std::set<uint32_t> ready;  // places
  for (uint32_t group = 0; group < count; ++group) {
    if (waits[group] == 0) ready.insert(place[group]);
  }
  Order out;
  lives.start();
  while (!ready.empty()) {
    auto best = ready.begin();
    size_t tried = 0;
    for (auto each = ready.begin(); each != ready.end() && tried < kMostTried; ++each, ++tried) {
      if (lives.change(given[*each]) < lives.change(given[*best])) best = each;
    }
    const uint32_t group = given[*best];
    ready.erase(best);
    lives.run(group);
    out.push_back(group);
    for (const uint32_t next : behind[group]) {
      if (--waits[next] == 0) ready.insert(place[next]);
    }
  }
  return out;
}

int64_t peak_of(const Order& order, Lives& lives) {
  lives.start();
  for (const uint32_t group : order) lives.run(group);
  return lives.peak();
}

void put_in_order(Grouping& grouping, const Order& order) {
  std::vector<uint32_t> place(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::vector<Group> sorted;
  for (const uint32_t group : order) {
    sorted.push_back(std::move(grouping.groups[group]));
    std::set<uint32_t> needs;
    for (const uint32_t other : sorted.back().needs) needs.insert(place[other]);
    sorted.back().needs = std::move(needs);
  }
  grouping.groups = std::move(sorted);
  for (uint32_t& group : grouping.group_of) {
    if (group != kNone) group = place[group];
  }
}

}  // namespace

void sort_groups(const graph::Graph& graph, Grouping& grouping) {
  Order order = order_of_nodes(grouping);
  const bool has_donated = std::any_of(graph.main().inputs.begin(), graph.main().inputs.end(),
                                       [](const graph::Input& input) { return input.donated_to != kNone; });
  // Who writes where an input lies comes behind who reads it, as the nodes say.
  if (!has_donated) {
    Lives lives(graph, grouping);
    Order other = order_of_memory(grouping, order, lives);
    if (lives.peak() < peak_of(order, lives)) order = std::move(other);
  }
  put_in_order(grouping, order);
}

}  // namespace kiln::planner
