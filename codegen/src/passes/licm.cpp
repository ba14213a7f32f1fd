#include "passes/licm.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "passes/axis_info.h"
#include "passes/identities.h"

namespace kiln::codegen {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::Region;
using dsl::ValueId;

bool writes(const Op& op) {
  if (dsl::info(op.code).has(dsl::kWrites)) return true;
  return std::any_of(op.regions.begin(), op.regions.end(),
                     [](const Region& region) { return std::any_of(region.ops.begin(), region.ops.end(), writes); });
}

void collect_defined(const Op& op, std::unordered_set<ValueId>& out) {
  out.insert(op.results.begin(), op.results.end());
  for (const Region& region : op.regions) {
    out.insert(region.args.begin(), region.args.end());
    for (const Op& inner : region.ops) collect_defined(inner, out);
  }
}

class Hoister {
 public:
  explicit Hoister(dsl::Kernel& kernel) : kernel_(kernel), info_(axis_info(kernel, Wrap::kExact)) {}

  void run() { visit(kernel_.body); }

 private:
  // Inner loops first: what leaves them may leave this one too.
  void visit(Region& region) {
    std::vector<Op> kept;
    for (Op& op : region.ops) {
      for (Region& inner : op.regions) visit(inner);
      if (op.code == OpCode::kFor || op.code == OpCode::kWhile) hoist(op, kept);
      kept.push_back(std::move(op));
    }
    region.ops = std::move(kept);
  }

  void hoist(Op& loop, std::vector<Op>& before) {
    variant_.clear();
    cheap_.clear();
    copies_.clear();
    collect_defined(loop, variant_);
    const bool loads_move = runs_surely(loop) && !writes(loop);
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
    const bool moves = dsl::info(op.code).has(dsl::kPure) || (loads_move && op.code == OpCode::kLoad);
    if (!moves) return false;
    std::unordered_set<ValueId> own;
    collect_defined(op, own);
    return uses_only_invariants(op, own);
  }

  bool uses_only_invariants(const Op& op, const std::unordered_set<ValueId>& own) const {
    auto fixed = [&](ValueId id) { return own.contains(id) || !variant_.contains(id); };
    if (!std::all_of(op.operands.begin(), op.operands.end(), fixed)) return false;
    return std::all_of(op.regions.begin(), op.regions.end(), [&](const Region& region) {
      return std::all_of(region.ops.begin(), region.ops.end(),
                         [&](const Op& inner) { return uses_only_invariants(inner, own); });
    });
  }

  bool is_worth_moving(const Op& op) const {
    if (std::all_of(op.results.begin(), op.results.end(), [&](ValueId id) { return kernel_.type(id).is_scalar(); })) {
      return true;
    }
    switch (op.code) {
      case OpCode::kMath:
      case OpCode::kDiv:
      case OpCode::kPhilox:
        return true;
      case OpCode::kArange:
      case OpCode::kSplat:
      case OpCode::kLoad:
        return false;
      default:
        return !dsl::info(op.code).has(dsl::kElementwise) && !Identities::only_moves(op.code);
    }
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
        if (todo.size() == count) copy(cheap->second, before);
      }
      if (todo.size() == count) todo.pop_back();
    }
    for (ValueId& operand : op.operands) operand = copied(operand);
  }

  // Its operands are there already.
  void copy(const Op& op, std::vector<Op>& before) {
    Op out = op;
    for (ValueId& operand : out.operands) operand = copied(operand);
    for (ValueId& result : out.results) {
      const auto fresh = static_cast<ValueId>(kernel_.values.size());
      kernel_.values.push_back({kernel_.type(result), ""});
      copies_[result] = fresh;
      result = fresh;
    }
    before.push_back(std::move(out));
  }

  ValueId copied(ValueId id) const {
    const auto known = copies_.find(id);
    return known == copies_.end() ? id : known->second;
  }

  dsl::Kernel& kernel_;
  std::vector<AxisInfo> info_;
  // Of the loop at hand: what changes from one iteration to the next; the invariants that stay in it; their copies.
  std::unordered_set<ValueId> variant_;
  std::unordered_map<ValueId, Op> cheap_;
  std::unordered_map<ValueId, ValueId> copies_;
};

}  // namespace

dsl::Kernel licm(dsl::Kernel kernel) {
  Hoister(kernel).run();
  return kernel;
}

}  // namespace kiln::codegen
