// Windows over the last axes: what pools, their transposes and columns read of a call.
#pragma once

#include "aten/import/arguments.h"

namespace kiln::graph::aten {

// By spatial axis. `high` has more than `low` where ceil_mode lets a window begin within.
struct Pool {
  Ints size, stride, low, high, dilation;
  bool wider = false;  // whether `high` is another than `low`
};
// kernel_size, stride (left out or empty: the size), padding, dilation, ceil_mode. `spatial`: the last extents, which
// ceil_mode asks for.
Pool pool_of(Arguments& arguments, const Shape& spatial);
// The last extents.
Shape spatial_of(const Tensor& x, int axes);
// How many places a window has along an axis.
Dim places(const Dim& extent, int64_t size, int64_t stride, int64_t low, int64_t high, int64_t dilation);
// As options of an op over all axes, of which the first `front` have windows of one.
WindowOptions over_all(const Pool& pool, size_t front);

}  // namespace kiln::graph::aten
