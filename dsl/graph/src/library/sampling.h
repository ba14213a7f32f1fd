// Values of images at points between pixels, by index and weights.
#pragma once

#include "kiln/graph/images.h"

namespace kiln::graph {

// A pixel that a point is made of along one axis: its i64 place, within the axis, and its weight.
struct Tap {
  Tensor place, weight;
};
// The two neighbours of places in [0, extent - 1].
std::vector<Tap> linear_taps(const Tensor& place, const Dim& extent);
// The weighted sum over all combinations of taps, by spatial axis of x [N, C, …], in the image whose number `image`
// has. All have the shape of the points; gives that shape, then C.
Tensor sum_of_taps(const Tensor& x, const Tensor& image, const std::vector<std::vector<Tap>>& by_axis);

}  // namespace kiln::graph
