#include "groups.h"

#include "windows.h"

namespace kiln::planner {

using graph::Body;
using graph::Family;
using graph::Graph;
using graph::kNone;
using graph::Node;

namespace {

bool is_reduce_anchor(TensorOp op) { return graph::info(op).family == Family::kReduce; }

// A group that is still growing, with the nest in which it is tried what can be computed in it.
struct Draft {
  Nest nest;
  Coords domain;
  uint32_t stores = 0;  // that joined it by their number of elements alone
};

class Grouper {
 public:
  Grouper(const Graph& graph, const GroupingOptions& options)
      : graph_(graph), body_(graph.main()), options_(options), target_(options.target) {
    out_.group_of.assign(body_.nodes.size(), kNone);
    out_.in_memory.assign(body_.values.size(), false);
    reach_.resize(body_.nodes.size());
    readers_.resize(body_.nodes.size());
  }

  Grouping take() {
    for (NodeId n = 0; n < body_.nodes.size(); ++n) place(n);
    release_cheap();
    choose_in_memory(graph_, options_, out_);
    find_readers();
    slices_ = slices_of_values(graph_);
    for (NodeId n = 0; n < body_.nodes.size(); ++n) place_in_memory(n);
    find_roots();
    sort_groups(graph_, out_);
    return std::move(out_);
  }

 private:
  using Groups = std::set<uint32_t>;

  const graph::TensorType& type(ValueId value) const { return graph_.type(body_, value); }
  bool may_fuse(NodeId node) const { return kiln::planner::may_fuse(options_, node); }
  uint32_t add_group(Group::Form form, std::vector<Expr> domain, NodeId node);
  Source trial_source(uint32_t group, ValueId value) const;
  Groups reached(const Node& node) const;
  bool depends(uint32_t group, uint32_t on) const;
  bool may_join(const Groups& reached, uint32_t group) const;
  bool computes(uint32_t group, ValueId value);
  bool is_result(uint32_t group, ValueId value, const Coords& coords) const;
  bool computes_at(uint32_t group, ValueId value, const Coords& coords);
  void add_anchor(uint32_t group, NodeId number, const Groups& reached);

  void place(NodeId number);
  bool join_reduction(NodeId number, const Groups& reached);
  bool join_bag(NodeId number, const Groups& reached);
  bool join(NodeId number, const Groups& reached);
  void add_to(uint32_t group, NodeId number, const Groups& reached);

  void release_cheap();
  // One of them in a group that is in no memory: who reads it elsewhere reads what it is of.
  bool is_read_through(NodeId node) const {
    return costs_nothing(graph_, body_.nodes[node]) && !out_.in_memory[body_.nodes[node].first_result];
  }
  int bits_of(ValueId value) const { return dsl::info(type(value).element).bits; }
  void find_readers();
  void place_in_memory(NodeId number);
  bool takes(uint32_t group, NodeId number, const Groups& reached);
  bool reads_windows_of(uint32_t group, NodeId number) const;
  void need(NodeId number);
  void find_roots();

