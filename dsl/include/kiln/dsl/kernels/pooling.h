// Pools of images, channels last, with the places of what they found, and the gradient by these.
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// How many windows lie along an axis.
inline Value pooled_extent(const Value& extent, const Value& size, const Value& stride, const Value& pad) {
  return (extent + 2 * pad - size) / stride + 1;
}

// y[n, p, q, c] = the greatest of x in a window of R × S places, of which the first is (p·stride - pad, q·stride -
// pad), and index, its place h·W + w; the first of equal ones, NaN is greatest. x [N, H, W, C], y and index [N, P, Q,
// C] with P = (H + 2·pad - R)/stride + 1. Windows have a place of the image at least: pad < R, pad < S.
template <class T = f32>
const auto& max_pool2d() {
  static const Kept def =
      kernel("max_pool2d", {"x", "y", "index", "N", "H", "W", "C", "R", "S", "stride", "pad", "BLOCK=1024"},
             [](Ptr<const T> x, Ptr<T> y, Ptr<i32> index, i32 N, i32 H, i32 W, i32 C, i32 R, i32 S, i32 stride, i32 pad,
                Const BLOCK) {
               const Value lines = pooled_extent(H, R, stride, pad), columns = pooled_extent(W, S, stride, pad);
               grid(lines * N, cdiv(columns * C, BLOCK));
               const Value lane = program_id(1) * BLOCK + arange(0, BLOCK), valid = lane < columns * C;
               const Value image = program_id(0) / lines, line = program_id(0) % lines;
               const Value channel = lane % C, left = lane / C * stride - pad;
               const Value from = x + cast(image, i64_t) * H * W * C;
               Var most = full({BLOCK}, kLowest, f32_t), place = full({BLOCK}, -1, i32_t);
               for (Value r : range(0, R)) {
                 const Value h = line * stride - pad + r;
                 for (Value s : range(0, S)) {
                   const Value w = left + s, at = h * W + w;
                   const Value inside = valid & (h >= 0) & (h < H) & (w >= 0) & (w < W);
                   const Value v = cast(load(from + (cast(at, i64_t) * C + channel), {.mask = inside}), f32_t);
                   const Value is_more = (place < 0) | (v > most) | (isnan(v) & !isnan(most));
                   most = where(inside & is_more, v, most);
                   place = where(inside & is_more, at, place);
                 }
               }
               const Value to = cast(program_id(0), i64_t) * (columns * C) + lane;
               store(y + to, cast(most, element_v<T>), {.mask = valid});
               store(index + to, place, {.mask = valid});
             })
          .space({{"BLOCK", {128, 256, 512, 1024, 4096}}})
          .where("lt(pad, R)")
          .where("lt(pad, S)")
          .array("x", "N*H*W*C")
          .array("y", "N*(div(H + 2*pad - R, stride) + 1)*(div(W + 2*pad - S, stride) + 1)*C")
          .array("index", "N*(div(H + 2*pad - R, stride) + 1)*(div(W + 2*pad - S, stride) + 1)*C")
          .defaults("amd", {{"BLOCK", 512}})
          .defaults("cuda", {{"BLOCK", 512}});
  return *def;
}

// dx[n, h, w, c] = the sum of dy over the windows whose index is h·W + w. Each place looks at the windows that it is
// in: no atomics, and one order of sums.
template <class T = f32>
const auto& max_pool2d_backward() {
  static const Kept def =
      kernel("max_pool2d_backward", {"dy", "index", "dx", "N", "H", "W", "C", "R", "S", "stride", "pad", "BLOCK=1024"},
             [](Ptr<const T> dy, Ptr<const i32> index, Ptr<T> dx, i32 N, i32 H, i32 W, i32 C, i32 R, i32 S, i32 stride,
                i32 pad, Const BLOCK) {
               grid(H * N, cdiv(W * C, BLOCK));
               const Value lines = pooled_extent(H, R, stride, pad), columns = pooled_extent(W, S, stride, pad);
               const Value lane = program_id(1) * BLOCK + arange(0, BLOCK), valid = lane < W * C;
               const Value image = program_id(0) / H, h = program_id(0) % H, channel = lane % C, w = lane / C;
               const Value windows = cast(image, i64_t) * lines * columns * C, own = h * W + w;
               Var total = zeros(f32_t, {BLOCK});
               for (Value r : range(0, R)) {
                 const Value v = h + pad - r, p = v / stride;
                 const Value is_line = (v >= 0) & (v % stride == 0) & (p < lines);
                 for (Value s : range(0, S)) {
                   const Value u = w + pad - s, q = u / stride;
                   const Value inside = valid & is_line & (u >= 0) & (u % stride == 0) & (q < columns);
                   const Value at = windows + (cast(p * columns + q, i64_t) * C + channel);
                   const Value is_own = load(index + at, {.mask = inside, .other = -1}) == own;
                   total = total + cast(load(dy + at, {.mask = inside & is_own}), f32_t);
                 }
               }
               store(dx + (cast(program_id(0), i64_t) * (W * C) + lane), cast(total, element_v<T>), {.mask = valid});
             })
          .space({{"BLOCK", {128, 256, 512, 1024, 4096}}})
          .array("dy", "N*(div(H + 2*pad - R, stride) + 1)*(div(W + 2*pad - S, stride) + 1)*C")
          .array("index", "N*(div(H + 2*pad - R, stride) + 1)*(div(W + 2*pad - S, stride) + 1)*C", "0", "H*W")
          .array("dx", "N*H*W*C")
          .defaults("amd", {{"BLOCK", 512}})
          .defaults("cuda", {{"BLOCK", 512}});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
