// On the tile IR, between two ops with effects:
//
// before                       after
//   %x = load %p                 %x = load %p
//   %m = reduce %x               %w = load %q        ; under way while the reductions wait
//   %d = sub %x, %m              %m = reduce %x
//   %s = reduce %d               %d = sub %x, %m
//   %e = mul %d, %d              %e = mul %d, %d
//   %v = reduce %e               %s = reduce %d      ; neighbours, which share a barrier (reduce.cpp)
//   %w = load %q                 %v = reduce %e
//
// Loads go up as far as a thread has registers for what they bring. Kernels with products are left alone: their loads
// go through shared memory, ahead of their time already (pipeline.h).
#include "gpu/passes/gather_waits.h"

#include <algorithm>
#include <map>

#include "gpu/block/launch_shape.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

constexpr int64_t kEarlyBytes = 64;  // that a thread loads ahead of one reduction
// Reductions beside each other: their results wait in registers, and of a thread these bytes of what they reduce.
constexpr size_t kMostTogether = 32;
constexpr int64_t kReducedBytes = 512;
constexpr size_t kFarthest = 1024;  // ops behind a reduction: nothing is looked for beyond, so that each costs as much

bool is_load(const Op& op) { return op.code == OpCode::kLoad; }
bool is_reduction(const Op& op) { return op.code == OpCode::kReduce && op.regions.empty(); }
bool may_move(const Op& op) { return op.regions.empty() && (is_load(op) || is_pure(op)); }

// Ops without effects that follow each other.
class Segment {
 public:
  Segment(const dsl::Kernel& kernel, std::vector<Op>& ops, size_t begin, size_t end, int threads)
      : kernel_(kernel),
        threads_(threads),
        ops_(ops.begin() + static_cast<std::ptrdiff_t>(begin), ops.begin() + static_cast<std::ptrdiff_t>(end)),
        is_placed_(ops_.size()) {
    for (size_t i = 0; i < ops_.size(); ++i) {
      for (ValueId id : ops_[i].results) place_of_[id] = i;
    }
  }

  std::vector<Op> arranged() {
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (is_placed_[i]) continue;
      if (is_reduction(ops_[i])) place_waits_from(i, std::min(ops_.size(), i + kFarthest));
      if (!is_placed_[i]) put(i);
    }
    return std::move(out_);
  }

 private:
  // Of a thread.
  int64_t bytes_of(ValueId id) const {
    const dsl::Type& type = kernel_.type(id);
    return dsl::element_count(type) * dsl::info(type.element).bytes / threads_;
  }

  void put(size_t i) {
    is_placed_[i] = true;
    out_.push_back(ops_[i]);
  }

  // The ops of the segment that make the op's operands.
  std::vector<size_t> makers(size_t i) const {
    std::vector<size_t> out;
    for (ValueId id : ops_[i].operands) {
      if (auto found = place_of_.find(id); found != place_of_.end()) out.push_back(found->second);
    }
    return out;
  }

  // By op from `first` on, before which all are placed: whether what it needs is there, or can be computed without
  // another reduction.
  std::vector<bool> find_ready(size_t first, size_t end) const {
    std::vector<bool> out(end - first);
    for (size_t i = first; i < end; ++i) {
      out[i - first] = std::ranges::all_of(makers(i), [&](size_t maker) {
        return is_placed_[maker] || (out[maker - first] && !is_reduction(ops_[maker]));
      });
    }
    return out;
  }

  // The ops, which are from `first` to `end`, and what they need, in program order; or `only_operands`, the latter.
  void place(const std::vector<size_t>& of, bool only_operands, size_t first, size_t end) {
    std::vector<bool> needed(end - first);
    for (size_t i : of) needed[i - first] = true;
    for (size_t i = end; i-- > first;) {
      if (!needed[i - first] || is_placed_[i]) continue;
      for (size_t maker : makers(i)) {
        if (maker >= first) needed[maker - first] = true;
      }
    }
    for (size_t i : of) needed[i - first] = !only_operands;
    for (size_t i = first; i < end; ++i) {
      if (needed[i - first] && !is_placed_[i]) put(i);
    }
  }

  void place_waits_from(size_t first, size_t end) {
    const std::vector<bool> ready = find_ready(first, end);
    std::vector<size_t> loads, reductions;
    int64_t loaded = 0, reduced = 0;
    for (size_t i = first; i < end; ++i) {
      if (is_placed_[i] || !ready[i - first]) continue;
      if (is_reduction(ops_[i]) && reductions.size() < kMostTogether) {
        const int64_t more = bytes_of(ops_[i].operands[0]);
        if (!reductions.empty() && reduced + more > kReducedBytes) continue;
        reduced += more;
        reductions.push_back(i);
      }
      if (!is_load(ops_[i])) continue;
      const int64_t more = bytes_of(ops_[i].results[0]);
      if (loaded + more > kEarlyBytes) continue;
      loaded += more;
      loads.push_back(i);
    }
    place(loads, false, first, end);
    place(reductions, true, first, end);
    for (size_t i : reductions) put(i);
  }

  const dsl::Kernel& kernel_;
  const int64_t threads_;
  std::vector<Op> ops_, out_;
  std::vector<bool> is_placed_;
  std::map<ValueId, size_t> place_of_;
};

void arrange(const dsl::Kernel& kernel, dsl::Region& region, int threads) {
  std::vector<Op> out;
  for (size_t i = 0; i < region.ops.size();) {
    size_t end = i;
    while (end < region.ops.size() && may_move(region.ops[end])) ++end;
    std::ranges::move(Segment(kernel, region.ops, i, end, threads).arranged(), std::back_inserter(out));
    if (end < region.ops.size()) out.push_back(std::move(region.ops[end++]));
    i = end;
  }
  region.ops = std::move(out);
}

}  // namespace

dsl::Kernel gather_waits(dsl::Kernel kernel, int threads) {
  if (has_products(kernel.body)) return kernel;
  dsl::for_each_region_postorder(kernel, [&](dsl::Region& region) { arrange(kernel, region, threads); });
  return kernel;
}

}  // namespace kiln::codegen::gpu
