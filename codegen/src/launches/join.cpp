#include "launches/join.h"

#include <algorithm>
#include <set>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/traits.h"
#include "launches/split.h"
#include "passes/cse.h"
#include "passes/pointers.h"

namespace kiln::codegen {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

ptrdiff_t loads_in(const dsl::Kernel& kernel) {
  ptrdiff_t out = 0;
  dsl::for_each_op(kernel, [&](const Op& op) { out += op.code == OpCode::kLoad ? 1 : 0; });
  return out;
}

// Whether nothing that is loaded may be stored, by any program.
bool loads_nothing_stored(const dsl::Kernel& kernel) {
  const Pointers pointers(kernel);
  std::set<std::optional<size_t>> loaded, stored;  // parameters
  bool are_plain = true;
  dsl::for_each_op(kernel, [&](const Op& op) {
    if (op.code == OpCode::kLoad) loaded.insert(pointers.parameter(op.operands[0]));
    if (op.code == OpCode::kStore) stored.insert(pointers.parameter(op.operands[0]));
    are_plain &= op.code == OpCode::kStore || !dsl::info(op.code).has(dsl::kWrites);
  });
  const auto is_loaded = [&](const auto& parameter) { return loaded.contains(parameter); };
  return are_plain && !loaded.contains(std::nullopt) && std::ranges::none_of(stored, is_loaded);
}

// The ops of a kernel with the first of another one's parameters, their values behind that one's.
std::vector<Op> ops_in(dsl::Kernel& host, const dsl::Kernel& guest) {
  const size_t first = host.values.size();
  host.values.insert(host.values.end(), guest.values.begin(), guest.values.end());
  dsl::ValueMap params;
  for (size_t i = 0; i < guest.params.size(); ++i) params.set(guest.params[i].value, host.params[i].value);
  dsl::Region body = guest.body;
  dsl::rename_values(body,
                     [&](ValueId id) { return params.contains(id) ? params[id] : static_cast<ValueId>(first + id); });
  return std::move(body.ops);
}

// Stores come last, and what a step does in an `if` on a condition stands in one with what the other does there.
void put_together(std::vector<Op>& ops) {
  const auto stored = std::ranges::stable_partition(ops, [](const Op& op) { return !may_write(op); });
  std::vector<Op> stores(std::make_move_iterator(stored.begin()), std::make_move_iterator(stored.end()));
  ops.erase(stored.begin(), stored.end());
  for (Op& op : stores) {
    Op& last = ops.back();
    if (op.code != OpCode::kIf || last.code != OpCode::kIf || op.operands != last.operands || !op.results.empty()) {
      ops.push_back(std::move(op));
      continue;
    }
    for (size_t i = 0; i < op.regions.size(); ++i) {
      std::vector<Op>&into = last.regions[i].ops, &from = op.regions[i].ops;
      into.pop_back();  // the `yield`
      const Op yield = from.back();
      from.pop_back();
      into.insert(into.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
      put_together(into);
      into.push_back(yield);
    }
  }
}

// The steps as one; a kernel without ops where they have nothing in common.
dsl::Kernel joined(const LaunchStep& first, const LaunchStep& second) {
  dsl::Kernel kernel = second.kernel;
  std::vector<Op> ops = ops_in(kernel, first.kernel);
  ops.insert(ops.end(), kernel.body.ops.begin(), kernel.body.ops.end());
  kernel.body.ops = std::move(ops);
  if (!loads_nothing_stored(kernel)) return {};
  kernel = eliminate_common_subexpressions(std::move(kernel));  // conditions
  put_together(kernel.body.ops);
  kernel = eliminate_common_loads(std::move(kernel));
  const bool have_one_in_common = loads_in(kernel) < loads_in(first.kernel) + loads_in(second.kernel);
  return have_one_in_common ? dsl::canonicalise(kernel) : dsl::Kernel();
}

}  // namespace

void join_steps(LaunchSequence& sequence) {
  std::vector<LaunchStep>& steps = sequence.steps;
  for (size_t i = 0; i + 2 < steps.size();) {
    dsl::Kernel kernel;
    if (steps[i].chunks == steps[i + 1].chunks) kernel = joined(steps[i], steps[i + 1]);
    if (kernel.body.ops.empty()) {
      ++i;
      continue;
    }
    steps[i].kernel = std::move(kernel);
    steps.erase(steps.begin() + static_cast<ptrdiff_t>(i) + 1);
  }
  for (size_t i = 0; i + 1 < steps.size(); ++i) steps[i].entry = "kiln_stage_" + std::to_string(i);
}

}  // namespace kiln::codegen
