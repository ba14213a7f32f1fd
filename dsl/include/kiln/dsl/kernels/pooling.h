// Pools of images, channels last, with the places of what they found, and the gradient by these.
//
// A program has BM pixels and BC channels of its output. A window is looked at in parts of fixed size, written out:
// most windows are one part, whose values stay in registers. Larger ones are a loop over parts.
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// How many windows lie along an axis.
inline Value pooled_extent(const Value& extent, const Value& size, const Value& stride, const Value& pad) {
  return (extent + 2 * pad - size) / stride + 1;
}

// The pixels and channels of a program, of images of so many lines and columns.
struct PooledBlock {
  Value pixels, first_pixel, first_channel;
  Value valid, image, line, column;  // [BM]; the pixel is there, and where
  Value channel;                     // [1, BC]
};
inline PooledBlock pooled_block(const Value& images, const Value& lines, const Value& columns, const Value& channels,
                                const Const& BM, const Const& BC) {
  const Value pixels = images * lines * columns;
  grid(cdiv(pixels, BM), cdiv(channels, BC));
  const Value m = program_id(0) * BM, c = program_id(1) * BC, pixel = m + arange(0, BM);
  const Value row = pixel / columns, image = row / lines;
  return {pixels,
          m,
          c,
          pixel < pixels,
          image,
          row - image * lines,
          pixel - row * columns,
          expand_dims(c + arange(0, BC), 0)};
}

// What the window has of the greatest so far, and its place.
struct Found {
  Value most, place;
};

// y[n, p, q, c] = the greatest of x in a window of R × S places, of which the first is (p·stride - pad, q·stride -
// pad), and index, its place h·W + w; the first of equal ones, NaN is greatest. x [N, H, W, C], y and index [N, P, Q,
// C] with P = (H + 2·pad - R)/stride + 1. Windows have a place of the image at least: pad < R, pad < S.
template <class T = f32>
const auto& max_pool2d() {
  static const Kept def =
      kernel("max_pool2d", {"x", "y", "index", "N", "H", "W", "C", "R", "S", "stride", "pad", "BM=32", "BC=64"},
             [](Ptr<const T> x, Ptr<T> y, Ptr<i32> index, i32 N, i32 H, i32 W, i32 C, i32 R, i32 S, i32 stride, i32 pad,
                Const BM, Const BC) {
               constexpr int kPart = 3;
               const Value P = pooled_extent(H, R, stride, pad), Q = pooled_extent(W, S, stride, pad);
               const PooledBlock at = pooled_block(N, P, Q, C, BM, BC);
               const Value top = at.line * stride - pad, left = at.column * stride - pad;
               const Value begin = ((cast(at.image, i64_t) * H + top) * W + left) * C;
               // The places from (r0, s0) of the window on.
               const auto look = [&](const Value& r0, const Value& s0, Found found) {
                 for (int i = 0; i < kPart * kPart; ++i) {
                   const Value r = r0 + i / kPart, s = s0 + i % kPart, h = top + r, w = left + s;
                   const Value inside = at.valid & (h >= 0) & (h < H) & (w >= 0) & (w < W) & (r < R) & (s < S);
                   const Value from = x + expand_dims(begin + (cast(r, i64_t) * W + s) * C, 1) + at.channel;
                   const Value mask = expand_dims(inside, 1) & (at.channel < C);
                   const Value v = cast(load(from, {.mask = mask, .other = kLowest}), f32_t);
                   const Value is_more = !isnan(found.most) & !(v <= found.most);
                   found = {where(is_more, v, found.most), where(is_more, expand_dims(h * W + w, 1), found.place)};
                 }
                 return found;
               };
               const auto give = [&](const Found& found) {
                 tile(y, {at.pixels, C}).store({at.first_pixel, at.first_channel}, cast(found.most, element_v<T>));
                 tile(index, {at.pixels, C}).store({at.first_pixel, at.first_channel}, found.place);
               };
               // Where all is -inf: the first place.
               const Found none = {full({BM, BC}, kLowest, f32_t),
                                   broadcast_to(expand_dims(max(top, 0) * W + max(left, 0), 1), {BM, BC})};
               const Value zero = full({}, 0, i32_t);
               if_((R <= kPart) & (S <= kPart), [&] { give(look(zero, zero, none)); },
                   [&] {
                     Var most = none.most, place = none.place;
                     for (Value r : range(0, R, kPart)) {
                       for (Value s : range(0, S, kPart)) {
                         const Found found = look(r, s, {most, place});
                         most = found.most;
                         place = found.place;
                       }
                     }
                     give({most, place});
                   });
             })
          .space({{"BM", {4, 8, 16, 32, 64}}, {"BC", {16, 64, 256}}, {"num_warps", {2, 4, 8}}})
          .where("lt(pad, R)")
          .where("lt(pad, S)")
          .array("x", "N*H*W*C")
          .array("y", "N*(div(H + 2*pad - R, stride) + 1)*(div(W + 2*pad - S, stride) + 1)*C")
          .array("index", "N*(div(H + 2*pad - R, stride) + 1)*(div(W + 2*pad - S, stride) + 1)*C")
          .defaults("amd", {{"BM", 4}, {"num_warps", 4}})
          .defaults("cuda", {{"BM", 4}, {"num_warps", 4}});
  return *def;
}

