// The range of a `for` in registers of 64 bits, the same for all targets.
#pragma once

#include "elementwise/elementwise.h"

namespace kiln::codegen {

// What a loop counts: signed i64 from `start` by `step` as long as it is below `end`. Many steps behind the end it
// still does not wrap. That is the index itself where its type has fewer than 64 bits, else the number of the
// iteration.
struct LoopRange {
  Value *start, *end, *step;
  // Where iterations are counted: the first index, i64, and what it grows by; null where the index is.
  Value *first = nullptr, *stride = nullptr;

  // The index at a count, an int of its type.
  Value* index(Builder& ir, Value* count, ElementType type) const;
  // What the index grows by from one iteration to the next, i64.
  Value* growth() const { return stride ? stride : step; }
};

// From the operands of a `for` whose index has this type. A step below 1 counts as 1.
LoopRange make_loop_range(Builder& ir, ElementType type, Value* start, Value* end, Value* step);

}  // namespace kiln::codegen
