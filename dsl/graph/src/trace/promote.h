// Promotion of element types and broadcasting of shapes: what the C++ functions add to an IR that has neither.
//
//   number with tensor   the tensor's type, when the number is one of its values; a fraction with ints makes f32
//   int with float       the float
//   two ints             the wider; of equal width and different signedness: an error that names the cast to write
//   two floats           the wider; of equal width (f16 with bf16, the two f8): f32
//   three and more       a float where one is; of what counts then, the widest: in any order the same
//   shapes               aligned at the last axis; a missing axis or an extent of 1 stretches
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace kiln::graph {

using OperandList = std::span<const Operand* const>;

// The element type that present operands have in common. None after an error; `what` begins its message.
std::optional<ElementType> common_type(Trace& trace, OperandList operands, std::string_view what,
                                       const SourceLocation& loc);
// A number or Dim as a tensor of the type, of all those elements; an error when it is not one of the type's values.
Tensor number_tensor(Trace& trace, const Operand& number, ElementType type, const std::vector<Expr>& shape,
                     std::string_view what, const SourceLocation& loc);
// A tensor as it is, a number as a scalar of the type that it has on its own: i32 (i64 where it must be), f32. Of a
// tensor that is not usable: invalid, reported.
Tensor as_tensor(Trace& trace, const Operand& operand, std::string_view what);
// The same, with a type for numbers.
Tensor as_tensor(Trace& trace, const Operand& operand, ElementType type, std::string_view what);
// Of a usable tensor; itself where it has the type.
Tensor cast_tensor(Trace& trace, const Tensor& tensor, ElementType type, const SourceLocation& loc);
// Brought to a shape; an error when it does not broadcast to it.
Tensor broadcast_tensor(Trace& trace, const Tensor& tensor, const std::vector<Expr>& shape, std::string_view what,
                        const SourceLocation& loc);
// The shape that shapes broadcast to.
std::optional<std::vector<Expr>> common_shape(Trace& trace, std::span<const Tensor> tensors, std::string_view what,
                                              const SourceLocation& loc);
// Present operands cast to their common type, or to `type`, numbers as scalars, absent ones as Trace::absent(). Empty
// after an error.
std::vector<Tensor> promote(Trace& trace, OperandList operands, std::string_view what,
                            std::optional<ElementType> type = {});
// Operands of one type and shape. Empty after an error.
std::vector<Tensor> promote_and_broadcast(Trace& trace, OperandList operands, std::string_view what,
                                          std::optional<ElementType> type = {});
// As a float: ints become f32.
Tensor as_float(Trace& trace, const Operand& operand, std::string_view what);

// An elementwise op on promoted and broadcast operands. Invalid without a trace.
Tensor elementwise_of(TensorOp op, OperandList operands, AttrList attrs);
// The same for functions of floats.
Tensor math_of(TensorOp op, OperandList operands, AttrList attrs);
template <class... Operands>
Tensor elementwise(TensorOp op, AttrList attrs, const Operands&... operands) {
  const Operand* const list[] = {&operands...};
  return elementwise_of(op, list, std::move(attrs));
}
template <class... Operands>
Tensor math(TensorOp op, AttrList attrs, const Operands&... operands) {
  const Operand* const list[] = {&operands...};
  return math_of(op, list, std::move(attrs));
}

// An axis that may count from the end; `count` is the number of axes. None after an error.
std::optional<int64_t> resolve_axis(Trace& trace, int axis, int count, std::string_view what,
                                    const SourceLocation& loc);
// Several, each once, in the order given; none: all.
std::optional<std::vector<int64_t>> resolve_axes(Trace& trace, const std::vector<int>& axes, int count,
                                                 std::string_view what, const SourceLocation& loc);

}  // namespace kiln::graph
