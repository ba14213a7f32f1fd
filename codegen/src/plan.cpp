#include "plan.h"

#include <algorithm>
#include <set>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/config.h"
#include "passes/pipeline.h"
#include "plan_bind.h"
#include "plan_join.h"
#include "plan_product.h"
#include "plan_reduce.h"
#include "plan_scan.h"
#include "plan_sort.h"
#include "plan_stores.h"
#include "plan_stream.h"
#include "plan_topk.h"
#include "plan_words.h"

namespace kiln::codegen {
namespace {

using dsl::Op;
using dsl::OpCode;

Plan plan_of_one(dsl::Kernel kernel) {
  Plan plan;
  plan.kernel_params = kernel.params.size();
  plan.stages.push_back({std::move(kernel), "kiln_entry"});
  return plan;
}

bool split_as_asked(Plan& plan, const dsl::ConstexprValues& config) {
  const int64_t parts = dsl::schedule_option(config, dsl::kSplitK);
  const int64_t workers = dsl::schedule_option(config, dsl::kStreamK);
  if (workers > 0) return stream_product(plan, workers, parts);
  return parts > 1 && split_product(plan, parts);
}

bool may_be_long(const Op& op) {
  return op.code == OpCode::kReduce || op.code == OpCode::kTopk || op.code == OpCode::kSort || op.code == OpCode::kScan;
}

// What is cut comes before anything is written. Ops without effects, loads left out, that stand behind a write and need
// nothing that does, come before it.
void put_pure_ops_first(dsl::Kernel& kernel) {
  std::vector<Op>& ops = kernel.body.ops;
  const auto writes = std::ranges::find_if(ops, [](const Op& op) { return has_trait(op, dsl::kWrites); });
  if (std::none_of(writes, ops.end(), may_be_long)) return;
  std::set<dsl::ValueId> late;  // what stays behind
  std::vector<Op> first(std::make_move_iterator(ops.begin()), std::make_move_iterator(writes)), rest;
  for (auto op = writes; op != ops.end(); ++op) {
    const bool moves = op->regions.empty() && dsl::info(op->code).has(dsl::kPure) &&
                       std::ranges::none_of(op->operands, [&](dsl::ValueId id) { return late.contains(id); });
    if (!moves) late.insert(op->results.begin(), op->results.end());
    (moves ? first : rest).push_back(std::move(*op));
  }
  first.insert(first.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
  ops = std::move(first);
}

// All that is long, one after the other.
void split_long_ops(Plan& plan, const Lengths& lengths) {
  put_pure_ops_first(plan.stages.back().kernel);
  while (split_reduction(plan, lengths) || split_topk(plan, lengths) || split_sort(plan, lengths) ||
         split_scan(plan, lengths)) {
  }
  join_stages(plan);
  Stage& last = plan.stages.back();
  if (plan.stages.size() > 1) last.kernel = dsl::canonicalise(last.kernel);
}

// What a split writes down plainly.
void simplify(Plan& plan) {
  for (Stage& stage : plan.stages) stage.kernel = run_passes(std::move(stage.kernel));
}

bool holds_of_some_op(const dsl::Kernel& kernel, bool (*holds)(const Op&)) {
  return std::ranges::any_of(kernel.body.ops, [&](const Op& op) { return holds_within(op, holds); });
}

// The record of failures and the ring of messages are of the first stage's launch.
bool tells_host(const dsl::Kernel& kernel) {
  return kernel.options.check_bounds ||
         holds_of_some_op(kernel, [](const Op& op) { return op.code == OpCode::kPrint || op.code == OpCode::kAssert; });
}

// Operands of products may come by tensor maps, which are of the first stage's launch.
bool has_late_products(const Plan& plan) {
  return std::any_of(plan.stages.begin() + 1, plan.stages.end(), [](const Stage& stage) {
    return holds_of_some_op(stage.kernel,
                            [](const Op& op) { return op.code == OpCode::kDot || op.code == OpCode::kDotScaled; });
  });
}

}  // namespace

Plan make_gpu_plan(dsl::Kernel kernel, const dsl::ConstexprValues& config) {
  const Plan whole = plan_of_one(std::move(kernel));
  if (tells_host(whole.stages[0].kernel)) return whole;
  Plan plan = whole;
  if (!split_as_asked(plan, config)) {
    split_long_ops(plan, kGpuLengths);
    if (plan.stages.size() > 1 && plan.stages.back().chunks == 1) cut_long_stores(plan, kGpuLengths);
  }
  if (plan.stages.size() == 1 || has_late_products(plan)) return whole;
  hand_on_words(plan);
  bind_stages(plan);
  simplify(plan);
  return plan;
}

Plan make_plan(dsl::Kernel kernel, const dsl::ConstexprValues& config) {
  const Plan whole = plan_of_one(std::move(kernel));
  Plan plan = whole;
  // Checked accesses are reported by the ops of the kernel as it was written.
  if (plan.stages[0].kernel.options.check_bounds) return plan;
  if (split_as_asked(plan, config)) {
    simplify(plan);
  } else {
    split_long_ops(plan, kCpuLengths);
  }
  return plan.stages.size() == 1 ? whole : plan;
}

}  // namespace kiln::codegen
