#include "cpu/siblings.h"

#include <set>

#include "cpu/schedule.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {
namespace {

// Where the op stands, not where its result is wanted.
bool is_computed_in_place(const Context& ctx, const Op& op, ValueId result) {
  return ctx.type(result).is_scalar() || ctx.schedule.materialise[result] || is_eager(op.code);
}

}  // namespace

bool is_there(const Context& ctx, ValueId id) {
  return ctx.type(id).is_scalar() ? ctx.scalars[id] != nullptr : ctx.slots[id].has_value();
}

std::vector<const Op*> with_siblings(const Context& ctx, const Op& op, Reach reach,
                                     llvm::function_ref<bool(const Op&)> is_alike) {
  std::vector<const Op*> out = {&op};
  const Op* end = ctx.region->ops.data() + ctx.region->ops.size();
  std::set<ValueId> missing(op.results.begin(), op.results.end());  // what is not there yet when this one runs
  const auto is_missing = [&](ValueId id) { return missing.contains(id); };
  for (const Op* each = &op + 1; each != end && each - &op < reach.distance && out.size() < reach.ops; ++each) {
    if (has_effect(*each) || (!each->regions.empty() && each->code != OpCode::kReduce)) break;
    const bool waits = llvm::any_of(each->operands, is_missing);
    if (!waits && is_alike(*each) && !is_there(ctx, each->results[0])) out.push_back(each);
    for (ValueId id : each->results) {
      if (!is_there(ctx, id) && (waits || is_computed_in_place(ctx, *each, id))) missing.insert(id);
    }
  }
  return out;
}

}  // namespace kiln::codegen::cpu