  const Graph& graph_;
  const Body& body_;
  const GroupingOptions& options_;
  const std::string_view target_;
  bool joins_ = false;  // a reduction is tried, and not what is computed of one
  Grouping out_;
  std::vector<Draft> drafts_;
  std::vector<Groups> reach_;     // by node that is in no group: the groups whose values it is computed of
  std::vector<Groups> readers_;   // by node that is in memory and in no group: the groups that read it
  std::vector<uint32_t> slices_;  // by value
};

// As source_of, before it is known what goes to memory: other groups' values do.
Source Grouper::trial_source(uint32_t group, ValueId value) const {
  const NodeId number = body_.values[value].node;
  if (number != kNone && out_.group_of[number] != kNone && out_.group_of[number] != group &&
      !is_view(body_.nodes[number].op)) {
    return {Way::kLoad};
  }
  return source_of(graph_, out_, group, value);
}

uint32_t Grouper::add_group(Group::Form form, std::vector<Expr> domain, NodeId node) {
  const auto number = static_cast<uint32_t>(out_.groups.size());
  out_.groups.emplace_back();
  out_.groups.back().form = form;
  out_.groups.back().domain = std::move(domain);
  Draft draft{.nest = {IndexSpace(graph_.dims), {}, {}}, .domain = {}};
  draft.domain = add_axes(draft.nest.space, out_.groups[number].domain);
  drafts_.push_back(std::move(draft));
  out_.group_of[node] = number;
  return number;
}

Grouper::Groups Grouper::reached(const Node& node) const {
  Groups out;
  for (const ValueId operand : body_.operands_of(node)) {
    const NodeId number = operand == graph::kNoValue ? kNone : body_.values[operand].node;
    if (number == kNone) continue;
    if (out_.group_of[number] != kNone && !is_read_through(number)) {
      out.insert(out_.group_of[number]);
    } else {
      out.insert(reach_[number].begin(), reach_[number].end());
    }
  }
  return out;
}

bool Grouper::depends(uint32_t group, uint32_t on) const {
  if (group == on) return true;
  std::vector<uint32_t> open{group};
  std::set<uint32_t> seen;
  while (!open.empty()) {
    const uint32_t each = open.back();
    open.pop_back();
    for (const uint32_t next : out_.groups[each].needs) {
      if (next == on) return true;
      if (seen.insert(next).second) open.push_back(next);
    }
  }
  return false;
}

// What comes from other groups must be there before this one runs.
bool Grouper::may_join(const Groups& reached, uint32_t group) const {
  return std::all_of(reached.begin(), reached.end(),
                     [&](uint32_t other) { return other == group || !depends(other, group); });
}

bool Grouper::computes(uint32_t group, ValueId value) {
  Draft& draft = drafts_[group];
  const auto coords = value_place(graph_, draft.nest.space, out_, group, value, draft.domain);
  if (!coords || (out_.groups[group].in_parts && !is_result(group, value, *coords))) return false;
  return computes_at(group, value, *coords);
}

// Whether a value of a group in parts is there once for each result, or what a reduction joins it with.
bool Grouper::is_result(uint32_t group, ValueId value, const Coords& coords) const {
  if (type(value).shape == out_.groups[group].domain) return joins_;
  const Draft& draft = drafts_[group];
  for (size_t i = 0; i < draft.domain.size(); ++i) {
    if (!is_reduced(out_.groups[group], i) || draft.domain[i] == Expr()) continue;
    const auto axis = draft.nest.space.axis_of(draft.domain[i].terms()[0].atoms[0]);
    for (const Expr& each : coords) {
      if (axis && draft.nest.space.mentions(each, *axis)) return joins_;
    }
  }
  return true;
}

// What reads a value of the group at many places would compute it again at each.
constexpr size_t kMostNewSteps = 1000;

bool Grouper::computes_at(uint32_t group, ValueId value, const Coords& coords) {
  Draft& draft = drafts_[group];
  NestBuilder builder(
      graph_, draft.nest, [&](ValueId each) { return trial_source(group, each); },
      [&](uint32_t anchor) { return anchor_place(graph_, out_.groups[group], anchor, draft.domain); });
  const size_t steps = draft.nest.steps.size(), bound = draft.nest.bound.size();
  const bool fits = builder.at(value, coords).has_value() && draft.nest.steps.size() <= steps + kMostNewSteps;
  draft.nest.steps.resize(steps);
  draft.nest.bound.resize(bound);
  return fits;
}

void Grouper::add_to(uint32_t group, NodeId number, const Groups& reached) {
  out_.group_of[number] = group;
  for (const uint32_t other : reached) {
    if (other != group) out_.groups[group].needs.insert(other);
  }
}

void Grouper::add_anchor(uint32_t group, NodeId number, const Groups& reached) {
  const Node& node = body_.nodes[number];
  add_to(group, number, reached);
  for (uint32_t i = 0; i < node.result_count; ++i) {
    out_.groups[group].anchors.push_back(number);
  }
}

// Results of one kernel that have nothing else in common: more make it slow to compile, and on a GPU they are
// registers.
constexpr uint32_t kMostJoined = 12;

bool Grouper::join_reduction(NodeId number, const Groups& reached) {
  const Node& node = body_.nodes[number];
  const std::vector<int64_t> axes = reduced_axes(graph_, node);
  const auto operands = body_.operands_of(node);
  const size_t tensors = reduced_tensors(node);
  joins_ = true;
  const auto fits = [&](uint32_t group) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (i < tensors ? !computes(group, operands[i]) : !computes_at(group, operands[i], {})) return false;
    }
    return true;
  };
  for (size_t i = out_.groups.size(), tried = 0; i-- > 0 && tried < 8;) {
    const auto group = static_cast<uint32_t>(i);
    Group& to = out_.groups[i];
    if (to.form != Group::Form::kReduce || to.domain != type(operands[0]).shape || to.reduced != axes) continue;
    if (to.anchors.size() >= kMostJoined && !reached.contains(group)) continue;
    ++tried;
    const bool of_parts =
        to.in_parts && (reached.contains(group) || !is_in_parts(to, graph_.attrs(node), node.op, target_));
    if (of_parts || !may_join(reached, group) || !fits(group)) continue;
    add_anchor(group, number, reached);
    return true;
  }
  return false;
}

