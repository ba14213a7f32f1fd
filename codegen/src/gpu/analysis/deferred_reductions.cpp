#include "gpu/analysis/deferred_reductions.h"

#include <algorithm>

#include "elementwise/combine.h"
#include "gpu/dot/group_dot.h"
#include "gpu/layout/reduction.h"
#include "gpu/shared/convert.h"

namespace kiln::codegen::gpu {
namespace {

constexpr size_t kFirstInit = 3;

// What is added to the carried value, or to a multiple of it; nothing else uses either.
std::optional<ValueId> added_to(const Context& ctx, ValueId carried, ValueId yielded) {
  const auto is_carried = [&](ValueId id) {
    if (ctx.uses(id) != 1) return false;
    const Op* op = ctx.definition[id];
    return id == carried ||
           (op && op->code == OpCode::kMul && ctx.uses(carried) == 1 && std::ranges::count(op->operands, carried) == 1);
  };
  const Op* op = ctx.definition[yielded];
  if (!op || ctx.uses(yielded) != 1) return std::nullopt;
  if (op->code == OpCode::kFma) {
    const bool scales = std::ranges::count(op->operands, carried) == 1 && op->operands[2] != carried;
    return scales && ctx.uses(carried) == 1 ? std::optional(op->operands[2]) : std::nullopt;
  }
  if (op->code != OpCode::kAdd) return std::nullopt;
  if (is_carried(op->operands[0])) return op->operands[1];
  return is_carried(op->operands[1]) ? std::optional(op->operands[0]) : std::nullopt;
}

// Bits of lanes, where nothing but lanes meet in the reduction.
std::optional<std::vector<unsigned>> lanes_of(const Context& ctx, const Op& reduce) {
  const auto plan = plan_reduction(ctx.placement.wanted.at(&reduce), static_cast<int>(int_attr(reduce, 1)));
  const auto& home = ctx.placement.home[reduce.results[0]];
  if (!plan || !home || plan->result != *home || plan->partial != plan->gathered) return std::nullopt;
  std::vector<unsigned> out;
  for (const Partner& partner : plan->shuffles) {
    if (partner.reg != 0) return std::nullopt;
    out.push_back(static_cast<unsigned>(partner.lane));
  }
  return out;
}

bool is_unfit(const Context& ctx, const Op& reduce) {
  return reduce.code != OpCode::kReduce || reduce_kind(reduce) != dsl::ReduceKind::kSum ||
         dsl::is_small_float(ctx.type(reduce.operands[0]).element);
}

}  // namespace

std::vector<DeferredReduction> plan_deferred_reductions(const Context& ctx, const Op& loop) {
  const dsl::Region& body = loop.regions[0];
  std::vector<DeferredReduction> out;
  for (size_t i = 0; i < loop.results.size(); ++i) {
    const ValueId yielded = body.ops.back().operands[i];
    const auto sum = added_to(ctx, body.args[i + 1], yielded);
    const Op* reduce = sum ? ctx.definition[*sum] : nullptr;
    if (!reduce || ctx.uses(*sum) != 1 || ctx.region_of(*sum) != &body || ctx.region_of(yielded) != &body) continue;
    const auto& home = ctx.placement.home[*sum];
    const bool stays = home == ctx.placement.home[yielded] && home == ctx.placement.home[loop.results[i]];
    if (!stays || is_unfit(ctx, *reduce) || !is_zero(ctx, loop.operands[kFirstInit + i])) continue;
    auto lanes = lanes_of(ctx, *reduce);
    if (lanes && !lanes->empty()) out.push_back({i, *sum, std::move(*lanes)});
  }
  return out;
}

Registers finish_deferred_reduction(Context& ctx, const DeferredReduction& deferred, Registers registers) {
  const ElementType element = ctx.type(deferred.sum).element;
  for (unsigned lanes : deferred.lanes) {
    for (Value*& x : registers) x = combine(ctx.ir, dsl::ReduceKind::kSum, element, x, shuffle_xor(ctx, x, lanes));
  }
  return registers;
}

}  // namespace kiln::codegen::gpu
