#include "memory_order.h"

#include "dot_nest.h"
#include "windows.h"

namespace kiln::planner {

using graph::Graph;
using graph::kNone;

namespace {

// All axes in their order but for `last`, which come behind them; empty: that is the order they have.
AxisOrder with_last(size_t rank, std::span<const size_t> last) {
  AxisOrder out;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (std::find(last.begin(), last.end(), axis) == last.end()) out.push_back(axis);
  }
  out.insert(out.end(), last.begin(), last.end());
  return std::is_sorted(out.begin(), out.end()) ? AxisOrder() : out;
}

// The only coordinate that the axis counts, step by step.
std::optional<size_t> coordinate_of(const IndexSpace& space, const Coords& coords, size_t axis) {
  if (axis == kNoAxis) return std::nullopt;
  std::optional<size_t> out;
  for (size_t i = 0; i < coords.size(); ++i) {
    if (!space.mentions(coords[i], axis)) continue;
    const auto part = linear_in(space, coords[i], axis);
    if (out || !part || part->coefficient != Expr(1)) return std::nullopt;
    out = i;
  }
  return out;
}

class OrderChooser {
 public:
  OrderChooser(const Graph& graph, std::string_view target, Grouping& grouping)
      : graph_(graph), body_(graph.main()), target_(target), grouping_(grouping) {}

  void choose();

 private:
  void find_fixed();
  void demand(uint32_t group, const DotNest& dot);
  void demand(uint32_t group, const DotNest& dot, StepId operand, const FlatAxis& free);
  bool is_convolution(const DotNest& dot) const;
  bool has_windows() const;
  void follow(const GroupNest& nest);
  void lead(uint32_t group, const GroupNest& nest);
  void copy_given(uint32_t group, const GroupNest& nest, const Step& load, const Stored& store, const Expr& fastest);
  uint32_t copy_of(ValueId value, const AxisOrder& order);
  void set_root(ValueId root, const Coords& coords, const Expr& fastest);
  bool may_order(ValueId value) const { return !fixed_[value]; }
  // What the caller gives, and constants: another order is a copy.
  bool is_given(ValueId value) const;
  const std::vector<Expr>& shape(ValueId value) const { return graph_.type(body_, value).shape; }

  const Graph& graph_;
  const graph::Body& body_;
  const std::string_view target_;
  Grouping& grouping_;
  std::vector<bool> fixed_;
};

bool OrderChooser::is_given(ValueId value) const {
  const NodeId node = body_.values[value].node;
  return node == kNone || body_.nodes[node].op == TensorOp::kConstant;
}

// Inputs, outputs, and what ops alone read or write.
void OrderChooser::find_fixed() {
  fixed_.assign(body_.values.size(), false);
  for (ValueId value = 0; value < body_.values.size(); ++value) {
    fixed_[value] = is_given(value) || !grouping_.in_memory[value] || shape(value).size() < 3;
  }
  for (const graph::Output& output : body_.outputs) fixed_[output.value] = true;
  std::vector<ValueId> open;
  const auto is_alone = [&](NodeId node) {
    const uint32_t group = grouping_.group_of[node];
    if (group == kNone) return false;
    const Group::Form form = grouping_.groups[group].form;
    return form == Group::Form::kAlone || form == Group::Form::kAttention;
  };
  for (NodeId node = 0; node < body_.nodes.size(); ++node) {
    if (!is_alone(node)) continue;
    for (uint32_t i = 0; i < body_.nodes[node].result_count; ++i) fixed_[body_.nodes[node].first_result + i] = true;
    for (const ValueId operand : body_.operands_of(body_.nodes[node])) open.push_back(operand);
  }
  std::set<ValueId> seen;
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (value == graph::kNoValue || !seen.insert(value).second) continue;
    if (grouping_.in_memory[value]) fixed_[value] = true;
    const NodeId node = body_.values[value].node;
    if (node == kNone || grouping_.in_memory[value]) continue;
    for (const ValueId operand : body_.operands_of(body_.nodes[node])) open.push_back(operand);
  }
}

