#include "gpu/analysis/late_sums.h"

#include <algorithm>

#include "elementwise/combine.h"
#include "gpu/dot/group_dot.h"
#include "gpu/layout/reduction.h"
#include "gpu/shared/convert.h"

namespace kiln::codegen::gpu {
namespace {

constexpr size_t kFirstInit = 3;

// What is added to the carried value, or to a multiple of it; nothing else uses either.
std::optional<ValueId> added_to(const Context& c, ValueId carried, ValueId yielded) {
  const auto is_carried = [&](ValueId id) {
    if (c.uses(id) != 1) return false;
    const Op* op = c.definition[id];
    return id == carried ||
           (op && op->code == OpCode::kMul && c.uses(carried) == 1 && std::ranges::count(op->operands, carried) == 1);
  };
  const Op* op = c.definition[yielded];
  if (!op || c.uses(yielded) != 1) return std::nullopt;
  if (op->code == OpCode::kFma) {
    const bool scales = std::ranges::count(op->operands, carried) == 1 && op->operands[2] != carried;
    return scales && c.uses(carried) == 1 ? std::optional(op->operands[2]) : std::nullopt;
  }
  if (op->code != OpCode::kAdd) return std::nullopt;
  if (is_carried(op->operands[0])) return op->operands[1];
  return is_carried(op->operands[1]) ? std::optional(op->operands[0]) : std::nullopt;
}

// Bits of lanes, where nothing but lanes meet in the reduction.
std::optional<std::vector<unsigned>> lanes_of(const Context& c, const Op& reduce) {
  const auto plan = plan_reduction(c.placement.wanted.at(&reduce), static_cast<int>(int_attr(reduce, 1)));
  const auto& home = c.placement.home[reduce.results[0]];
  if (!plan || !home || plan->result != *home || plan->partial != plan->gathered) return std::nullopt;
  std::vector<unsigned> out;
  for (const Partner& partner : plan->shuffles) {
    if (partner.reg != 0) return std::nullopt;
    out.push_back(static_cast<unsigned>(partner.lane));
  }
  return out;
}

bool is_unfit(const Context& c, const Op& reduce) {
  return reduce.code != OpCode::kReduce || reduce_kind(reduce) != dsl::ReduceKind::kSum ||
         dsl::is_small_float(c.type(reduce.operands[0]).element);
}

}  // namespace

std::vector<LateSum> plan_late_sums(const Context& c, const Op& loop) {
  const dsl::Region& body = loop.regions[0];
  std::vector<LateSum> out;
  for (size_t i = 0; i < loop.results.size(); ++i) {
    const ValueId yielded = body.ops.back().operands[i];
    const auto sum = added_to(c, body.args[i + 1], yielded);
    const Op* reduce = sum ? c.definition[*sum] : nullptr;
    if (!reduce || c.uses(*sum) != 1 || c.region_of(*sum) != &body || c.region_of(yielded) != &body) continue;
    const auto& home = c.placement.home[*sum];
    const bool stays = home == c.placement.home[yielded] && home == c.placement.home[loop.results[i]];
    if (!stays || is_unfit(c, *reduce) || !is_zero(c, loop.operands[kFirstInit + i])) continue;
    auto lanes = lanes_of(c, *reduce);
    if (lanes && !lanes->empty()) out.push_back({i, *sum, std::move(*lanes)});
  }
  return out;
}

Registers finish_late_sum(Context& c, const LateSum& late, Registers registers) {
  const ElementType element = c.type(late.sum).element;
  for (unsigned lanes : late.lanes) {
    for (Value*& x : registers) x = combine(c.b, dsl::ReduceKind::kSum, element, x, shuffle_xor(c, x, lanes));
  }
  return registers;
}

}  // namespace kiln::codegen::gpu
