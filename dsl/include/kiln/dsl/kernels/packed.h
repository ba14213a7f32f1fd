// Products with weights that were packed ahead, once for all launches: `pack_weights` puts B [K, N] into panels of BN
// columns, [cdiv(N, BN), K, BN] with zeros behind column N-1, whose rows follow each other as a CPU reads them. The
// kernels here take such panels in the place of weights, with the same BN.
#pragma once

#include "kiln/dsl/kernels/conv2d.h"
#include "kiln/dsl/kernels/matmul.h"

namespace kiln::dsl::lang::kernels {

// The panel of columns n to n+BN-1, n a multiple of BN.
inline Tile panel_of(const Value& panels, const Value& n, const Value& K, const Const& BN) {
  return tile(panels + cast(n, i64_t) * K, {K, BN});
}

// Element (k, n) of B lies k·row + n·column elements behind its first one: of a row-major [K, N] row = N and column =
// 1, of one stored by columns ([N, K], or the filters of a convolution) row = 1 and column = K.
template <class T = f32>
const auto& pack_weights() {
  static const auto def =
      kernel("pack_weights", {"B", "panels", "N", "K", "row", "column", "BN=64", "BK=64"},
             [](Ptr<const T> B, Ptr<T> panels, i32 N, i32 K, i32 row, i32 column, Const BN, Const BK) {
               grid(cdiv(K, BK), cdiv(N, BN));
               const Value k = program_id(0) * BK, n = program_id(1) * BN;
               const Value block = tile(B, {K, N}, {row, column}).load({k, n}, {BK, BN});
               panel_of(panels, n, K, BN).store({k, 0}, block);
             })
          .space({{"BK", {16, 32, 64, 128}}})
          .array("B", "(K - 1)*row + (N - 1)*column + 1")
          .array("panels", "div(BN + N - 1, BN)*BN*K")
          .defaults("amd", {{"BK", 32}})
          .defaults("cuda", {{"BK", 32}});
  return def;
}

// A block of A·B at row m and column n, B packed.
inline Value packed_product_block(const Value& A, const Value& panels, const Value& M, const Value& K, const Value& m,
                                  const Value& n, const BlockShape& block) {
  const Tile panel = panel_of(panels, n, K, block.n);
  Var acc = zeros(A.element() == i8_t ? i32_t : f32_t, {block.m, block.n});
  for (Value k : range(0, K, block.k).stages(3)) {
    acc = dot(tile(A, {M, K}).load({m, k}, {block.m, block.k}), panel.load({k, 0}, {block.k, block.n}), acc);
  }
  return acc;
}

// Columns one after the other, which share their block of A: going on to the next panel costs no packing.
inline BlockOrigin packed_block_origin(const Value& N, const Const& BM, const Const& BN) {
  const Value columns = cdiv(N, BN), row = program_id(0) / columns;
  return {row * BM, (program_id(0) - row * columns) * BN};
}

inline std::vector<SpaceAxis> packed_space() {
  return {{"BM", {32, 64, 128, 256, 512}}, {"BK", {32, 64, 128, 256, 512, 1024}}, {"num_warps", {4, 8}}};
}

// C = A·B
template <class T = f32>
const auto& matmul_packed() {
  static const auto def = kernel("matmul_packed", {"A", "panels", "C", "M", "N", "K", "BM=256", "BN=64", "BK=256"},
                                 [](Ptr<const T> A, Ptr<const T> panels, Ptr<ProductOf<T>> C, i32 M, i32 N, i32 K,
                                    Const BM, Const BN, Const BK) {
                                   grid(cdiv(M, BM) * cdiv(N, BN));
                                   const auto [m, n] = packed_block_origin(N, BM, BN);
                                   const Value product = packed_product_block(A, panels, M, K, m, n, {BM, BN, BK});
                                   tile(C, {M, N}).store({m, n}, cast(product, element_v<ProductOf<T>>));
                                 })
                              .space(packed_space())
                              .array("A", "M*K")
                              .array("panels", "div(BN + N - 1, BN)*BN*K")
                              .array("C", "M*N")
                              .defaults("amd", {{"BM", 64}, {"BK", 32}})
                              .defaults("cuda", {{"BM", 128}, {"BK", 32}});
  return def;
}

// C = gelu(A·B + bias), gelu by its approximation with tanh
template <class T = f32>
const auto& matmul_bias_act_packed() {
  static const auto def =
      kernel("matmul_bias_act_packed", {"A", "panels", "bias", "C", "M", "N", "K", "BM=256", "BN=64", "BK=256"},
             [](Ptr<const T> A, Ptr<const T> panels, Ptr<const T> bias, Ptr<T> C, i32 M, i32 N, i32 K, Const BM,
                Const BN, Const BK) {
               grid(cdiv(M, BM) * cdiv(N, BN));
               const auto [m, n] = packed_block_origin(N, BM, BN);
               const Value product = packed_product_block(A, panels, M, K, m, n, {BM, BN, BK});
               const Value b = load_f32(tile(bias, {N}), {n}, {BN});
               tile(C, {M, N}).store({m, n}, cast(gelu_tanh(product + b, accuracy<T>()), element_v<T>));
             })
          .space(packed_space())
          .array("A", "M*K")
          .array("panels", "div(BN + N - 1, BN)*BN*K")
          .array("bias", "N")
          .array("C", "M*N")
          .defaults("amd", {{"BM", 64}, {"BK", 32}})
          .defaults("cuda", {{"BM", 128}, {"BK", 32}});
  return def;
}

// conv2d with filters packed as the columns of a matrix [R·S·C, K]: pack_weights(w, panels, K, R·S·C, 1, R·S·C).
template <class T = f32>
const auto& conv2d_packed() {
  static const auto def =
      kernel("conv2d_packed",
             {"x", "panels", "y", "N", "H", "W", "C", "K", "R", "S", "stride", "pad", "BM=256", "BN=64", "BK=192"},
             [](Ptr<const T> x, Ptr<const T> panels, Ptr<ProductOf<T>> y, i32 N, i32 H, i32 W, i32 C, i32 K, i32 R,
                i32 S, i32 stride, i32 pad, Const BM, Const BN, Const BK) {
               const Value P = (H + 2 * pad - R) / stride + 1, Q = (W + 2 * pad - S) / stride + 1;
               const Value pixels = N * P * Q, depth = S * C;
               grid(cdiv(pixels, BM) * cdiv(K, BN));
               const auto [m, n] = packed_block_origin(K, BM, BN);
               const ConvolvedPixels at = convolved_pixels(m + arange(0, BM), pixels, P, Q, stride, pad, H, W, C);
               const Value panel = panels + cast(n, i64_t) * (R * depth);
               const Value sums =
                   convolved_block(x, at, {H, W, C}, R, depth, {BM, BN, BK}, [&](const Value& r, const Value& k) {
                     return tile(panel + cast(r, i64_t) * (depth * BN), {depth, BN}).load({k, 0}, {BK, BN});
                   });
               tile(y, {pixels, K}).store({m, n}, cast(sums, element_v<ProductOf<T>>));
             })
          .space({{"BM", {32, 64, 128, 256, 512}}, {"BK", {24, 64, 128, 192, 256, 384}}, {"num_warps", {4, 8}}})
          .array("x", "N*H*W*C")
          .array("panels", "div(BN + K - 1, BN)*BN*R*S*C")
          .array("y", "N*(div(H + 2*pad - R, stride) + 1)*(div(W + 2*pad - S, stride) + 1)*K")
          .defaults("amd", {{"BM", 64}, {"BK", 16}})
          .defaults("cuda", {{"BM", 64}, {"BK", 8}});
  return def;
}

}  // namespace kiln::dsl::lang::kernels