uint32_t OrderChooser::copy_of(ValueId value, const AxisOrder& order) {
  const ReorderedCopy wanted{value, order};
  const auto known = std::find(grouping_.copies.begin(), grouping_.copies.end(), wanted);
  const auto number = static_cast<uint32_t>(known - grouping_.copies.begin());
  if (known == grouping_.copies.end()) grouping_.copies.push_back(wanted);
  return number;
}

// What is contracted lies side by side. Columns are faster still, where they are an axis of the value; rows only where
// all lies so anyway: those of an image of one pixel are the batch, and few.
void OrderChooser::demand(uint32_t group, const DotNest& dot, StepId operand, const FlatAxis& free) {
  const StepId wanted[] = {operand};
  const std::vector<bool> live = live_steps(dot.nest, wanted);
  for (size_t i = 0; i < live.size(); ++i) {
    const Step& load = dot.nest.steps[i];
    if (!live[i] || load.kind != Step::Kind::kLoad || load.coords.size() < 3) continue;
    std::vector<size_t> last;
    if (const auto k = coordinate_of(dot.nest.space, load.coords, dot.k.axis)) last.push_back(*k);
    const bool has_k = !last.empty();
    if (const auto other = coordinate_of(dot.nest.space, load.coords, free.axis)) last.push_back(*other);
    AxisOrder order = with_last(load.coords.size(), last);
    if (operand == dot.a && has_k && !order.empty()) order = with_last(load.coords.size(), std::span(last).first(1));
    if (last.empty() || order.empty()) continue;
    if (is_given(load.tensor) && dot.loops.empty()) continue;
    if (is_given(load.tensor)) {
      grouping_.read_from.try_emplace({group, load.tensor}, copy_of(load.tensor, order));
    } else if (may_order(load.tensor)) {
      grouping_.orders.try_emplace(load.tensor, order);
    }
  }
}

// Columns of a result lie side by side.
void OrderChooser::demand(uint32_t group, const DotNest& dot) {
  if (is_convolution(dot)) demand(group, dot, dot.a, dot.m);
  if (!dot.loops.empty()) demand(group, dot, dot.b, dot.n);
  if (dot.n.axis == kNoAxis) return;
  for (const Stored& store : dot.stores) set_root(store.value, store.coords, dot.nest.space.axis(dot.n.axis));
}

void OrderChooser::set_root(ValueId root, const Coords& coords, const Expr& fastest) {
  const auto at = std::find(coords.begin(), coords.end(), fastest);
  if (!may_order(root) || at == coords.end()) return;
  const size_t last[] = {static_cast<size_t>(at - coords.begin())};
  const AxisOrder order = with_last(coords.size(), last);
  if (!order.empty()) grouping_.orders.try_emplace(root, order);
}

// What is computed of a value in another order has the same axis as its fastest.
void OrderChooser::follow(const GroupNest& nest) {
  for (const Stored& store : nest.stores) {
    for (const Step& step : nest.nest.steps) {
      if (step.kind != Step::Kind::kLoad || step.coords.size() < 3 || is_given(step.tensor)) continue;
      if (graph::element_count(shape(step.tensor)) != graph::element_count(shape(store.value))) continue;
      const auto fastest = fastest_of(grouping_, step);
      if (!fastest || std::find(store.coords.begin(), store.coords.end(), *fastest) == store.coords.end()) continue;
      set_root(store.value, store.coords, *fastest);
      break;
    }
  }
}

// And the other way: what it is computed of.
void OrderChooser::lead(uint32_t group, const GroupNest& nest) {
  for (const Stored& store : nest.stores) {
    if (store.coords.empty()) continue;
    const auto order = grouping_.orders.find(store.value);
    const bool is_ordered = order != grouping_.orders.end();
    const Expr fastest = is_ordered ? store.coords[order->second.back()] : store.coords.back();
    for (const Step& load : nest.nest.steps) {
      if (load.kind != Step::Kind::kLoad || load.coords.size() < 3) continue;
      if (is_given(load.tensor)) {
        if (is_ordered) copy_given(group, nest, load, store, fastest);
      } else {
        set_root(load.tensor, load.coords, fastest);
      }
    }
  }
}

