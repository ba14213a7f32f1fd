// Changing a kernel: new values, values in place of others, copies, ops in place of others. Everything works in place
// on what it is given, and keeps nothing of it. Not for a kernel that another thread reads.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "kiln/dsl/walk.h"

namespace kiln::dsl {

// A value of the kernel that no op defines yet, without a name.
ValueId fresh_value(Kernel& kernel, Type type);

// Values that stand for others.
class ValueMap {
 public:
  void set(ValueId from, ValueId to) { to_[from] = to; }
  bool contains(ValueId from) const { return to_.contains(from); }
  // What stands for the value; the value itself where nothing does. One step: what stands for that is not looked up.
  ValueId operator[](ValueId from) const {
    const auto found = to_.find(from);
    return found == to_.end() ? from : found->second;
  }
  // In place of each.
  void apply(std::vector<ValueId>& ids) const {
    for (ValueId& id : ids) id = (*this)[id];
  }

 private:
  std::unordered_map<ValueId, ValueId> to_;
};

// In the operands of all ops, those inside of others included. Results and arguments stay.
void replace_uses(Region& region, const ValueMap& map);
void replace_uses(Region& region, ValueId from, ValueId to);

// A copy with results and arguments of its own, new values of the kernel, which has those of the original. Operands
// that `map` knows are replaced; afterwards it knows what stands for the original's values too.
Op clone(Kernel& kernel, const Op& op, ValueMap& map);
Region clone(Kernel& kernel, const Region& region, ValueMap& map);
Region clone(Kernel& kernel, const Region& region);

// Calls rename(id) for each ValueId in the region and inside: of arguments, operands, results.
template <class Rename>
void rename_values(Region& region, Rename&& rename) {
  for_each_region(region, [&](Region& each) {
    for (ValueId& id : each.args) id = rename(id);
    for (Op& op : each.ops) {
      for (ValueId& id : op.operands) id = rename(id);
      for (ValueId& id : op.results) id = rename(id);
    }
  });
}

// rewrite(op, out) appends to `out` what stands in place of the op, mostly out.push_back(std::move(op)); nothing: the
// op goes. What is inside of an op has been rewritten before it, in its place.
template <class Rewrite>
void rewrite_ops(Region& region, Rewrite&& rewrite) {
  std::vector<Op> out;
  out.reserve(region.ops.size());
  for (Op& op : region.ops) {
    for (Region& inner : op.regions) rewrite_ops(inner, rewrite);
    rewrite(op, out);
  }
  region.ops = std::move(out);
}
template <class Rewrite>
void rewrite_ops(Kernel& kernel, Rewrite&& rewrite) {
  rewrite_ops(kernel.body, rewrite);
}

}  // namespace kiln::dsl
