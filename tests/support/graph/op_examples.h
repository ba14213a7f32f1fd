// The examples of tensor_ops.def as whole graphs.
#pragma once

#include <string>

#include "kiln/graph/ops.h"

namespace kiln::graph {

// The `.kg` text of a graph whose only node, but for those of its bodies, is the example of the op. "" where the row
// has no entry in the table of op_examples.cpp and is not elementwise.
std::string example_graph(TensorOp op);

}  // namespace kiln::graph
