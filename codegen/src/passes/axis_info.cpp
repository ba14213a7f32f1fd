#include "passes/axis_info.h"

#include <algorithm>
#include <numeric>

#include "passes/axis_rules.h"

namespace kiln::codegen {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::Region;
using dsl::Type;
using dsl::ValueId;

// Loops inside so many others are not walked more than once: their arguments are unknown.
constexpr int kMaxIteratedDepth = 3;
constexpr int kMaxRounds = 8;

class Walk {
 public:
  Walk(const dsl::Kernel& kernel, Wrap wrap)
      : kernel_(kernel), info_(kernel.values.size()), depth_of_(kernel.values.size()), facts_{kernel, info_, wrap} {}

  std::vector<AxisInfo> run() {
    for (const dsl::Param& param : kernel_.params) set(param.value, axis::unknown(param.type));
    visit(kernel_.body);
    return std::move(info_);
  }

 private:
  void set(ValueId id, AxisInfo info) {
    const Type& type = kernel_.type(id);
    if (info.base == dsl::kNoValue && type.is_scalar() && type.is_value() && dsl::is_int(type.element)) {
      info.base = id;
      info.base_low = info.base_high = 0;
    }
    info_[id] = info;
    depth_of_[id] = depth_;
  }

  // What is left of a value outside the region that is being left: bases defined in it are gone.
  AxisInfo outside(const AxisInfo& inner) const {
    AxisInfo out = inner;
    if (out.base != dsl::kNoValue && depth_of_[out.base] > depth_) out.base = dsl::kNoValue;
    if (out.base == dsl::kNoValue) out.base_low = out.base_high = 0;
    return out;
  }

  void visit(const Region& region) {
    ++depth_;
    std::vector<std::pair<ValueId, AxisInfo>> before;  // what an `assume` of this region narrowed
    for (const Op& op : region.ops) {
      if (op.code == OpCode::kAssume) {
        const ValueId id = op.operands[0];
        before.emplace_back(id, info_[id]);
        info_[id] = axis::assumed(info_[id], op, kernel_.type(id));
      } else {
        visit(op);
      }
    }
    --depth_;
    if (depth_ == 0) return;
    for (size_t i = before.size(); i-- > 0;) {
      if (depth_of_[before[i].first] <= depth_) info_[before[i].first] = before[i].second;
    }
  }

  void visit(const Op& op) {
    switch (op.code) {
      case OpCode::kFor:
      case OpCode::kWhile:
        return visit_loop(op);
      case OpCode::kIf:
        return visit_if(op);
      default:
        break;
    }
    for (const Region& region : op.regions) {  // of reduce and scan
      ++depth_;
      for (ValueId arg : region.args) set(arg, axis::unknown(kernel_.type(arg)));
      --depth_;
      visit(region);
    }
    for (size_t i = 0; i < op.results.size(); ++i) set(op.results[i], axis::result_info(facts_, op, i));
  }

  std::vector<AxisInfo> yielded(const Region& region) const {
    std::vector<AxisInfo> out;
    for (ValueId id : region.ops.back().operands) out.push_back(outside(info_[id]));
    return out;
  }

  void visit_if(const Op& op) {
    visit(op.regions[0]);
    const std::vector<AxisInfo> first = yielded(op.regions[0]);
    visit(op.regions[1]);
    const std::vector<AxisInfo> second = yielded(op.regions[1]);
    for (size_t i = 0; i < op.results.size(); ++i) {
      set(op.results[i], axis::join(first[i], second[i], kernel_.type(op.results[i])));
    }
  }

  // start ≤ index < end; the last index is a multiple of what start, step and end are multiples of below the end.
  AxisInfo loop_index(const Op& op) const {
    const AxisInfo &start = info_[op.operands[0]], &end = info_[op.operands[1]], &step = info_[op.operands[2]];
    AxisInfo out = axis::unknown(kernel_.type(op.operands[0]));
    out.multiple_of = std::gcd(start.multiple_of, step.multiple_of);
    const int64_t gap = std::max<int64_t>(1, std::gcd(out.multiple_of, end.multiple_of));
    out.low = start.low;
    out.high = std::max(start.low, end.high - gap);
    out.base = end.base;
    out.base_low = -axis::kFar;
    out.base_high = std::max(end.base_high - gap, -axis::kFar);
    return out;
  }

  void set_args(const Op& op, const std::vector<AxisInfo>& carried) {
    ++depth_;
    const bool is_for = op.code == OpCode::kFor;
    if (is_for) set(op.regions[0].args[0], loop_index(op));
    for (size_t i = 0; i < carried.size(); ++i) {
      for (const Region& region : op.regions) set(region.args[i + (is_for ? 1 : 0)], carried[i]);
    }
    --depth_;
  }

  // What the carried values may be in the next iteration too: joined, and where a range grows, unbounded on that side.
  AxisInfo widened(const AxisInfo& before, const AxisInfo& next, const Type& type, bool widen) const {
    AxisInfo out = axis::join(before, next, type);
    const AxisInfo all = axis::unknown(type);
    if (widen && out.low < before.low) out.low = all.low;
    if (widen && out.high > before.high) out.high = all.high;
    const bool grew = out.base_low < before.base_low || out.base_high > before.base_high;
    if (out.base == dsl::kNoValue || (widen && grew)) out.base = dsl::kNoValue, out.base_low = out.base_high = 0;
    return out;
  }

  void visit_loop(const Op& op) {
    const size_t first = op.code == OpCode::kFor ? 3 : 0;
    std::vector<AxisInfo> carried;
    for (size_t i = first; i < op.operands.size(); ++i) carried.push_back(outside(info_[op.operands[i]]));
    const bool iterate = loops_ < kMaxIteratedDepth;
    ++loops_;
    bool settled = false;
    for (int round = 0; iterate && !settled && round < kMaxRounds; ++round) {
      set_args(op, carried);
      for (const Region& region : op.regions) visit(region);
      const std::vector<AxisInfo> next = yielded(op.regions.back());
      settled = true;
      for (size_t i = 0; i < carried.size(); ++i) {
        const AxisInfo joined = widened(carried[i], next[i], kernel_.type(op.results[i]), round > 0);
        settled = settled && joined == carried[i];
        carried[i] = joined;
      }
    }
    if (!settled) {
      for (size_t i = 0; i < carried.size(); ++i) carried[i] = axis::unknown(kernel_.type(op.results[i]));
      set_args(op, carried);
      for (const Region& region : op.regions) visit(region);
    }
    --loops_;
    for (size_t i = 0; i < carried.size(); ++i) set(op.results[i], outside(carried[i]));
  }

  const dsl::Kernel& kernel_;
  std::vector<AxisInfo> info_;
  std::vector<int> depth_of_;  // regions around the definition
  axis::Facts facts_;
  int depth_ = 0, loops_ = 0;
};

}  // namespace

std::vector<AxisInfo> axis_info(const dsl::Kernel& kernel, Wrap wrap) { return Walk(kernel, wrap).run(); }

int64_t multiple_of_groups(const AxisInfo& info, int64_t group, int64_t step) {
  if (info.contiguous == 1 || group % info.contiguous == 0) return info.multiple_of;
  return std::gcd(info.multiple_of, std::gcd(group, info.contiguous) * step);
}

}  // namespace kiln::codegen
