#include "model/live_tiles.h"

#include <algorithm>

#include "kiln/dsl/traits.h"
#include "kiln/dsl/uses.h"

namespace kiln::autotune {
namespace {

double tile_bytes(const dsl::Type& type) {
  if (!type.is_value() || type.is_scalar()) return 0;
  return static_cast<double>(dsl::element_count(type)) * dsl::info(type.element).bytes;
}

class LiveTiles {
 public:
  LiveTiles(const dsl::Kernel& kernel, const std::vector<bool>& computed)
      : kernel_(kernel), computed_(computed), uses_(dsl::count_uses(kernel)), last_use_(kernel.values.size()) {}

  double peak() { return peak(kernel_.body); }

 private:
  double bytes(const dsl::Op& op) const {
    double sum = 0;
    for (dsl::ValueId id : op.results) {
      if (!computed_[id] || (is_elementwise(op) && uses_[id] <= 1)) continue;
      sum += tile_bytes(kernel_.type(id));
    }
    return sum;
  }

  double peak(const dsl::Region& region) {
    for (const dsl::Op& op : region.ops) mark(op);
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
  void mark(const dsl::Op& user) {
    for_each_op(user, [&](const dsl::Op& op) {
      for (dsl::ValueId id : op.operands) last_use_[id] = &user;
    });
  }

  const dsl::Kernel& kernel_;
  const std::vector<bool>& computed_;
  const std::vector<uint32_t> uses_;
  std::vector<const dsl::Op*> last_use_;  // an op of the region that is walked
};

}  // namespace

double register_tile_bytes(const dsl::Kernel& kernel) {
  using enum dsl::OpCode;
  double widest = 0;
  dsl::for_each_op(kernel, [&](const dsl::Op& op) {
    const bool adds = family_of(op) == dsl::OpFamily::kDot;
    const bool goes_over = op.code == kReduce || op.code == kScan || op.code == kSort;
    if (!adds && !goes_over) return;
    for (dsl::ValueId id : adds ? op.results : op.operands) widest = std::max(widest, tile_bytes(kernel.type(id)));
  });
  return widest;
}

double live_tile_bytes(const dsl::Kernel& kernel, const std::vector<bool>& computed) {
  return LiveTiles(kernel, computed).peak();
}

}  // namespace kiln::autotune
