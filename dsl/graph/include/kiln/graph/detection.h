// Boxes and what is selected by data, made of the functions of functions.h. How much is selected is known only as the
// graph runs: such results have room for all, and say how many count. Boxes are (x1, y1, x2, y2).
#pragma once

#include "kiln/graph/functions.h"

namespace kiln::graph {

// --- boxes ---
Tensor box_area(Operand boxes);        // […, 4] to […]
Tensor box_iou(Operand a, Operand b);  // [..., N, 4] and [..., M, 4] to [..., N, M]: intersection over union
struct RoiOptions {
  int64_t height = 7, width = 7;  // of the result
  double scale = 1;               // from a box's coordinates to places of x
  int64_t samples = 2;            // points along each axis of a part
  bool aligned = true;            // centres of pixels are at 1/2; else at 0, and boxes are 1 wide and high at least
};
// The mean of bilinear samples of each part of each box (He and others 2017): x [N, C, H, W], boxes [R, 4] of the
// images numbered [R]; [R, C, height, width].
Tensor roi_align(Operand x, Operand boxes, Operand images, RoiOptions options = {});
// indices: i64 [B, limit], the best first, -1 behind the last; count: i64 [B].
struct KeptBoxes {
  Tensor indices, count;
};
// Of boxes [B, N, 4] by scores [B, N]: the best is kept, and those of its class that overlap it by more than `overlap`
// are left out; of what is left the best is next, `limit` times. Classes are ints [B, N]; left out: one. Of equal
// scores the lower index comes first; a box whose score is NaN or -inf is never kept.
KeptBoxes nms(Operand boxes, Operand scores, int64_t limit, double overlap = 0.5, Operand classes = {});

// --- selection ---
// The elements of x where the mask (of its shape) holds, in row-major order, [n] for x of n elements; those behind
// `count`, an i64 scalar, are `fill`.
struct Selected {
  Tensor values, count;
};
Selected masked_select(Operand x, Operand mask, Operand fill = 0);
// Where x is not 0: i64 [n, rank], -1 behind the last.
Selected nonzero(Operand x);
// The different values of x in ascending order, [n], 0 behind the last; for each of x its number among them; how often
// each is there, i64 [n]. A NaN is equal to none.
struct UniqueValues {
  Tensor values, inverse, counts, count;
};
UniqueValues unique(Operand x);
// The number of `edges` [n], which do not fall, that are below each value (right: not above it), i64. NaN is greatest.
Tensor searchsorted(Operand edges, Operand values, bool right = false);
// numpy.digitize and torch.bucketize: the same with the values in front.
Tensor bucketize(Operand values, Operand edges, bool right = false);

// --- sums by place ---
enum class SegmentKind : uint8_t { kSum, kMean, kMin, kMax, kProd };
// Rows offsets[s] … offsets[s+1]-1 of x [n, …] combined, [S, …] of offsets [S + 1], which do not fall. An empty
// segment is 0, a product 1.
Tensor segment_reduce(Operand x, Operand offsets, SegmentKind kind);
// scatter by kinds that have a mean too, and that leave out what was there where something is put.
Tensor scatter_reduce(Operand x, Operand index, Operand values, int axis, SegmentKind kind, bool include_self = true);

}  // namespace kiln::graph
