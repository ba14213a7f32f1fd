// The heat equation on a square plate by explicit steps: each place moves towards the mean of its neighbours; the edge
// keeps its temperature. The state is carried by a loop, and donated.
#pragma once

#include "kiln/graph/graph.h"

namespace kiln::graph::examples {

// rate = dt·k/dx², at most 1/4. `steps` passes; gives the plate and its highest temperature after each.
inline GraphDef heat() {
  const Dim size = dim("size", 3, 4096), steps = dim("steps", 0, 1 << 20);
  return graph("heat", {donated("plate", f32, {size, size}, "next"), input("rate", f32, {})},
               [&](Tensor plate, Tensor rate) {
                 const auto inner = range(1, size - 1), before = range(0, size - 2), behind = range(2, size);
                 const LoopStep done = loop(steps, {plate}, {}, [&](Tensors carried, Tensors) {
                   const Tensor u = carried[0], center = u(inner, inner);
                   const Tensor around = u(before, inner) + u(behind, inner) + u(inner, before) + u(inner, behind);
                   const Tensor next = set_at(u, {inner, inner}, center + rate * (around - 4 * center));
                   return LoopStep{{next}, {reduce_max(next)}};
                 });
                 return Outputs{{"next", done.carried[0]}, {"highest", done.stacked[0]}};
               });
}

}  // namespace kiln::graph::examples
