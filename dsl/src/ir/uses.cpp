#include "kiln/dsl/uses.h"

#include <algorithm>
#include <numeric>

#include "kiln/dsl/walk.h"

namespace kiln::dsl {

std::vector<const Op*> definitions(const Kernel& kernel) {
  std::vector<const Op*> out(kernel.values.size());
  for_each_op(kernel, [&](const Op& op) {
    for (ValueId result : op.results) out[result] = &op;
  });
  return out;
}

std::vector<uint32_t> count_uses(const Kernel& kernel) {
  std::vector<uint32_t> out(kernel.values.size());
  for_each_op(kernel, [&](const Op& op) {
    for (ValueId operand : op.operands) ++out[operand];
  });
  return out;
}

bool is_used(const Kernel& kernel, ValueId id) {
  return any_op(kernel, [&](const Op& op) { return std::ranges::find(op.operands, id) != op.operands.end(); });
}

DefUse::DefUse(const Kernel& kernel)
    : definition_(definitions(kernel)),
      region_(kernel.values.size(), &kernel.body),
      first_user_(kernel.values.size() + 1) {
  for_each_region(kernel, [&](const Region& region) {
    for (ValueId arg : region.args) region_[arg] = &region;
    for (const Op& op : region.ops) {
      for (ValueId result : op.results) region_[result] = &region;
    }
  });
  const std::vector<uint32_t> counts = count_uses(kernel);
  std::inclusive_scan(counts.begin(), counts.end(), first_user_.begin() + 1, std::plus<size_t>(), size_t{0});
  users_.resize(first_user_.back());
  std::vector<size_t> next(first_user_.begin(), first_user_.end() - 1);
  for_each_op(kernel, [&](const Op& op) {
    for (ValueId operand : op.operands) users_[next[operand]++] = &op;
  });
}

}  // namespace kiln::dsl
