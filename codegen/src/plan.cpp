#include "plan.h"

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/config.h"
#include "passes/pipeline.h"
#include "plan_bind.h"
#include "plan_product.h"
#include "plan_reduce.h"
#include "plan_sort.h"
#include "plan_topk.h"

namespace kiln::codegen {
namespace {

Plan plan_of_one(dsl::Kernel kernel) {
  Plan plan;
  plan.kernel_params = kernel.params.size();
  plan.stages.push_back({std::move(kernel), "kiln_entry"});
  return plan;
}

bool split_as_asked(Plan& plan, const dsl::ConstexprValues& config) {
  const auto parts = config.find(std::string(dsl::kSplitK));
  return parts != config.end() && parts->second > 1 && split_product(plan, parts->second);
}

// What a split writes down plainly.
void simplify(Plan& plan) {
  for (Stage& stage : plan.stages) stage.kernel = run_passes(std::move(stage.kernel));
}

}  // namespace

Plan make_gpu_plan(dsl::Kernel kernel, const dsl::ConstexprValues& config) {
  const Plan whole = plan_of_one(std::move(kernel));
  if (whole.stages[0].kernel.options.check_bounds) return whole;
  Plan plan = whole;
  if (!split_as_asked(plan, config) || !bind_stages(plan)) return whole;
  simplify(plan);
  return plan;
}

Plan make_plan(dsl::Kernel kernel, const dsl::ConstexprValues& config) {
  Plan plan = plan_of_one(std::move(kernel));
  // Checked accesses are reported by the ops of the kernel as it was written.
  if (plan.stages[0].kernel.options.check_bounds) return plan;
  if (split_as_asked(plan, config)) {
    simplify(plan);
    return plan;
  }
  while (split_reduction(plan) || split_topk(plan) || split_sort(plan)) {
  }
  Stage& last = plan.stages.back();
  if (plan.stages.size() > 1) last.kernel = dsl::canonicalise(last.kernel);
  return plan;
}

}  // namespace kiln::codegen
