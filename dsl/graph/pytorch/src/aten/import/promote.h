// PyTorch's promotion of element types, and numbers as it takes them; beside those, what functions of calls share.
//
//   kinds        bool below int below float: of the highest that is there
//   of one kind  tensors with axes decide; without such, tensors without axes; without such, numbers (i64, f32)
//   two types    the wider; u8 with a signed one is the next signed one; f16 with bf16 is f32
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "kiln/graph/functions.h"

namespace kiln::graph::aten {

// What stands in arithmetic: a tensor, or a number.
using Term = std::variant<Tensor, bool, int64_t, double, Dim>;

ElementType promoted(ElementType a, ElementType b);
ElementType result_type(std::span<const Term* const> terms);
template <class... Terms>
ElementType common(const Terms&... terms) {
  const Term* const list[] = {&terms...};
  return result_type(list);
}
// Where ints become the default type of floats.
ElementType as_real(ElementType type);

// A number with axes or without.
bool is_tensor(const Term& term);
bool is_real(const Term& term);  // of floats
// A tensor without axes where it is a number: i1, i64 or f32.
Tensor tensor_of(const Term& term);
// As one of the type: numbers wrap to ints, and those too large for a float are infinite.
Operand as(const Term& term, ElementType type);

using Binary = Tensor (*)(Operand, Operand);
// In the terms' common type, or in `type`. Of small floats with a number that is none of theirs in f32, rounded once.
Tensor binary(Binary op, const Term& a, const Term& b, std::optional<ElementType> type = {});

// --- what several ops are computed in ---
bool is_float(const Tensor& x);
// f16 and bf16 as f32: PyTorch rounds once at the end of what is several ops here.
Tensor wide(const Tensor& x);
Term wide(const Term& x);
Tensor as(const Tensor& x, ElementType type);
Tensor like(const Tensor& y, const Tensor& x);  // of x's element type
Tensor truth(const Tensor& x);                  // i1: whether it is not 0

// --- extents ---
std::optional<int64_t> known(const Dim& dim);
bool same(const Dim& a, const Dim& b);     // for all sizes
bool at_most(const Dim& a, const Dim& b);  // for all sizes
bool same(const Shape& a, const Shape& b);
Dim product(std::span<const Dim> shape);
Shape broadcast_shape(const Shape& a, const Shape& b);
Shape with(Shape shape, int axis, Dim extent);  // in place of that axis
Shape without(Shape shape, int axis);
Shape inserted(Shape shape, int axis, Dim extent);

// Axis `from` in place of axis `to`; the others keep their order. Of what has no such axes an error.
Tensor move_axis(const Tensor& x, int from, int to);
Axes all_axes(int rank);
Axes all_but(int rank, std::span<const int> axes);
inline double as_double(int64_t number) { return static_cast<double>(number); }

}  // namespace kiln::graph::aten
