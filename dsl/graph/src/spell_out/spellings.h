// The table of spellings: each a function of tensors that writes simpler primitives.
#pragma once

#include <functional>
#include <span>

#include "decompose/decompositions.h"

namespace kiln::graph {

#define KILN_SPELLING(name) std::vector<Tensor> spell_##name(const Composite& c)
KILN_SPELLING(window);
KILN_SPELLING(window_spread);
KILN_SPELLING(window_pick);
KILN_SPELLING(conv);
KILN_SPELLING(conv_input);
KILN_SPELLING(conv_weight);
KILN_SPELLING(resize);
KILN_SPELLING(resize_spread);
KILN_SPELLING(dot);
#undef KILN_SPELLING

// Places of windows along some axes, one after the other: what `windows_of` gives has them in front.
struct WindowAxis {
  int axis;
  Dim out;  // how many windows
  int64_t size, stride, low, high, dilation;
};
// How many windows there are along an axis, in the form that the rules of types give it.
Dim window_count(const Dim& extent, int64_t size, int64_t stride, int64_t low, int64_t high, int64_t dilation);
// [windows' places…, places inside…, other axes of x in order]; beyond the edges is the value.
Tensor windows_of(const Tensor& x, const std::vector<WindowAxis>& axes, const Tensor& beyond);
// x with its edges: what windows see beyond them is the value.
Tensor with_edges(const Tensor& x, const std::vector<WindowAxis>& axes, const Tensor& beyond);
// The places inside of a window, in row-major order; and what each window has at one of them, of x with its edges.
void for_each_place(const std::vector<WindowAxis>& axes, const std::function<void(const std::vector<int64_t>&)>& visit);
Tensor seen_at(const Tensor& wide, const std::vector<WindowAxis>& axes, std::span<const int64_t> place);
// The transpose of the index map: for each place of x along the axes, and each place inside of a window, the element
// of g [windows' places along these axes…] whose window has it there, or 0 where none has.
// [places of x…, places inside…, other axes of g in order]; `extents` are x's.
Tensor owners_of(const Tensor& g, const std::vector<WindowAxis>& axes, const Shape& extents);

}  // namespace kiln::graph
