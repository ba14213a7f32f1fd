// Canonical order: ops are placed by a depth-first walk along the data flow, so the order in which they were traced
// leaves no mark.
//
// For each region, innermost first:
//   1. Anchors are the ops that must happen: stores, effects, loops that contain one, and the yield. They keep their
//      program order.
//   2. From each anchor in turn the walk goes through its operands, left to right; an op is placed when all it needs is
//      placed. What no anchor needs is never reached, and so dropped.
//   3. Memory reads may not cross writes. The writes of a region cut it into epochs; before a write is placed, every
//      live read of the epoch that it ends is placed too, in the order in which the whole walk would reach it.
// Then values are numbered in the order of their definition: parameters, and for each op its results, the arguments of
// its region, and what the region holds.
#include "kiln/dsl/canonical.h"

#include <utility>

#include "ir/carried_order.h"
#include "kiln/dsl/traits.h"

namespace kiln::dsl {
namespace {

constexpr size_t kNone = ~size_t{0};

// What a region's walk needs to know of one op.
struct Node {
  bool reads = false, writes = false, anchor = false;
  size_t epoch = 0;           // writes before it
  std::vector<size_t> needs;  // ops of the same region that it uses, directly or from its own regions
};

class RegionWalk {
 public:
  // `definers` has an entry a value, kNone, and is given back so.
  RegionWalk(Region region, std::vector<size_t>& definers) : region_(std::move(region)), definers_(definers) {}

  Region run() {
    describe();
    // The whole walk once, for liveness and for the order of reads.
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].anchor) place(i);
    }
    const std::vector<size_t> demanded = std::move(order_);
    order_.clear();
    placed_.assign(nodes_.size(), false);

    std::vector<std::vector<size_t>> reads_of_epoch(nodes_.size() + 1);
    for (size_t i : demanded) {
      if (nodes_[i].reads && !nodes_[i].anchor) reads_of_epoch[nodes_[i].epoch].push_back(i);
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!nodes_[i].anchor) continue;
      for (size_t need : nodes_[i].needs) place(need);
      if (nodes_[i].writes) {
        for (size_t read : reads_of_epoch[nodes_[i].epoch]) place(read);
      }
      place(i);
    }

    Region out{std::move(region_.args), {}};
    out.ops.reserve(order_.size());
    for (size_t i : order_) out.ops.push_back(std::move(region_.ops[i]));
    return out;
  }

 private:
  void describe() {
    const size_t count = region_.ops.size();
    for (size_t i = 0; i < count; ++i) {
      for (ValueId result : region_.ops[i].results) definers_[result] = i;
    }
    nodes_.resize(count);
    placed_.assign(count, false);
    size_t epoch = 0;
    for (size_t i = 0; i < count; ++i) {
      const Op& op = region_.ops[i];
      Node& node = nodes_[i];
      node.reads = may_read(op);
      node.writes = may_write(op);
      node.anchor = has_effect(op) || info(op.code).has(kTerminator);
      node.epoch = epoch;
      epoch += node.writes ? 1 : 0;
      add_needs(op, i, node.needs);
    }
    for (const Op& op : region_.ops) {
      for (ValueId result : op.results) definers_[result] = kNone;
    }
  }

  void add_needs(const Op& op, size_t self, std::vector<size_t>& needs) const {
    for_each_op(op, [&](const Op& each) {
      for (ValueId operand : each.operands) {
        const size_t definer = definers_[operand];
        if (definer != kNone && definer != self) needs.push_back(definer);
      }
    });
  }

  // Depth first with a stack of its own: chains of ops may be longer than the thread's stack.
  void place(size_t root) {
    if (placed_[root]) return;
    std::vector<std::pair<size_t, size_t>> stack = {{root, 0}};
    placed_[root] = true;
    while (!stack.empty()) {
      auto& [index, next] = stack.back();
      if (next == nodes_[index].needs.size()) {
        order_.push_back(index);
        stack.pop_back();
        continue;
      }
      const size_t need = nodes_[index].needs[next++];
      if (placed_[need]) continue;
      placed_[need] = true;
      stack.emplace_back(need, 0);
    }
  }

  Region region_;
  std::vector<size_t>& definers_;  // by value: its op in this region
  std::vector<Node> nodes_;
  std::vector<bool> placed_;
  std::vector<size_t> order_;
};

// Gives values their final numbers.
class Renumber {
 public:
  explicit Renumber(Kernel& kernel)
      : kernel_(kernel), old_(std::exchange(kernel.values, {})), map_(old_.size(), kNoValue) {
    kernel.values.reserve(old_.size());
  }

  void run() {
    for (Param& param : kernel_.params) param.value = define(param.value);
    visit(kernel_.body);
  }

 private:
  ValueId define(ValueId old) {
    map_[old] = static_cast<ValueId>(kernel_.values.size());
    kernel_.values.push_back(std::move(old_[old]));
    return map_[old];
  }

  void visit(Region& region) {
    for (ValueId& arg : region.args) arg = define(arg);
    for (Op& op : region.ops) {
      for (ValueId& operand : op.operands) operand = map_[operand];
      for (ValueId& result : op.results) result = define(result);
      if (op.code == OpCode::kConstant) make_literal(op);
      for (Region& inner : op.regions) visit(inner);
    }
  }

  // A known number has one form: its bits.
  static void make_literal(Op& op) {
    const Expr* value = std::get_if<Expr>(&op.attrs[0]);
    auto known = value ? value->as_constant() : std::nullopt;
    const ElementType element = std::get<ElementType>(op.attrs[1]);
    if (known && int_fits(element, *known)) op.attrs[0] = Literal{bits_from_int(element, *known)};
  }

  Kernel& kernel_;
  std::vector<Value> old_;
  std::vector<ValueId> map_;
};

}  // namespace

Kernel canonicalise(const Kernel& kernel) {
  Kernel out = kernel;
  order_carried(out);
  std::vector<size_t> definers(kernel.values.size(), kNone);
  for_each_region_postorder(out, [&](Region& region) { region = RegionWalk(std::move(region), definers).run(); });
  Renumber(out).run();
  return out;
}

}  // namespace kiln::dsl