// Bags of several tables are one kernel; more make it slow to compile.
constexpr size_t kMostBags = 8;

// Those of as many columns that begin at the same places.
bool Grouper::join_bag(NodeId number, const Groups& reached) {
  const Node& node = body_.nodes[number];
  const auto is_alike = [&](const Group& group) {
    if (group.form != Group::Form::kAlone || group.anchors.size() >= kMostBags) return false;
    const Node& first = body_.nodes[group.anchors[0]];
    return first.op == node.op && body_.operands_of(first)[2] == body_.operands_of(node)[2] &&
           group.domain == type(node.first_result).shape;
  };
  for (size_t i = out_.groups.size(), tried = 0; i-- > 0 && tried < 64; ++tried) {
    const auto group = static_cast<uint32_t>(i);
    if (!is_alike(out_.groups[i]) || reached.contains(group) || !may_join(reached, group)) continue;
    add_anchor(group, number, reached);
    return true;
  }
  return false;
}

bool Grouper::join(NodeId number, const Groups& reached) {
  joins_ = false;
  const Node& node = body_.nodes[number];
  for (auto each = reached.rbegin(); each != reached.rend(); ++each) {
    const Group::Form form = out_.groups[*each].form;
    if (form == Group::Form::kAlone || !may_join(reached, *each)) continue;
    out_.group_of[number] = *each;  // as if
    const bool fits = computes(*each, node.first_result);
    out_.group_of[number] = kNone;
    if (!fits) continue;
    add_to(*each, number, reached);
    return true;
  }
  return false;
}

// Anchors begin groups, what follows goes into them; the rest waits for who reads it.
void Grouper::place(NodeId number) {
  const Node& node = body_.nodes[number];
  const Groups reach = reached(node);
  reach_[number] = reach;
  if (is_inlineable(node.op)) {
    const bool goes_on = graph::info(node.op).family == Family::kElementwise || is_view(node.op);
    if (may_fuse(number) && goes_on) join(number, reach);
    return;
  }
  if (is_reduce_anchor(node.op)) {
    if (may_fuse(number) && join_reduction(number, reach)) return;
    const uint32_t group = add_group(Group::Form::kReduce, type(body_.operands_of(node)[0]).shape, number);
    out_.groups[group].reduced = reduced_axes(graph_, node);
    out_.groups[group].in_parts =
        may_fuse(number) && is_in_parts(out_.groups[group], graph_.attrs(node), node.op, target_);
    add_anchor(group, number, reach);
    return;
  }
  if (node.op == TensorOp::kEmbeddingBag && may_fuse(number) && join_bag(number, reach)) return;
  const Group::Form form = node.op == TensorOp::kDot         ? Group::Form::kDot
                           : node.op == TensorOp::kAttention ? Group::Form::kAttention
                                                             : Group::Form::kAlone;
  const uint32_t group = add_group(form, type(node.first_result).shape, number);
  out_.groups[group].anchors.push_back(number);
  add_to(group, number, reach);
}

