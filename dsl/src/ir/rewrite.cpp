#include "kiln/dsl/rewrite.h"

#include <algorithm>

namespace kiln::dsl {

ValueId fresh_value(Kernel& kernel, Type type) {
  kernel.values.push_back({std::move(type), ""});
  return static_cast<ValueId>(kernel.values.size() - 1);
}

void replace_uses(Region& region, const ValueMap& map) {
  for_each_op(region, [&](Op& op) { map.apply(op.operands); });
}

void replace_uses(Region& region, ValueId from, ValueId to) {
  for_each_op(region, [&](Op& op) { std::ranges::replace(op.operands, from, to); });
}

namespace {

std::vector<ValueId> fresh_values(Kernel& kernel, const std::vector<ValueId>& like, ValueMap& map) {
  std::vector<ValueId> out;
  for (ValueId id : like) {
    out.push_back(fresh_value(kernel, Type(kernel.type(id))));
    map.set(id, out.back());
  }
  return out;
}

}  // namespace

Op clone(Kernel& kernel, const Op& op, ValueMap& map) {
  Op out{op.code, op.operands, {}, op.attrs, {}, op.loc};
  map.apply(out.operands);
  out.results = fresh_values(kernel, op.results, map);
  for (const Region& inner : op.regions) out.regions.push_back(clone(kernel, inner, map));
  return out;
}

Region clone(Kernel& kernel, const Region& region) {
  ValueMap map;
  return clone(kernel, region, map);
}

Region clone(Kernel& kernel, const Region& region, ValueMap& map) {
  Region out;
  out.args = fresh_values(kernel, region.args, map);
  out.ops.reserve(region.ops.size());
  for (const Op& op : region.ops) out.ops.push_back(clone(kernel, op, map));
  return out;
}

}  // namespace kiln::dsl
