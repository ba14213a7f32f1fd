#include "memory_plan.h"

#include <algorithm>
#include <numeric>

#include "kiln/graph/extents.h"
#include "kiln/graph/plan.h"

namespace kiln::planner {

using dsl::AtomKind;
using dsl::Expr;

namespace {

Expr aligned(const Expr& bytes) {
  const Expr unit(graph::kArenaAlignment);
  if (const auto number = bytes.as_constant()) {
    return (*number + graph::kArenaAlignment - 1) / graph::kArenaAlignment * graph::kArenaAlignment;
  }
  return Expr::apply(AtomKind::kDiv, bytes + graph::kArenaAlignment - 1, unit) * unit;
}

bool overlap(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

ArenaPlan best_fit(std::span<const Lifetime> lifetimes) {
  ArenaPlan out;
  out.offsets.resize(lifetimes.size());
  std::vector<int64_t> sizes, offsets(lifetimes.size());
  for (const Lifetime& each : lifetimes) sizes.push_back(*aligned(each.bytes).as_constant());
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  int64_t total = 0;
  std::vector<size_t> placed;  // sorted by offset
  for (const size_t each : order) {
    int64_t offset = 0, best = -1, best_gap = INT64_MAX;
    for (const size_t other : placed) {
      if (!overlap(lifetimes[each], lifetimes[other])) continue;
      const int64_t gap = offsets[other] - offset;
      if (gap >= sizes[each] && gap < best_gap) {
        best = offset;
        best_gap = gap;
      }
      offset = std::max(offset, offsets[other] + sizes[other]);
    }
    offsets[each] = best >= 0 ? best : offset;
    total = std::max(total, offsets[each] + sizes[each]);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), each,
                                   [&](size_t a, size_t b) { return offsets[a] < offsets[b]; }),
                  each);
  }
  for (size_t i = 0; i < lifetimes.size(); ++i) out.offsets[i] = Expr(offsets[i]);
  out.bytes = Expr(total);
  return out;
}

struct Slot {
  Expr bytes;
  uint32_t free_from = 0;  // the first launch that may write to it
};

ArenaPlan by_slots(std::span<const graph::DimInfo> dims, std::span<const Lifetime> lifetimes) {
  std::vector<Slot> slots;
  std::vector<size_t> slot_of;
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].first < lifetimes[b].first; });
  slot_of.resize(lifetimes.size());
  for (const size_t each : order) {
    const Lifetime& value = lifetimes[each];
    const Expr bytes = aligned(value.bytes);
    size_t chosen = slots.size();
    int rank = 0;  // 3: of this size, 2: surely larger, 1: surely smaller
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].free_from > value.first) continue;
      const int here = slots[i].bytes == bytes                                             ? 3
                       : graph::at_most(dims, bytes, slots[i].bytes) == graph::Known::kYes ? 2
                       : graph::at_most(dims, slots[i].bytes, bytes) == graph::Known::kYes ? 1
                                                                                           : 0;
      if (here > rank) {
        rank = here;
        chosen = i;
      }
    }
    if (chosen == slots.size()) slots.push_back({bytes, 0});
    if (rank == 1) slots[chosen].bytes = bytes;
    slots[chosen].free_from = value.last + 1;
    slot_of[each] = chosen;
  }
  ArenaPlan out;
  std::vector<Expr> starts;
  for (const Slot& slot : slots) {
    starts.push_back(out.bytes);
    out.bytes = out.bytes + slot.bytes;
  }
  for (const size_t slot : slot_of) out.offsets.push_back(starts[slot]);
  return out;
}

}  // namespace

ArenaPlan plan_arena(std::span<const graph::DimInfo> dims, std::span<const Lifetime> lifetimes) {
  const bool all_known = std::all_of(lifetimes.begin(), lifetimes.end(),
                                     [](const Lifetime& each) { return each.bytes.as_constant().has_value(); });
  return all_known ? best_fit(lifetimes) : by_slots(dims, lifetimes);
}

}  // namespace kiln::planner
