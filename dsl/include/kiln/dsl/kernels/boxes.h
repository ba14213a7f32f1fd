// Detection: which boxes are kept, and what images show in them. Boxes are (x1, y1, x2, y2).
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// Greedy suppression in each of `batch` images: the best of what is left is kept, and what overlaps it by more than
// `overlap` (intersection over union) and has its class goes. index [batch, K] are those kept, best first, -1 behind
// the last; count [batch] how many. Of equal scores the lower index comes first; NaN and -inf are never kept. boxes
// [batch, n, 4], scores and classes [batch, n]; n ≤ BLOCK.
inline const auto& nms() {
  static const Kept def =
      kernel("nms", {"boxes", "scores", "classes", "index", "count", "batch", "n", "overlap", "K=100", "BLOCK=4096"},
             [](Ptr<const f32> boxes, Ptr<const f32> scores, Ptr<const i32> classes, Ptr<i32> index, Ptr<i32> count,
                i32 batch, i32 n, f32 overlap, Const K, Const BLOCK) {
               grid(batch);
               const Value first = cast(program_id(0), i64_t) * n, lane = arange(0, BLOCK), valid = lane < n;
               std::array<Value, 4> box;
               for (int i = 0; i < 4; ++i) box[i] = load(boxes + (first + lane) * 4 + i, {.mask = valid});
               const auto area = [](const std::array<Value, 4>& b) { return (b[2] - b[0]) * (b[3] - b[1]); };
               const Value own_area = area(box), kind = load(classes + (first + lane), {.mask = valid});
               const Value score = load(scores + (first + lane), {.mask = valid, .other = kLowest});
               Var left = where(isnan(score), kLowest, score), found = full({}, 0, i32_t);
               Var best = reduce_max(left, 0);
               while_([&] { return (found < K) & (best > kLowest); },
                      [&] {
                        const Value at = argmax(left, 0);
                        const Value place = first + at;
                        std::array<Value, 4> by;
                        for (int i = 0; i < 4; ++i) by[i] = load(boxes + place * 4 + i);
                        const Value width = min(box[2], by[2]) - max(box[0], by[0]);
                        const Value height = min(box[3], by[3]) - max(box[1], by[1]);
                        const Value shared = max(width, 0.0f) * max(height, 0.0f);
                        const Value both = own_area + area(by) - shared;
                        const Value gone = (shared > overlap * both) & (kind == load(classes + place));
                        left = where(gone | (lane == at), kLowest, left);
                        store(index + (cast(program_id(0), i64_t) * K + found), at);
                        found = found + 1;
                        best = reduce_max(left, 0);
                      });
               const Value slot = arange(0, K);
               store(index + (cast(program_id(0), i64_t) * K + slot), full({K}, -1, i32_t), {.mask = slot >= found});
               store(count + program_id(0), found);
             })
          .space({{"BLOCK", {256, 1024, 4096, 16384}}})
          .where("le(n, BLOCK)")
          .array("boxes", "batch*n*4")
          .array("scores", "batch*n")
          .array("classes", "batch*n", "0", "8")
          .array("index", "batch*K")
          .array("count", "batch")
          .defaults("amd", {{"BLOCK", 1024}})
          .defaults("cuda", {{"BLOCK", 1024}});
  return *def;
}

// A point of an image between pixels: what the four around it weigh, and how far from the image's first element their
// channels begin. Points more than one pixel outside weigh nothing.
struct BilinearPoint {
  std::array<Value, 4> weight, begin;  // scalars
};
inline BilinearPoint bilinear_point(const Value& v, const Value& u, const Value& H, const Value& W, const Value& C) {
  const Value height = cast(H, f32_t), width = cast(W, f32_t);
  const Value inside = (v >= -1.0f) & (v <= height) & (u >= -1.0f) & (u <= width);
  const Value y = min(max(v, 0.0f), height - 1), x = min(max(u, 0.0f), width - 1);
  const Value top = cast(floor(y), i32_t), left = cast(floor(x), i32_t);
  const Value below = min(top + 1, H - 1), right = min(left + 1, W - 1);
  const Value dy = y - floor(y), dx = x - floor(x);
  const auto weigh = [&](const Value& a, const Value& b) { return where(inside, a * b, 0.0f); };
  const auto begin = [&](const Value& h, const Value& w) { return cast(h * W + w, i64_t) * C; };
  return {{weigh(1 - dy, 1 - dx), weigh(1 - dy, dx), weigh(dy, 1 - dx), weigh(dy, dx)},
          {begin(top, left), begin(top, right), begin(below, left), begin(below, right)}};
}

// A part (p, q) of box r: its first point and the distance of neighbours, and its image.
struct RoiPart {
  Value v, u, step_v, step_u, image;
};
inline RoiPart roi_part(const Value& boxes, const Value& images, const Value& r, const Value& p, const Value& q,
                        const Value& P, const Value& Q, const Value& scale, const Const& SAMPLES,
                        const Const& ALIGNED) {
  const Value half = full({}, 0.5f, f32_t);
  std::array<Value, 4> at;
  for (int i = 0; i < 4; ++i) {
    at[i] = load(boxes + cast(r, i64_t) * 4 + i) * scale - half * ALIGNED;
  }
  const Value least = 2 * half * (1 - ALIGNED);
  const auto size = [&](int low) {
    const Value length = at[low + 2] - at[low];
    return where(least > 0.0f, max(length, least), length);
  };
  const Value part_v = size(1) / cast(P, f32_t), part_u = size(0) / cast(Q, f32_t);
  const Value step_v = part_v / SAMPLES, step_u = part_u / SAMPLES;
  return {at[1] + cast(p, f32_t) * part_v + step_v * 0.5f, at[0] + cast(q, f32_t) * part_u + step_u * 0.5f, step_v,
          step_u, load(images + r)};
}

