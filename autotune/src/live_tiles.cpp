#include "live_tiles.h"

#include <algorithm>

namespace kiln::autotune {
namespace {

double tile_bytes(const dsl::Type& type) {
  if (!type.is_value() || type.is_scalar()) return 0;
  return static_cast<double>(dsl::element_count(type)) * dsl::info(type.element).bytes;
}

class LiveTiles {
 public:
  LiveTiles(const dsl::Kernel& kernel, const std::vector<bool>& computed)
      : kernel_(kernel), computed_(computed), uses_(kernel.values.size()), last_use_(kernel.values.size()) {}

  double peak() {
    count_uses(kernel_.body);
    return peak(kernel_.body);
  }

 private:
  void count_uses(const dsl::Region& region) {
    for (const dsl::Op& op : region.ops) {
      for (dsl::ValueId id : op.operands) ++uses_[id];
      for (const dsl::Region& inner : op.regions) count_uses(inner);
    }
  }

  double bytes(const dsl::Op& op) const {
    double sum = 0;
    for (dsl::ValueId id : op.results) {
      if (!computed_[id] || (dsl::info(op.code).has(dsl::kElementwise) && uses_[id] <= 1)) continue;
      sum += tile_bytes(kernel_.type(id));
    }
    return sum;
  }

  double peak(const dsl::Region& region) {
    for (const dsl::Op& op : region.ops) {
      for (dsl::ValueId id : op.operands) last_use_[id] = &op;
      for (const dsl::Region& inner : op.regions) mark(inner, op);
    }
    double live = 0, most = 0;
    std::vector<std::pair<const dsl::Op*, double>> ends;  // where tiles die
    for (const dsl::Op& op : region.ops) {
      double inside = 0;
      for (const dsl::Region& inner : op.regions) inside = std::max(inside, peak(inner));
      const double made = bytes(op);
      live += made;
      most = std::max(most, live + inside);
      for (auto& [last, size] : ends) live -= last == &op ? size : 0;
      if (made > 0) ends.emplace_back(last_use_[op.results[0]], made);
    }
    return most;
  }

  // What an op's regions use, the op uses.
  void mark(const dsl::Region& region, const dsl::Op& user) {
    for (const dsl::Op& op : region.ops) {
      for (dsl::ValueId id : op.operands) last_use_[id] = &user;
      for (const dsl::Region& inner : op.regions) mark(inner, user);
    }
  }

  const dsl::Kernel& kernel_;
  const std::vector<bool>& computed_;
  std::vector<int> uses_;
  std::vector<const dsl::Op*> last_use_;  // an op of the region that is walked
};

double widest(const dsl::Kernel& kernel, const dsl::Region& region) {
  using enum dsl::OpCode;
  double out = 0;
  for (const dsl::Op& op : region.ops) {
    const bool adds = op.code == kDot || op.code == kDotScaled;
    const bool goes_over = op.code == kReduce || op.code == kScan || op.code == kSort;
    if (adds || goes_over) {
      for (dsl::ValueId id : adds ? op.results : op.operands) out = std::max(out, tile_bytes(kernel.type(id)));
    }
    for (const dsl::Region& inner : op.regions) out = std::max(out, widest(kernel, inner));
  }
  return out;
}

}  // namespace

double register_tile_bytes(const dsl::Kernel& kernel) { return widest(kernel, kernel.body); }

double live_tile_bytes(const dsl::Kernel& kernel, const std::vector<bool>& computed) {
  return LiveTiles(kernel, computed).peak();
}

}  // namespace kiln::autotune
