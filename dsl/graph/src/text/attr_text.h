// Attributes as text, for printing and drawing.
#pragma once

#include <limits>
#include <string>

#include "kiln/graph/ir.h"
#include "text/print_names.h"

namespace kiln::graph {

// "axis = 0, kind = sum": without those that have their defaults. Of the elements of a constant the first `elements`.
std::string attrs_text(TensorOp op, const AttrList& attrs, const PrintNames& names,
                       size_t elements = std::numeric_limits<size_t>::max());

// The value of one of a list.
std::string attr_text(TensorOp op, const AttrList& attrs, size_t index, const PrintNames& names, size_t elements);

}  // namespace kiln::graph
