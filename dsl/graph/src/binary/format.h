// The layout of the binary form of graphs, shared by its writer and its reader. All of it is CBOR in deterministic
// encoding; arrays stand for records, so that no order of keys is left open.
//
//   graph     [tag, dims, op names, types, attribute lists, kernels, bodies, files]
//     dim       [name, low, high, multiple]
//     op name   of the table, in the order of their first node: numbers of the table are no part of the form
//     type      [element, extent…]
//     attribute list  [attribute…], each [kind, value] by the alternative of Attr: int · f64's bits · expression ·
//               [expression…] · [int…] · element · literal's bits · [bytes an element, bytes], little-endian, of as few
//               bytes as hold all · text. The empty list, number 0, is not written
//     kernel    [name, bytes of encode_kernel, [argument…], [type…], [type…], gradient + 1 or 0]; a type is a record
//               as above; an argument is [0, operand], [1, result] or [2, expression]. Behind that, of a kernel with
//               code of the user's own, the codes (binary/custom_code.h)
//     body      [name, inputs, outputs, nodes, names, locations of inputs, locations of nodes]; the first is main
//       input     [name, type, the output it is donated to + 1 or 0]
//       output    [name, value]
//       node      [op, attribute list, [operand + 1, or 0…], [result's type…]]
//       names     [value, name, …]
//       locations [file, line, column, …], or [] where none is known
//   expression  as in kiln/dsl/expr_binary.h, over dims
//
// Values have no numbers of their own: inputs come first, then results in the order of nodes.
#pragma once

#include <vector>

#include "kiln/dsl/cbor_writer.h"
#include "kiln/graph/ir.h"

namespace kiln::graph {

inline constexpr const char* kGraphTag = "kiln-graph-1";
// Alternatives of Attr, in its order.
enum class AttrForm : uint8_t { kInt, kFloat, kExpr, kShape, kInts, kElement, kLiteral, kData, kString };

// encode.cpp
void write_type(const TensorType& type, dsl::CborWriter& out);
void write_attrs(const AttrList& attrs, dsl::CborWriter& out);
// All but its gradient and its codes.
void write_kernel_fields(const TileKernel& kernel, dsl::CborWriter& out);
// Numbers of the values of a body in the order of their definition.
std::vector<ValueId> definition_order(const Body& body);

}  // namespace kiln::graph
