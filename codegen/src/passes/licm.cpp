#include "passes/licm.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/traits.h"
#include "passes/axis_info.h"

namespace kiln::codegen {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::Region;
using dsl::ValueId;

// What an op and those inside of it define.
std::unordered_set<ValueId> defined_by(const Op& op) {
  std::unordered_set<ValueId> out;
  dsl::for_each_op(op, [&](const Op& each) {
    out.insert(each.results.begin(), each.results.end());
    for (const Region& region : each.regions) out.insert(region.args.begin(), region.args.end());
  });
  return out;
}

class Hoister {
 public:
  explicit Hoister(dsl::Kernel& kernel) : kernel_(kernel), info_(axis_info(kernel, Wrap::kExact)) {}

  // Inner loops first: what leaves them may leave this one too.
  void run() {
    dsl::rewrite_ops(kernel_, [this](Op& op, std::vector<Op>& kept) {
      if (op.code == OpCode::kFor || op.code == OpCode::kWhile) hoist(op, kept);
      kept.push_back(std::move(op));
    });
  }

 private:
  void hoist(Op& loop, std::vector<Op>& before) {
    variant_ = defined_by(loop);
    cheap_.clear();
    copies_ = {};
    const bool loads_move = runs_surely(loop) && !may_write(loop);
    for (Region& region : loop.regions) {
      std::vector<Op> kept;
      for (Op& op : region.ops) {
        if (!is_invariant(op, loads_move)) {
          kept.push_back(std::move(op));
          continue;
        }
        for (ValueId result : op.results) variant_.erase(result);
        if (is_worth_moving(op)) {
          take_operands(op, before);
          before.push_back(std::move(op));
        } else {
          for (ValueId result : op.results) cheap_.emplace(result, op);
          kept.push_back(std::move(op));
        }
      }
      region.ops = std::move(kept);
    }
  }

  bool runs_surely(const Op& loop) const {
    if (loop.code != OpCode::kFor) return false;
    const ValueId start = loop.operands[0], end = loop.operands[1];
    return start < info_.size() && end < info_.size() && info_[start].high < info_[end].low;
  }

  // Nothing that it uses is computed in the loop, its own regions apart.
  bool is_invariant(const Op& op, bool loads_move) const {
    if (!is_pure(op) && !(loads_move && op.code == OpCode::kLoad)) return false;
    const std::unordered_set<ValueId> own = defined_by(op);
    const auto varies = [&](ValueId id) { return variant_.contains(id) && !own.contains(id); };
    return !any_op(op, [&](const Op& each) { return std::ranges::any_of(each.operands, varies); });
  }

  bool is_worth_moving(const Op& op) const {
    if (std::all_of(op.results.begin(), op.results.end(), [&](ValueId id) { return kernel_.type(id).is_scalar(); })) {
      return true;
    }
    const dsl::OpInfo& info = dsl::info(op.code);
    if (info.has(dsl::kExpensive)) return op.code != OpCode::kRem;
    return info.family != dsl::OpFamily::kMake && op.code != OpCode::kLoad && !info.has(dsl::kElementwise) &&
           !info.has(dsl::kMovesElements);
  }

  // Operands that stayed in the loop are computed again before it, with all that they need. With a stack of its own:
  // what they need may be longer than the thread's.
  void take_operands(Op& op, std::vector<Op>& before) {
    std::vector<ValueId> todo(op.operands.rbegin(), op.operands.rend());
    while (!todo.empty()) {
      const ValueId id = todo.back();
      const auto cheap = cheap_.find(id);
      const size_t count = todo.size();
      if (cheap != cheap_.end() && !copies_.contains(id)) {
        const std::vector<ValueId>& needs = cheap->second.operands;
        for (size_t i = needs.size(); i-- > 0;) {
          if (cheap_.contains(needs[i]) && !copies_.contains(needs[i])) todo.push_back(needs[i]);
        }
        if (todo.size() == count) before.push_back(clone(kernel_, cheap->second, copies_));
      }
      if (todo.size() == count) todo.pop_back();
    }
    copies_.apply(op.operands);
  }

  dsl::Kernel& kernel_;
  std::vector<AxisInfo> info_;
  // Of the loop at hand: what changes from one iteration to the next; the invariants that stay in it; their copies.
  std::unordered_set<ValueId> variant_;
  std::unordered_map<ValueId, Op> cheap_;
  dsl::ValueMap copies_;
};

}  // namespace

dsl::Kernel licm(dsl::Kernel kernel) {
  Hoister(kernel).run();
  return kernel;
}

}  // namespace kiln::codegen
