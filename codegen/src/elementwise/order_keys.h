// What sorts and topk compare: ints that order as elements do.
#pragma once

#include "elementwise/elementwise.h"

namespace kiln::codegen {

// Ints of the element's width whose unsigned order is the order of the elements, or the reverse of it. All NaN are
// equal, and the zeros are.
Value* order_keys(Builder& ir, ElementType element, bool descending, Value* x);
// The elements that have these keys, as they lie in memory, but for those that are_ambiguous.
Value* elements_of(Builder& ir, ElementType element, bool descending, Value* keys);
// i1: the element's key belongs to other elements too, and elements_of gives one of those: -0.0, and NaN of other bits
// than the usual ones. Null for ints, of which none is.
Value* are_ambiguous(Builder& ir, ElementType element, Value* x);

}  // namespace kiln::codegen
