// What sorts have in common: NaN is greatest and equal to itself, -0 equals +0.
#pragma once

#include "lines.h"

namespace kiln::planner {

// So many places of a line are sorted in a tile; a GPU's compiler takes seconds for more.
inline int64_t most_in_tile(const GroupContext& context) { return context.on_cpu() ? 8192 : 2048; }

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

}  // namespace kiln::planner