// A cheap op at the end of a group, of what others read from memory in any case: who reads it computes it himself, as
// the squares of a norm, and one tensor less goes to memory.
void Grouper::release_cheap() {
  std::vector<std::vector<NodeId>> users(body_.values.size());
  std::vector<bool> is_output(body_.values.size());
  for (const graph::Output& output : body_.outputs) is_output[output.value] = true;
  for (NodeId n = 0; n < body_.nodes.size(); ++n) {
    for (const ValueId operand : body_.operands_of(body_.nodes[n])) {
      if (operand != graph::kNoValue) users[operand].push_back(n);
    }
  }
  const auto is_read_outside = [&](ValueId value, uint32_t group, NodeId but) {
    return is_output[value] || std::any_of(users[value].begin(), users[value].end(),
                                           [&](NodeId user) { return user != but && out_.group_of[user] != group; });
  };
  for (NodeId n = static_cast<NodeId>(body_.nodes.size()); n-- > 0;) {
    const Node& node = body_.nodes[n];
    const uint32_t group = out_.group_of[n];
    if (group == kNone || graph::info(node.op).family != Family::kElementwise || cost_of(node.op) > 1) continue;
    const ValueId value = node.first_result;
    const bool stays = is_output[value] || users[value].empty() ||
                       std::any_of(users[value].begin(), users[value].end(),
                                   [&](NodeId user) { return out_.group_of[user] == group; });
    if (stays) continue;
    bool is_there = true;
    for (const ValueId operand : body_.operands_of(node)) {
      const NodeId from = operand == graph::kNoValue ? kNone : body_.values[operand].node;
      if (from == kNone || out_.group_of[from] != group) continue;
      is_there = is_there && is_read_outside(operand, group, n) && bits_of(operand) <= bits_of(value);
    }
    if (!is_there) continue;
    out_.group_of[n] = kNone;
    // Who computes it needs what it is made of.
    std::vector<NodeId> readers = users[value];
    std::set<NodeId> seen;
    while (!readers.empty()) {
      const NodeId reader = readers.back();
      readers.pop_back();
      if (!seen.insert(reader).second) continue;
      if (const uint32_t by = out_.group_of[reader]; by != kNone) {
        out_.groups[by].needs.insert(reach_[n].begin(), reach_[n].end());
        continue;
      }
      const auto& further = users[body_.nodes[reader].first_result];
      readers.insert(readers.end(), further.begin(), further.end());
    }
  }
}

// Which groups read what will be in groups of its own, through nodes that are computed where they are read.
void Grouper::find_readers() {
  std::vector<Groups> through(body_.nodes.size());
  for (NodeId n = static_cast<NodeId>(body_.nodes.size()); n-- > 0;) {
    const Node& node = body_.nodes[n];
    const uint32_t group = out_.group_of[n];
    Groups readers = std::move(through[n]);
    if (group != kNone) {
      if (!is_read_through(n)) readers.clear();
      readers.insert(group);
    } else if (out_.in_memory[node.first_result]) {
      readers_[n] = std::move(readers);
      continue;
    }
    for (const ValueId operand : body_.operands_of(node)) {
      const NodeId from = operand == graph::kNoValue ? kNone : body_.values[operand].node;
      if (from == kNone || (out_.group_of[from] != kNone && !is_read_through(from))) continue;
      through[from].insert(readers.begin(), readers.end());
    }
  }
}

