// What sorts have in common: NaN is greatest and equal to itself, -0 equals +0.
#pragma once

#include "lines.h"

namespace kiln::planner {

// So many places of a line are sorted in a tile. A GPU's compiler takes seconds for more. A CPU's kernel sorts by
// digits, so that a line of any length costs the same for each place; where the extent is not known, all places of the
// tile cost something.
inline int64_t most_in_tile(const GroupContext& context, const Expr& extent) {
  if (!context.on_cpu()) return 4096;
  return extent.as_constant() ? int64_t{1} << 20 : 8192;
}

// Of a kernel that sorts so many elements at once: on GPUs four a thread, since a step with more goes on within
// threads.
void set_sort_warps(dsl::Kernel& kernel, int64_t elements);

// Whether a comes before b.
lang::Value is_less(const lang::Value& a, const lang::Value& b, ElementType element);

// The type that elements are compared in: f8 has no infinities, or loses them in casts, and is ordered in f32.
ElementType key_type(ElementType element);
lang::Value element_of_key(const lang::Value& key, ElementType element);
// What no key comes behind.
lang::Value last_key(ElementType key, bool descending);

struct SortedAxis {
  size_t axis;
  bool descending;
};
// Of lines of any extent; the results have the first of each line.
Result<WrittenGroup> write_merge_sort(const GroupContext& context, SortedAxis along);

// The parts of a long line, of which each gives `count` candidates; temporaries have them line by line, part by part.
struct TopkParts {
  int64_t length = 1;  // of a part
  int64_t count = 1;
  Expr lines = Expr(1), parts = {};

  Expr candidates() const { return parts * Expr(count); }  // of a line
};
// None where lines are many, or short.
std::optional<TopkParts> topk_parts(const GroupContext& context, std::span<const Expr> shape, size_t along,
                                    int64_t count);
// Into the first temporary keys, into the second their places in the line.
Result<WrittenKernel> write_topk_parts(const GroupContext& context, const TopkParts& parts, SortedAxis along);
// The number of the line that coordinates are in.
Expr line_of(const Coords& coords, std::span<const Expr> shape, size_t along);

}  // namespace kiln::planner
