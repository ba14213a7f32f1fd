#include "live_tiles.h"

#include <algorithm>

namespace kiln::autotune {
namespace {

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
      const dsl::Type& type = kernel_.type(id);
      if (!computed_[id] || !type.is_value() || type.is_scalar()) continue;
      if (dsl::info(op.code).has(dsl::kElementwise) && uses_[id] <= 1) continue;
      sum += static_cast<double>(dsl::element_count(type)) * dsl::info(type.element).bytes;
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

}  // namespace

double live_tile_bytes(const dsl::Kernel& kernel, const std::vector<bool>& computed) {
  return LiveTiles(kernel, computed).peak();
}

}  // namespace kiln::autotune