// Whether it is computed of slices of a value that the group puts to memory: there it would be computed for each.
bool Grouper::reads_windows_of(uint32_t group, NodeId number) const {
  std::vector<NodeId> open{number};
  std::set<NodeId> seen;
  while (!open.empty()) {
    const NodeId each = open.back();
    open.pop_back();
    for (const ValueId operand : body_.operands_of(body_.nodes[each])) {
      const NodeId from = operand == graph::kNoValue ? kNone : body_.values[operand].node;
      if (from == kNone || !seen.insert(from).second) continue;
      const bool is_here = out_.group_of[from] == group && out_.in_memory[operand];
      if (is_here && slices_[operand] >= kManySlices) return true;
      if (out_.group_of[from] == kNone) open.push_back(from);
    }
  }
  return false;
}

// Whether a group may compute a node beside what it has: the node's operands come before it, its readers behind.
bool Grouper::takes(uint32_t group, NodeId number, const Groups& reached) {
  if (!may_join(reached, group) || reads_windows_of(group, number)) return false;
  for (const uint32_t reader : readers_[number]) {
    if (depends(group, reader)) return false;
  }
  out_.group_of[number] = group;  // as if
  const bool fits = computes(group, body_.nodes[number].first_result);
  out_.group_of[number] = kNone;
  return fits;
}

// Those who read it come behind its group; what it is made of computes it again.
void Grouper::need(NodeId number) {
  const uint32_t group = out_.group_of[number];
  for (const uint32_t reader : readers_[number]) {
    if (reader != group && !depends(group, reader)) out_.groups[reader].needs.insert(group);
  }
}

// What must be in memory and is in no group: a group of its own, or it joins one of as many elements.
void Grouper::place_in_memory(NodeId number) {
  const Node& node = body_.nodes[number];
  const ValueId value = node.first_result;
  if ((out_.group_of[number] != kNone && !is_read_through(number)) || !is_inlineable(node.op)) return;
  const Groups reach = reached(node);
  reach_[number] = reach;
  if (out_.group_of[number] != kNone || !out_.in_memory[value]) return;
  if (node.op == TensorOp::kConstant && std::get<std::vector<uint64_t>>(graph_.attrs(node)[2]).size() != 1) return;
  if (is_cat_of_many(graph_, node)) {
    const uint32_t own = add_group(Group::Form::kMap, type(body_.operands_of(node)[0]).shape, number);
    add_to(own, number, reach);
    drafts_[own].stores = kMostJoined;
    return need(number);
  }
  const Expr count = graph::element_count(type(value).shape);
  uint32_t home = kNone;
  for (size_t i = out_.groups.size(), tried = 0; may_fuse(number) && i-- > 0 && tried < 16 && home == kNone;) {
    const Group& group = out_.groups[i];
    if (group.form != Group::Form::kMap || graph::element_count(group.domain) != count) continue;
    if (drafts_[i].stores >= kMostJoined) continue;
    ++tried;
    if (takes(static_cast<uint32_t>(i), number, reach)) home = static_cast<uint32_t>(i);
  }
  if (home == kNone) home = add_group(Group::Form::kMap, type(value).shape, number);
  add_to(home, number, reach);
  ++drafts_[home].stores;
  need(number);
}

void Grouper::find_roots() {
  for (NodeId n = 0; n < body_.nodes.size(); ++n) {
    const uint32_t group = out_.group_of[n];
    if (group == kNone) continue;
    const Node& node = body_.nodes[n];
    for (uint32_t i = 0; i < node.result_count; ++i) {
      const ValueId value = node.first_result + i;
      const bool is_alone = out_.groups[group].form == Group::Form::kAlone;
      if (is_alone) out_.in_memory[value] = true;
      if (out_.in_memory[value]) out_.groups[group].roots.push_back(value);
    }
  }
}

}  // namespace

Grouping group_nodes(const Graph& graph, const GroupingOptions& options) { return Grouper(graph, options).take(); }

}  // namespace kiln::planner
