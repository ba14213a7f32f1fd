// The type and shape rules of tensor_ops.def, in one place for builder, parser and verifier.
#pragma once

#include <span>
#include <vector>

#include "kiln/graph/ir.h"

namespace kiln::graph {

// Types of an op's results from its operand types (null where an optional one is left out) and attributes. The graph
// is where dims, bodies and kernels that attributes name are looked up. The error's message names the op, what is wrong
// and the shapes, without the location. Attributes may hold anything: kinds, counts and ranges are checked too.
//
// Extents that must be equal must be so for all sizes: those that are equal for some sizes only are an error that says
// so.
Result<std::vector<TensorType>> infer_types(const Graph& graph, TensorOp op,
                                            std::span<const TensorType* const> operands, const AttrList& attrs);
// Operand count and attribute kinds against the table.
Result<void> check_arity(TensorOp op, size_t operand_count, const AttrList& attrs);

}  // namespace kiln::graph
