#include "plan.h"

#include "kiln/dsl/canonical.h"
#include "plan_reduce.h"
#include "plan_sort.h"
#include "plan_topk.h"

namespace kiln::codegen {

Plan make_plan(dsl::Kernel kernel) {
  Plan plan;
  plan.kernel_params = kernel.params.size();
  plan.stages.push_back({std::move(kernel), "kiln_entry"});
  // Checked accesses are reported by the ops of the kernel as it was written.
  if (plan.stages[0].kernel.options.check_bounds) return plan;
  while (split_reduction(plan) || split_topk(plan) || split_sort(plan)) {
  }
  Stage& last = plan.stages.back();
  if (plan.stages.size() > 1) last.kernel = dsl::canonicalise(last.kernel);
  return plan;
}

}  // namespace kiln::codegen
