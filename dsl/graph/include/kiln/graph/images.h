// Functions of images, made of those of functions.h, whose gradients they have. Images are [N, C, …] with one to three
// spatial axes; sizes and shapes are by spatial axis. Convolutions, plain pools and resize stand in functions.h.
#pragma once

#include "kiln/graph/functions.h"

namespace kiln::graph {

// --- pools ---
// indices: i64, the place of each value in its image of one channel, row by row.
struct Pooled {
  Tensor values, indices;
};
// The first of several that are the greatest; NaN counts as such.
Pooled max_pool_with_indices(Operand x, WindowOptions options);
// Values at the places that `indices` names in images of these spatial extents, 0 elsewhere. Of several at one place
// the last stays.
Tensor max_unpool(Operand values, Operand indices, Shape places);
// Pools to any extents: place i of `to` is made of floor(i·in/to) … ceil((i+1)·in/to) - 1.
Tensor adaptive_avg_pool(Operand x, Shape to);
Pooled adaptive_max_pool(Operand x, Shape to);

// --- edges and channels ---
// What lies beyond the edges: the image mirrored without its edge (at most extent - 1 places), the edge, or the other
// side (at most the extent).
enum class PadMode : uint8_t { kReflect, kReplicate, kCircular };
// `low` places in front and `high` behind along the last axes, of which they have as many.
Tensor pad(Operand x, PadMode mode, Ints low, Ints high);
// [N, C·r², H, W] to [N, C, H·r, W·r], and back.
Tensor pixel_shuffle(Operand x, int64_t factor);
Tensor pixel_unshuffle(Operand x, int64_t factor);
// Channel g·(C/groups) + i goes to i·groups + g.
Tensor channel_shuffle(Operand x, int64_t groups);
// [N, C, …] to [N, …, C], and back: the one place where a layout changes.
Tensor channels_last(Operand x);
Tensor channels_first(Operand x);

// --- samples at points ---
enum class SampleEdges : uint8_t { kZeros, kBorder, kReflect };
struct SampleOptions {
  ResizeMode mode = ResizeMode::kLinear;
  SampleEdges edges = SampleEdges::kZeros;
  bool corners = false;  // -1 and 1 are the centres of the outermost pixels, else their outer edges
};
// x at points of [-1, 1]: grid [N, …, S] for S spatial axes, of which the last comes first (x, y, z). kNearest rounds
// halves to even; kCubic (Keys, a = -0.75) is for two axes.
Tensor grid_sample(Operand x, Operand grid, SampleOptions options = {});
// The grid [N, …, S] of images with these extents that theta [N, S, S + 1] moves: theta·(x, y, 1) of each centre.
Tensor affine_grid(Operand theta, Shape places, bool corners = false);

// --- norms ---
// Each channel of each image by its own mean and variance; weight and bias [C].
Tensor instance_norm(Operand x, Operand weight = {}, Operand bias = {}, double eps = 1e-5);
// batch_norm whose four tensors are constants to gradients.
Tensor frozen_batch_norm(Operand x, Operand mean, Operand variance, Operand weight = {}, Operand bias = {},
                         double eps = 1e-5);
// A convolution that does what conv(x, w, bias) and batch_norm behind it do. Computed in f32 at least, and rounded to
// w's type once.
struct FoldedConv {
  Tensor w, bias;
};
FoldedConv fold_batch_norm(Operand w, Operand bias, Operand mean, Operand variance, Operand weight = {},
                           Operand shift = {}, double eps = 1e-5);
// How far apart results are: the largest distance, and ‖a - b‖ / ‖b‖ over all elements; f32 scalars.
struct Difference {
  Tensor largest, relative;
};
Difference difference(Operand a, Operand b);

}  // namespace kiln::graph