// y[r, p, q, :] = the mean of SAMPLES² bilinear samples of part (p, q) of P × Q of box r, of the image images[r] of x
// [N, H, W, C]; boxes [rois, 4] times `scale` are in pixels. ALIGNED: centres of pixels are at 1/2 (Detectron2), else
// at 0, and boxes are one pixel wide and high at least. y [rois, P, Q, C].
template <class T = f32>
const auto& roi_align() {
  static const Kept def =
      kernel("roi_align",
             {"x", "boxes", "images", "y", "H", "W", "C", "rois", "P", "Q", "scale", "SAMPLES=2", "ALIGNED=1",
              "BLOCK=256"},
             [](Ptr<const T> x, Ptr<const f32> boxes, Ptr<const i32> images, Ptr<T> y, i32 H, i32 W, i32 C, i32 rois,
                i32 P, i32 Q, f32 scale, Const SAMPLES, Const ALIGNED, Const BLOCK) {
               grid(rois * P * Q, cdiv(C, BLOCK));
               const Value part = program_id(0), r = part / (P * Q), p = part / Q % P, q = part % Q;
               const RoiPart of = roi_part(boxes, images, r, p, q, P, Q, scale, SAMPLES, ALIGNED);
               const Value from = x + cast(of.image, i64_t) * H * W * C;
               const Value channel = program_id(1) * BLOCK + arange(0, BLOCK), valid = channel < C;
               Var total = zeros(f32_t, {BLOCK});
               for (Value i : range(0, SAMPLES)) {
                 for (Value j : range(0, SAMPLES)) {
                   const BilinearPoint point =
                       bilinear_point(of.v + cast(i, f32_t) * of.step_v, of.u + cast(j, f32_t) * of.step_u, H, W, C);
                   for (int k = 0; k < 4; ++k) {
                     const Value v = load(from + (point.begin[k] + channel), {.mask = valid});
                     total = total + point.weight[k] * cast(v, f32_t);
                   }
                 }
               }
               const Value mean = total / (SAMPLES * SAMPLES);
               store(y + (cast(part, i64_t) * C + channel), cast(mean, element_v<T>), {.mask = valid});
             })
          .space({{"BLOCK", {64, 128, 256, 1024}}, {"num_warps", {1, 2, 4}}})
          .array("x", "rois*H*W*C")
          .array("boxes", "rois*4")
          .array("images", "rois", "0", "rois")
          .array("y", "rois*P*Q*C")
          .defaults("amd", {{"num_warps", 2}})
          .defaults("cuda", {{"num_warps", 2}});
  return *def;
}

// dx += the gradient of roi_align by x, by atomics: the order of additions to one pixel is not fixed. dx [N, H, W, C]
// is f32, and the caller clears it.
template <class T = f32>
const auto& roi_align_backward() {
  static const Kept def =
      kernel("roi_align_backward",
             {"dy", "boxes", "images", "dx", "H", "W", "C", "rois", "P", "Q", "scale", "SAMPLES=2", "ALIGNED=1",
              "BLOCK=256"},
             [](Ptr<const T> dy, Ptr<const f32> boxes, Ptr<const i32> images, Ptr<f32> dx, i32 H, i32 W, i32 C,
                i32 rois, i32 P, i32 Q, f32 scale, Const SAMPLES, Const ALIGNED, Const BLOCK) {
               grid(rois * P * Q, cdiv(C, BLOCK));
               const Value part = program_id(0), r = part / (P * Q), p = part / Q % P, q = part % Q;
               const RoiPart of = roi_part(boxes, images, r, p, q, P, Q, scale, SAMPLES, ALIGNED);
               const Value to = dx + cast(of.image, i64_t) * H * W * C;
               const Value channel = program_id(1) * BLOCK + arange(0, BLOCK), valid = channel < C;
               const Value slope =
                   cast(load(dy + (cast(part, i64_t) * C + channel), {.mask = valid}), f32_t) / (SAMPLES * SAMPLES);
               for (Value i : range(0, SAMPLES)) {
                 for (Value j : range(0, SAMPLES)) {
                   const BilinearPoint point =
                       bilinear_point(of.v + cast(i, f32_t) * of.step_v, of.u + cast(j, f32_t) * of.step_u, H, W, C);
                   for (int k = 0; k < 4; ++k) {
                     atomic_add(to + (point.begin[k] + channel), point.weight[k] * slope,
                                {.mask = valid, .order = MemoryOrder::kRelaxed});
                   }
                 }
               }
             })
          .space({{"BLOCK", {64, 128, 256, 1024}}, {"num_warps", {1, 2, 4}}})
          .array("dy", "rois*P*Q*C")
          .array("boxes", "rois*4")
          .array("images", "rois", "0", "rois")
          .array("dx", "rois*H*W*C")
          .defaults("amd", {{"num_warps", 2}})
          .defaults("cuda", {{"num_warps", 2}});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
