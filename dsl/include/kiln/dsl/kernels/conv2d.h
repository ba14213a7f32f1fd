// Convolution of images, channels last.
#pragma once

#include "kiln/dsl/kernels/blocks.h"
#include "kiln/dsl/kernels/matmul.h"

namespace kiln::dsl::lang::kernels {

// For GPUs, like those of matrix products.
template <class T>
ConstexprValues convolution_blocks() {
  if (std::is_same_v<T, f32>) return {{"BM", 64}, {"BN", 64}, {"BK", 16}};
  return {{"BM", 128}, {"BN", 64}, {"BK", 64}, {"num_warps", 8}};
}

// Of f32 where nothing is known of the arrays, addresses of deeper blocks do not fit into NVIDIA's registers.
template <class T>
ConstexprValues cuda_convolution_blocks() {
  ConstexprValues out = convolution_blocks<T>();
  if (std::is_same_v<T, f32>) out["BK"] = 8;
  return out;
}

// y[n, p, q, k] = Σ over r, s, c of x[n, p·stride - pad + r, q·stride - pad + s, c] · w[k, r, s, c], 0 outside of x. x
// is [N, H, W, C], w [K, R, S, C], y [N, P, Q, K] with P = (H + 2·pad - R)/stride + 1 and Q likewise.
//
// An implicit matrix product: a row is a pixel of y, a column an output channel. For one r, what a pixel sees of x, by
// s and c, lies side by side in memory, as do the weights: the product runs over S·C elements, in blocks of BK. A block
// much longer than S·C is wasted work.
template <class T = f32>
const auto& conv2d() {
  static const auto def =
      kernel("conv2d", {"x", "w", "y", "N", "H", "W", "C", "K", "R", "S", "stride", "pad", "BM=128", "BN=64", "BK=192"},
             [](Ptr<const T> x, Ptr<const T> w, Ptr<ProductOf<T>> y, i32 N, i32 H, i32 W, i32 C, i32 K, i32 R, i32 S,
                i32 stride, i32 pad, Const BM, Const BN, Const BK) {
               const Value P = (H + 2 * pad - R) / stride + 1, Q = (W + 2 * pad - S) / stride + 1;
               const Value pixels = N * P * Q, depth = S * C;
               grid(cdiv(pixels, BM) * cdiv(K, BN));
               const auto [m, n] = block_origin(pixels, K, BM, BN);
               const Value pixel = m + arange(0, BM);
               const Value line = pixel / Q, image = line / P;
               const Value top = (line - image * P) * stride - pad, left = (pixel - line * Q) * stride - pad;
               Var acc = zeros(accumulator_v<T>, {BM, BN});
               for (Value r : range(0, R)) {
                 const Value h = top + r;
                 const Value inside = (pixel < pixels) & (h >= 0) & (h < H);
                 const Value row = x + expand_dims(((cast(image, i64_t) * H + h) * W + left) * C, 1);
                 for (Value k : range(0, depth, BK)) {
                   const Value lane = expand_dims(k + arange(0, BK), 0);
                   const Value at = expand_dims(left * C, 1) + lane;  // within the row of x
                   const Value mask = expand_dims(inside, 1) & (at >= 0) & (at < W * C) & (lane < depth);
                   const Value a = load(row + lane, {.mask = mask});
                   const Value b = tile(w + r * depth, {K, depth}, {R * depth, 1}).load({n, k}, {BN, BK});
                   acc = dot(a, trans(b), acc);
                 }
               }
               tile(y, {pixels, K}).store({m, n}, cast(acc, element_v<ProductOf<T>>));
             })
          .space({{"BM", {32, 64, 128, 256}},
                  {"BN", {32, 64, 128, 256}},
                  {"BK", {24, 64, 128, 192, 256, 384}},
                  {"num_warps", {4, 8}}})
          .array("x", "N*H*W*C")
          .array("w", "K*R*S*C")
          .array("y", "N*(div(H + 2*pad - R, stride) + 1)*(div(W + 2*pad - S, stride) + 1)*K")
          .defaults("amd", convolution_blocks<T>())
          .defaults("cuda", cuda_convolution_blocks<T>());
  return def;
}

}  // namespace kiln::dsl::lang::kernels
