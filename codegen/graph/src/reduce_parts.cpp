// Which reductions give so few results that parts of each are combined first.
#include "groups.h"

namespace kiln::planner {
namespace {

// Programs that a device should have at least, of so many results each, and what is not worth two launches.
struct Parallel {
  int64_t programs, results, elements;
};
constexpr Parallel kGpu{64, 256, 1 << 16}, kCpu{2, 16, 1 << 17};
constexpr int64_t kUsualExtent = 2048;  // of a dim

int64_t usual_count(const std::vector<Expr>& extents) {
  int64_t out = 1;
  for (const Expr& extent : extents)
    out = std::min(out * extent.as_constant().value_or(kUsualExtent), int64_t{1} << 40);
  return out;
}

}  // namespace

// Of the kinds whose parts are combined as their elements are.
bool is_in_parts(const Group& group, const graph::AttrList& attrs, TensorOp op, std::string_view target) {
  using graph::ReduceKind;
  if (op != TensorOp::kReduce) return false;
  const auto kind = graph::enum_attr<ReduceKind>(attrs, 0);
  if (kind != ReduceKind::kSum && kind != ReduceKind::kMax && kind != ReduceKind::kMin) return false;
  const bool on_cpu = target.starts_with("cpu") || target.starts_with("interp");
  const Parallel& device = on_cpu ? kCpu : kGpu;
  std::vector<Expr> kept;
  for (size_t i = 0; i < group.domain.size(); ++i) {
    if (!is_reduced(group, i)) kept.push_back(group.domain[i]);
  }
  const int64_t results = usual_count(kept), elements = usual_count(group.domain);
  const bool along_rows = is_reduced(group, group.domain.size() - 1) && group.domain.size() < 4;
  return results / (along_rows ? 1 : device.results) < device.programs && elements >= device.elements &&
         elements / std::max<int64_t>(results, 1) >= 1024;
}

}  // namespace kiln::planner