// dx[n, h, w, c] = the sum of dy over the windows whose index is h·W + w. Each place looks at the windows that it is
// in, from the last one on: no atomics, and one order of sums.
template <class T = f32>
const auto& max_pool2d_backward() {
  static const Kept def =
      kernel("max_pool2d_backward",
             {"dy", "index", "dx", "N", "H", "W", "C", "R", "S", "stride", "pad", "BM=32", "BC=64"},
             [](Ptr<const T> dy, Ptr<const i32> index, Ptr<T> dx, i32 N, i32 H, i32 W, i32 C, i32 R, i32 S, i32 stride,
                i32 pad, Const BM, Const BC) {
               constexpr int kPart = 2;
               const Value P = pooled_extent(H, R, stride, pad), Q = pooled_extent(W, S, stride, pad);
               const PooledBlock at = pooled_block(N, H, W, C, BM, BC);
               // The last window that begins no later, which may not be there.
               const Value v = at.line + pad, u = at.column + pad, last_p = v / stride, last_q = u / stride;
               const Value begin = ((cast(at.image, i64_t) * P + last_p) * Q + last_q) * C;
               const Value own = expand_dims(at.line * W + at.column, 1);
               // The windows from so many ahead of that one on.
               const auto add = [&](const Value& i0, const Value& j0, Value total) {
                 for (int k = 0; k < kPart * kPart; ++k) {
                   const Value i = i0 + k / kPart, j = j0 + k % kPart, p = last_p - i, q = last_q - j;
                   const Value inside =
                       at.valid & (p >= 0) & (p < P) & (q >= 0) & (q < Q) & (p * stride + R > v) & (q * stride + S > u);
                   const Value from = expand_dims(begin - (cast(i, i64_t) * Q + j) * C, 1);
                   const Value mask = expand_dims(inside, 1) & (at.channel < C);
                   const Value is_own = load(index + from + at.channel, {.mask = mask, .other = -1}) == own;
                   const Value slope = cast(load(dy + from + at.channel, {.mask = mask}), f32_t);
                   total = total + where(is_own, slope, 0.0f);
                 }
                 return total;
               };
               const auto give = [&](const Value& total) {
                 tile(dx, {at.pixels, C}).store({at.first_pixel, at.first_channel}, cast(total, element_v<T>));
               };
               const Value none = zeros(f32_t, {BM, BC}), zero = full({}, 0, i32_t);
               if_((R <= kPart * stride) & (S <= kPart * stride), [&] { give(add(zero, zero, none)); },
                   [&] {
                     Var total = none;
                     for (Value i : range(0, cdiv(R, stride), kPart)) {
                       for (Value j : range(0, cdiv(S, stride), kPart)) total = add(i, j, total);
                     }
                     give(total);
                   });
             })
          .space({{"BM", {4, 8, 16, 32, 64}}, {"BC", {16, 64, 256}}, {"num_warps", {2, 4, 8}}})
          .array("dy", "N*(div(H + 2*pad - R, stride) + 1)*(div(W + 2*pad - S, stride) + 1)*C")
          .array("index", "N*(div(H + 2*pad - R, stride) + 1)*(div(W + 2*pad - S, stride) + 1)*C", "0", "H*W")
          .array("dx", "N*H*W*C")
          .defaults("amd", {{"BM", 4}, {"num_warps", 4}})
          .defaults("cuda", {{"BM", 4}, {"num_warps", 4}});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