// A copy of what the caller gives pays where its elements are few and each is read again by many, and where several
// passes go over it.
void OrderChooser::copy_given(uint32_t group, const GroupNest& nest, const Step& load, const Stored& store,
                              const Expr& fastest) {
  constexpr int64_t kReads = 4;
  const auto loads = std::count_if(nest.nest.steps.begin(), nest.nest.steps.end(), [&](const Step& step) {
    return step.kind == Step::Kind::kLoad && step.tensor == load.tensor;
  });
  const Expr elements = graph::element_count(shape(load.tensor)), all = graph::element_count(shape(store.value));
  const auto few = elements.as_constant(), many = all.as_constant();
  const bool is_small = few && (!many || *many * loads >= *few * kReads);
  const bool has_passes = grouping_.groups[group].form == Group::Form::kReduce && elements == all;
  const auto at = std::find(load.coords.begin(), load.coords.end(), fastest);
  if (at == load.coords.end() || (!is_small && !has_passes)) return;
  const size_t last[] = {static_cast<size_t>(at - load.coords.begin())};
  const AxisOrder order = with_last(load.coords.size(), last);
  if (!order.empty()) grouping_.read_from.try_emplace({group, load.tensor}, copy_of(load.tensor, order));
}

// It loops over the places of its windows; without windows its result's columns do not lie side by side.
bool OrderChooser::is_convolution(const DotNest& dot) const {
  return !dot.loops.empty() || std::any_of(dot.stores.begin(), dot.stores.end(), [&](const Stored& store) {
    const auto columns = coordinate_of(dot.nest.space, store.coords, dot.n.axis);
    return store.coords.size() >= 4 && columns && *columns + 1 < store.coords.size();
  });
}

// Of filters so short that they are written out.
bool OrderChooser::has_windows() const {
  constexpr uint32_t kTaps = 8;
  const std::vector<uint32_t> slices = slices_of_values(graph_);
  for (ValueId value = 0; value < slices.size(); ++value) {
    if (slices[value] >= kTaps && shape(value).size() >= 3) return true;
  }
  return false;
}

void OrderChooser::choose() {
  std::map<uint32_t, DotNest> dots;
  std::map<uint32_t, GroupNest> others;
  bool any = has_windows();
  for (uint32_t group = 0; group < grouping_.groups.size(); ++group) {
    const GroupContext context{graph_, grouping_, group, target_};
    if (context.group().form != Group::Form::kDot) continue;
    auto dot = whole_dot_nest(context);
    if (!dot) continue;
    if (!is_linear(dot->nest, dot->a, dot->k)) dot = unfolded_dot_nest(context);
    any = any || is_convolution(*dot);
    dots.emplace(group, std::move(*dot));
  }
  if (!any) return;
  find_fixed();
  for (uint32_t group = 0; group < grouping_.groups.size(); ++group) {
    const GroupContext context{graph_, grouping_, group, target_};
    if (context.group().form != Group::Form::kMap && context.group().form != Group::Form::kReduce) continue;
    if (auto nest = nest_of(context)) others.emplace(group, std::move(*nest));
  }
  for (const auto& [group, dot] : dots) demand(group, dot);
  for (auto each = others.rbegin(); each != others.rend(); ++each) lead(each->first, each->second);
  for (const auto& [group, nest] : others) follow(nest);
  for (const auto& [group, nest] : others) lead(group, nest);
}

}  // namespace

void choose_orders(const Graph& graph, std::string_view target, Grouping& grouping) {
  OrderChooser(graph, target, grouping).choose();
}

}  // namespace kiln::planner
