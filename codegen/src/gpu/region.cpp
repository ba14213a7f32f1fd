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

Result<void> lower_scalar(Context& c, const Op& op) {
  const auto axis = [&] { return static_cast<size_t>(int_attr(op, 0)); };
  Value* out = nullptr;
  switch (op.code) {
    case OpCode::kProgramId:
      out = c.program_id[axis()];
      break;
    case OpCode::kNumPrograms:
      out = c.num_programs[axis()];
      break;
    case OpCode::kConstant:
      out = emit_constant(c.b, op);
      break;
    // A scalar of rank 0 stays what it is.
    case OpCode::kSplat:
    case OpCode::kBroadcast:
    case OpCode::kPermute:
    case OpCode::kReshape:
      if (c.type(op.operands[0]).rank() == 0) out = c.scalar(op.operands[0]);
      break;
    default:
      break;
  }
  if (!out) {
    auto registers = compute(c, op.results[0], *c.placement.home[op.results[0]]);
    if (!registers) return registers.error();
    out = registers->front();
  }
  c.define(op.results[0], {out});
  return {};
}

// Random words come four at a time. The keys of a seed that all threads have alike are computed once.
Result<void> lower_philox(Context& c, const Op& op) {
  const Layout& layout = *c.placement.home[op.results[0]];
  auto seed = c.get(op.operands[0], layout), offset = c.get(op.operands[1], layout);
  if (!seed || !offset) return (seed ? offset : seed).error();
  std::map<Value*, PhiloxKeys> keys;
  std::array<Registers, 4> out;
  for (size_t reg = 0; reg < seed->size(); ++reg) {
    const auto [found, is_new] = keys.try_emplace((*seed)[reg]);
    if (is_new) found->second = philox_keys(c.b, (*seed)[reg]);
    const auto words = emit_philox(c.b, found->second, (*offset)[reg]);
    for (size_t i = 0; i < words.size(); ++i) out[i].push_back(words[i]);
  }
  for (size_t i = 0; i < out.size(); ++i) c.define(op.results[i], std::move(out[i]));
  return {};
}

// What has a home is computed where it stands; the rest waits until it is wanted.
Result<void> lower_value(Context& c, const Op& op) {
  if (op.results.size() == 1 && c.type(op.results[0]).rank() == 0) return lower_scalar(c, op);
  for (ValueId id : op.results) {
    if (!c.placement.home[id]) continue;
    auto registers = compute(c, id, *c.placement.home[id]);
    if (!registers) return registers.error();
    c.define(id, std::move(*registers));
  }
  return {};
}

}  // namespace

Result<void> lower_op(Context& c, const Op& op) {
  switch (op.code) {
    case OpCode::kLoad:
      if (c.placement.staged.contains(&op) || c.placement.looked_up.contains(&op)) return {};
      return lower_load(c, op);
    case OpCode::kStore:
      return lower_store(c, op);
    case OpCode::kAtomicRmw:
    case OpCode::kAtomicCas:
      return lower_atomic(c, op);
    case OpCode::kReduce:
      return lower_reduce(c, op);
    case OpCode::kScan:
      return lower_in_order(c, op);
    case OpCode::kSort:
      return lower_sort(c, op);
    case OpCode::kTopk:
      return lower_topk(c, op);
    case OpCode::kHistogram:
      return lower_histogram(c, op);
    case OpCode::kDot:
      return lower_dot(c, op);
    case OpCode::kDotScaled:
      return lower_dot_scaled(c, op);
    case OpCode::kPhilox:
      return lower_philox(c, op);
    case OpCode::kFor:
      return lower_for(c, op);
    case OpCode::kWhile:
      return lower_while(c, op);
    case OpCode::kIf:
      return lower_if(c, op);
    case OpCode::kYield:
    case OpCode::kAssume:
    case OpCode::kRequire:
    case OpCode::kAssert:  // lower_check has seen to it
      return {};
    case OpCode::kPrint:
      return lower_print(c, op);
    default:
      return lower_value(c, op);
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

Result<void> lower_region(Context& c, const dsl::Region& region) {
  return lower_region(c, region, [&](const Op& op) { return lower_op(c, op); });
}

Result<void> lower_region(Context& c, const dsl::Region& region, llvm::function_ref<Result<void>(const Op&)> lower) {
  c.order.begin(c.b, region);
  for (size_t i = 0; i < region.ops.size();) {
    const Op& op = region.ops[i];
    if (c.lines) c.lines->set(c.b, op.loc);
    if (auto checked = lower_check(c, op); !checked) return checked;
    const size_t reductions = reductions_from(region, i);
    auto done = reductions > 1 ? lower_reductions(c, llvm::ArrayRef(region.ops).slice(i, reductions)) : lower(op);
    if (!done) return done;
    i += std::max<size_t>(reductions, 1);
  }
  return {};
}

}  // namespace kiln::codegen::gpu
