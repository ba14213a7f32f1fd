// The ops of a region in program order.
#include "gpu/region.h"

#include <algorithm>
#include <set>

#include "elementwise/ops.h"
#include "elementwise/philox.h"
#include "gpu/control.h"
#include "gpu/dot/dot.h"
#include "gpu/dot/dot_scaled.h"
#include "gpu/evaluate.h"
#include "gpu/ops/atomics.h"
#include "gpu/ops/checks.h"
#include "gpu/ops/histogram.h"
#include "gpu/ops/memory.h"
#include "gpu/ops/print.h"
#include "gpu/ops/reduce.h"
#include "gpu/ops/scan.h"
#include "gpu/ops/sort.h"

namespace kiln::codegen::gpu {
namespace {

Result<void> lower_scalar(Context& ctx, const Op& op) {
  const auto axis = [&] { return static_cast<size_t>(int_attr(op, 0)); };
  Value* out = nullptr;
  switch (op.code) {
    case OpCode::kProgramId:
      out = ctx.program_id[axis()];
      break;
    case OpCode::kNumPrograms:
      out = ctx.num_programs[axis()];
      break;
    case OpCode::kConstant:
      out = emit_constant(ctx.ir, op);
      break;
    // A scalar of rank 0 stays what it is.
    case OpCode::kSplat:
    case OpCode::kBroadcast:
    case OpCode::kPermute:
    case OpCode::kReshape:
      if (ctx.type(op.operands[0]).rank() == 0) out = ctx.scalar(op.operands[0]);
      break;
    default:
      break;
  }
  if (!out) {
    auto registers = compute(ctx, op.results[0], *ctx.placement.home[op.results[0]]);
    if (!registers) return registers.error();
    out = registers->front();
  }
  ctx.define(op.results[0], {out});
  return {};
}

// Random words come four at a time. The keys of a seed that all threads have alike are computed once.
Result<void> lower_philox(Context& ctx, const Op& op) {
  const Layout& layout = *ctx.placement.home[op.results[0]];
  auto seed = ctx.get(op.operands[0], layout), offset = ctx.get(op.operands[1], layout);
  if (!seed || !offset) return (seed ? offset : seed).error();
  std::map<Value*, PhiloxKeys> keys;
  std::array<Registers, 4> out;
  for (size_t reg = 0; reg < seed->size(); ++reg) {
    const auto [found, is_new] = keys.try_emplace((*seed)[reg]);
    if (is_new) found->second = philox_keys(ctx.ir, (*seed)[reg]);
    const auto words = emit_philox(ctx.ir, found->second, (*offset)[reg]);
    for (size_t i = 0; i < words.size(); ++i) out[i].push_back(words[i]);
  }
  for (size_t i = 0; i < out.size(); ++i) ctx.define(op.results[i], std::move(out[i]));
  return {};
}

// What has a home is computed where it stands; the rest waits until it is wanted.
Result<void> lower_value(Context& ctx, const Op& op) {
  if (op.results.size() == 1 && ctx.type(op.results[0]).rank() == 0) return lower_scalar(ctx, op);
  for (ValueId id : op.results) {
    if (!ctx.placement.home[id]) continue;
    auto registers = compute(ctx, id, *ctx.placement.home[id]);
    if (!registers) return registers.error();
    ctx.define(id, std::move(*registers));
  }
  return {};
}

}  // namespace

Result<void> lower_op(Context& ctx, const Op& op) {
  switch (op.code) {
    case OpCode::kLoad:
      if (ctx.placement.staged.contains(&op) || ctx.placement.address_operands.contains(&op)) return {};
      return lower_load(ctx, op);
    case OpCode::kStore:
      return lower_store(ctx, op);
    case OpCode::kAtomicRmw:
    case OpCode::kAtomicCas:
      return lower_atomic(ctx, op);
    case OpCode::kReduce:
      return lower_reduce(ctx, op);
    case OpCode::kScan:
      return lower_in_order(ctx, op);
    case OpCode::kSort:
      return lower_sort(ctx, op);
    case OpCode::kTopk:
      return lower_topk(ctx, op);
    case OpCode::kHistogram:
      return lower_histogram(ctx, op);
    case OpCode::kDot:
      return lower_dot(ctx, op);
    case OpCode::kDotScaled:
      return lower_dot_scaled(ctx, op);
    case OpCode::kPhilox:
      return lower_philox(ctx, op);
    case OpCode::kFor:
      return lower_for(ctx, op);
    case OpCode::kWhile:
      return lower_while(ctx, op);
    case OpCode::kIf:
      return lower_if(ctx, op);
    case OpCode::kYield:
    case OpCode::kAssume:
    case OpCode::kRequire:
    case OpCode::kAssert:  // lower_check has seen to it
      return {};
    case OpCode::kPrint:
      return lower_print(ctx, op);
    default:
      return lower_value(ctx, op);
  }
}

namespace {

// Reductions that follow each other, none of which needs another.
size_t reductions_from(const dsl::Region& region, size_t first) {
  std::set<ValueId> results;
  size_t end = first;
  for (; end < region.ops.size() && is_plain_reduction(region.ops[end]); ++end) {
    const Op& op = region.ops[end];
    if (std::ranges::any_of(op.operands, [&](ValueId id) { return results.contains(id); })) break;
    results.insert(op.results.begin(), op.results.end());
  }
  return end - first;
}

}  // namespace

Result<void> lower_region(Context& ctx, const dsl::Region& region) {
  return lower_region(ctx, region, [&](const Op& op) { return lower_op(ctx, op); });
}

Result<void> lower_region(Context& ctx, const dsl::Region& region, llvm::function_ref<Result<void>(const Op&)> lower) {
  ctx.order.begin(ctx.ir, region);
  for (size_t i = 0; i < region.ops.size();) {
    const Op& op = region.ops[i];
    if (ctx.lines) ctx.lines->set(ctx.ir, op.loc);
    if (auto checked = lower_check(ctx, op); !checked) return checked;
    const size_t reductions = reductions_from(region, i);
    auto done = reductions > 1 ? lower_reductions(ctx, llvm::ArrayRef(region.ops).slice(i, reductions)) : lower(op);
    if (!done) return done;
    i += std::max<size_t>(reductions, 1);
  }
  return {};
}

}  // namespace kiln::codegen::gpu
