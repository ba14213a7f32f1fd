// The order in which a loop carries its values, or an `if` gives its results, is the order in which their variables
// were made, and that may be up to the host compiler: `f(Var a, Var b)` copies its arguments in either order.
//
//   before                                                    after, where only `%y`, then `%x` are wanted
//     %x, %y, %z = for … carry (%a = %p, %b = %q, %c = %s)      %y, %x = for … carry (%b = %q, %a = %p)
//       yield %a1, %b1, %c1                                       yield %b1, %a1
//
// One walk over the values of the whole kernel, from the ops that must happen (effects, in program order) through the
// operands, left to right. A carried value is a node of its own: its result and its argument lead to its start and to
// what the region yields for it. So the walk never looks at the order it is to find, and the order in which it first
// meets the carried values of a loop is a property of the program alone.
#include "ir/carried_order.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "kiln/dsl/traits.h"

namespace kiln::dsl {
namespace {

// How the carried values of an op lie in it; one entry a region.
struct Layout {
  bool carries = false;
  std::optional<size_t> first_operand;           // where their starts begin
  std::vector<std::optional<size_t>> first_arg;  // where their arguments begin
  std::vector<bool> yields;                      // whether the region's yield gives their next values
};

Layout layout_of(OpCode code) {
  switch (code) {
    case OpCode::kFor:
      return {true, 3, {1}, {true}};
    case OpCode::kWhile:
      return {true, 0, {0, 0}, {false, true}};
    case OpCode::kIf:
      return {true, std::nullopt, {std::nullopt, std::nullopt}, {true, true}};
    default:
      return {};
  }
}

class Walk {
 public:
  explicit Walk(Kernel& kernel) : kernel_(kernel), definitions_(kernel.values.size()) {
    for_each_op(kernel, [&](Op& op) { define(op); });
  }

  void run() {
    push_anchors(kernel_.body);
    while (!pending_.empty()) {
      const Node node = pending_.back();
      pending_.pop_back();
      const size_t begin = pending_.size();
      visit(node);
      // What was pushed first is to be visited first.
      std::reverse(pending_.begin() + static_cast<ptrdiff_t>(begin), pending_.end());
    }
    for (Loop& loop : loops_) reorder(loop);
  }

 private:
  static constexpr size_t kNone = ~size_t{0};

  struct Loop {
    Op* op;
    Layout layout;
    std::vector<bool> met;
    std::vector<size_t> order;  // carried values as they were met
  };
  // Where a value comes from: an op, or a carried value of a loop as its argument or its result.
  struct Definition {
    size_t op = kNone;       // into ops_
    size_t carried = kNone;  // of that op
  };
  struct OpNode {
    Op* op;
    size_t loop = kNone;  // into loops_
    bool met = false;
  };
  // A value; an op; or a carried value of an op.
  struct Node {
    enum class Kind : uint8_t { kValue, kOp, kCarried } kind;
    size_t index;
    size_t carried = 0;
  };

  void define(Op& op) {
    const size_t index = ops_.size();
    ops_.push_back({&op});
    numbers_[&op] = index;
    Layout layout = layout_of(op.code);
    for (size_t i = 0; i < op.results.size(); ++i) definitions_[op.results[i]] = {index, layout.carries ? i : kNone};
    if (!layout.carries) return;
    for (size_t r = 0; r < op.regions.size(); ++r) {
      for (size_t i = 0; layout.first_arg[r] && i < op.results.size(); ++i) {
        definitions_[op.regions[r].args[*layout.first_arg[r] + i]] = {index, i};
      }
    }
    ops_[index].loop = loops_.size();
    loops_.push_back({&op, std::move(layout), std::vector<bool>(op.results.size(), false), {}});
  }

  void push_values(const std::vector<ValueId>& ids, size_t count) {
    for (size_t i = 0; i < std::min(count, ids.size()); ++i) pending_.push_back({Node::Kind::kValue, ids[i]});
  }

  void push_anchors(Region& region) {
    for (Op& op : region.ops) {
      if (has_effect(op)) pending_.push_back({Node::Kind::kOp, numbers_.at(&op)});
    }
  }

  void visit(const Node& node) {
    if (node.kind == Node::Kind::kOp) return visit_op(node.index);
    if (node.kind == Node::Kind::kCarried) return visit_carried(loops_[ops_[node.index].loop], node.carried);
    const Definition& from = definitions_[node.index];
    if (from.op == kNone) return;  // a parameter, or a loop's index
    pending_.push_back({Node::Kind::kOp, from.op});
    if (from.carried != kNone) pending_.push_back({Node::Kind::kCarried, from.op, from.carried});
  }

  // What an op needs in any case: of a loop its bounds and effects, but no carried value.
  void visit_op(size_t index) {
    if (std::exchange(ops_[index].met, true)) return;
    Op& op = *ops_[index].op;
    const Layout layout = layout_of(op.code);
    push_values(op.operands, layout.carries ? layout.first_operand.value_or(op.operands.size()) : op.operands.size());
    for (size_t r = 0; r < op.regions.size(); ++r) {
      push_anchors(op.regions[r]);
      const bool yields_carried = layout.carries && layout.yields[r];
      if (!yields_carried) push_values(op.regions[r].ops.back().operands, kNone);
    }
  }

  void visit_carried(Loop& loop, size_t carried) {
    if (loop.met[carried]) return;
    loop.met[carried] = true;
    loop.order.push_back(carried);
    const Layout& layout = loop.layout;
    if (layout.first_operand) {
      pending_.push_back({Node::Kind::kValue, loop.op->operands[*layout.first_operand + carried]});
    }
    for (size_t r = 0; r < loop.op->regions.size(); ++r) {
      if (layout.yields[r]) pending_.push_back({Node::Kind::kValue, loop.op->regions[r].ops.back().operands[carried]});
    }
  }

  // Entries from `first` on in the new order.
  static void permute(std::vector<ValueId>& ids, size_t first, const std::vector<size_t>& order) {
    const std::vector<ValueId> old = ids;
    ids.resize(first);
    for (size_t from : order) ids.push_back(old[first + from]);
  }

  static void reorder(Loop& loop) {
    Op& op = *loop.op;
    if (loop.layout.first_operand) permute(op.operands, *loop.layout.first_operand, loop.order);
    permute(op.results, 0, loop.order);
    for (size_t r = 0; r < op.regions.size(); ++r) {
      if (loop.layout.first_arg[r]) permute(op.regions[r].args, *loop.layout.first_arg[r], loop.order);
      if (loop.layout.yields[r]) permute(op.regions[r].ops.back().operands, 0, loop.order);
    }
  }

  Kernel& kernel_;
  std::vector<Definition> definitions_;  // by ValueId
  std::vector<OpNode> ops_;
  std::unordered_map<const Op*, size_t> numbers_;
  std::vector<Loop> loops_;
  std::vector<Node> pending_;
};

}  // namespace

void order_carried(Kernel& kernel) { Walk(kernel).run(); }

}  // namespace kiln::dsl
