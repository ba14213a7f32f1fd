// The kernel library. Each function traces its kernel once per process and element type and returns it; f16 and bf16
// are computed in f32. Arrays are row-major; `stride` is the distance of two rows in elements.
//
// Parameters in launch order stand above each kernel, with the Consts that a config chooses. The defaults suit CPUs.
#pragma once

#include <limits>
#include <span>

#include "kiln/dsl/kernel.h"

namespace kiln::dsl {

// A kernel of this header for f32, by name.
struct LibraryKernel {
  std::string_view name;
  const Result<Kernel>* ir;
};
std::span<const LibraryKernel> library_kernels();

namespace lang::kernels {

// out[i] = x[i] + y[i], i < n
template <class T = f32>
const auto& vector_add() {
  static const auto def = kernel("vector_add", {"x", "y", "out", "n", "BLOCK=4096"},
                                 [](Ptr<const T> x, Ptr<const T> y, Ptr<T> out, i32 n, Const BLOCK) {
                                   grid(cdiv(n, BLOCK));
                                   const Value start = program_id(0) * BLOCK;
                                   const Value total =
                                       tile(x, {n}).load({start}, {BLOCK}) + tile(y, {n}).load({start}, {BLOCK});
                                   tile(out, {n}).store({start}, total);
                                 })
                              .space({{"BLOCK", {1024, 2048, 4096, 8192, 16384}}});
  return def;
}

// y[i] = sin(x[i])² + cos(x[i])², i < n
template <class T = f32>
const auto& sin2_cos2() {
  static const auto def =
      kernel("sin2_cos2", {"x", "y", "n", "BLOCK=4096"}, [](Ptr<const T> x, Ptr<T> y, i32 n, Const BLOCK) {
        grid(cdiv(n, BLOCK));
        const Value start = program_id(0) * BLOCK;
        const Value v = cast(tile(x, {n}).load({start}, {BLOCK}), f32_t);
        const Value s = sin(v), c = cos(v);
        tile(y, {n}).store({start}, cast(s * s + c * c, element_v<T>));
      }).space({{"BLOCK", {1024, 2048, 4096, 8192, 16384}}});
  return def;
}

// y[r, c] = gelu(x[r, c] + bias[c]), the approximation with tanh
template <class T = f32>
const auto& bias_gelu() {
  static const auto def =
      kernel("bias_gelu", {"x", "bias", "y", "rows", "cols", "BR=2", "BC=4096"},
             [](Ptr<const T> x, Ptr<const T> bias, Ptr<T> y, i32 rows, i32 cols, Const BR, Const BC) {
               grid(cdiv(cols, BC), cdiv(rows, BR));
               const Value col = program_id(0) * BC, row = program_id(1) * BR;
               const Value v = cast(tile(x, {rows, cols}).load({row, col}, {BR, BC}), f32_t);
               const Value b = cast(tile(bias, {cols}).load({col}, {BC}), f32_t);
               tile(y, {rows, cols}).store({row, col}, cast(gelu_tanh(v + b), element_v<T>));
             })
          .space({{"BR", {1, 2, 4, 8, 16}}, {"BC", {256, 512, 1024, 2048, 4096}}});
  return def;
}

// y[r, :] = softmax(x[r, :]); BLOCK ≥ cols. One division a row: the exponentials are multiplied by a reciprocal.
template <class T = f32>
const auto& softmax() {
  static const auto def = kernel("softmax", {"x", "y", "rows", "cols", "stride", "BLOCK=1024"},
                                 [](Ptr<const T> x, Ptr<T> y, i32 rows, i32 cols, i32 stride, Const BLOCK) {
                                   grid(rows);
                                   const Value start = cast(program_id(0), i64_t) * stride;
                                   // Lanes beyond the row are -inf: they neither raise the maximum nor add to the sum.
                                   const float lowest = -std::numeric_limits<float>::infinity();
                                   const Value row = tile(x + start, {cols}).load({0}, {BLOCK}, {.other = lowest});
                                   tile(y + start, {cols}).store({0}, lang::softmax(row, 0));
                                 })
                              .space({{"BLOCK", {256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}}});
  return def;
}

// y[r, :] = (x[r, :] - mean) / sqrt(variance + eps) · weight + bias; BLOCK ≥ cols
template <class T = f32>
const auto& layer_norm() {
  static const auto def =
      kernel("layer_norm", {"x", "weight", "bias", "y", "rows", "cols", "stride", "eps", "BLOCK=4096"},
             [](Ptr<const T> x, Ptr<const T> weight, Ptr<const T> bias, Ptr<T> y, i32 rows, i32 cols, i32 stride,
                f32 eps, Const BLOCK) {
               grid(rows);
               const Value start = cast(program_id(0), i64_t) * stride;
               const Value lane = arange(0, BLOCK);
               const Value inside = lane < cols;
               const Value count = cast(cols, f32_t);
               const Value v = cast(load(x + start + lane, {.mask = inside, .other = 0}), f32_t);
               const Value mean = sum(v, 0) / count;
               // Lanes beyond the row hold 0, which is not their distance from the mean.
               const Value distance = where(inside, v - mean, 0);
               const Value scale = rsqrt(sum(distance * distance, 0) / count + eps);
               const Value w = cast(load(weight + lane, {.mask = inside}), f32_t);
               const Value b = cast(load(bias + lane, {.mask = inside}), f32_t);
               store(y + start + lane, cast(distance * scale * w + b, element_v<T>), {.mask = inside});
             })
          .space({{"BLOCK", {256, 512, 1024, 2048, 4096, 8192, 16384}}});
  return def;
}

// y[r] = sum of x[r, :], summed in f32
template <class T = f32>
const auto& row_sum() {
  static const auto def = kernel("row_sum", {"x", "y", "rows", "cols", "stride", "BLOCK=1024"},
                                 [](Ptr<const T> x, Ptr<T> y, i32 rows, i32 cols, i32 stride, Const BLOCK) {
                                   grid(rows);
                                   const Value row = program_id(0);
                                   const Tile line = tile(x + cast(row, i64_t) * stride, {cols});
                                   Var partial = zeros(f32_t, {BLOCK});
                                   for (Value col : range(0, cols, BLOCK)) partial += line.load({col}, {BLOCK});
                                   store(y + row, cast(sum(partial, 0), element_v<T>));
                                 })
                              .space({{"BLOCK", {256, 512, 1024, 2048, 4096}}});
  return def;
}

// A block of A·B of [M, K] and [K, N] in f32, at row m and column n.
inline Value product_block(const Value& A, const Value& B, const i32& M, const i32& N, const i32& K, const Value& m,
                           const Value& n, const Const& BM, const Const& BN, const Const& BK) {
  Var acc = zeros(f32_t, {BM, BN});
  for (Value k : range(0, K, BK).stages(3)) {
    acc = dot(tile(A, {M, K}).load({m, k}, {BM, BK}), tile(B, {K, N}).load({k, n}, {BK, BN}), acc);
  }
  return acc;
}

// C = A·B of [M, K] and [K, N]
template <class T = f32>
const auto& matmul() {
  static const auto def =
      kernel("matmul", {"A", "B", "C", "M", "N", "K", "BM=128", "BN=256", "BK=256"},
             [](Ptr<const T> A, Ptr<const T> B, Ptr<T> C, i32 M, i32 N, i32 K, Const BM, Const BN, Const BK) {
               const Value tiles_m = cdiv(M, BM), tiles_n = cdiv(N, BN);
               grid(tiles_m * tiles_n);
               auto [pm, pn] = grouped_order(program_id(0), tiles_m, tiles_n, 8);
               const Value m = pm * BM, n = pn * BN;
               const Value product = product_block(A, B, M, N, K, m, n, BM, BN, BK);
               tile(C, {M, N}).store({m, n}, cast(product, element_v<T>));
             })
          .space({{"BM", {32, 64, 128, 256}}, {"BN", {32, 64, 128, 256}}, {"BK", {64, 128, 256, 512}}});
  return def;
}

// C = gelu(A·B + bias), bias by column; gelu by its approximation with tanh
template <class T = f32>
const auto& matmul_bias_act() {
  static const auto def =
      kernel("matmul_bias_act", {"A", "B", "bias", "C", "M", "N", "K", "BM=128", "BN=256", "BK=256"},
             [](Ptr<const T> A, Ptr<const T> B, Ptr<const T> bias, Ptr<T> C, i32 M, i32 N, i32 K, Const BM, Const BN,
                Const BK) {
               const Value tiles_m = cdiv(M, BM), tiles_n = cdiv(N, BN);
               grid(tiles_m * tiles_n);
               auto [pm, pn] = grouped_order(program_id(0), tiles_m, tiles_n, 8);
               const Value m = pm * BM, n = pn * BN;
               const Value product = product_block(A, B, M, N, K, m, n, BM, BN, BK);
               const Value b = cast(tile(bias, {N}).load({n}, {BN}), f32_t);
               tile(C, {M, N}).store({m, n}, cast(gelu_tanh(product + b), element_v<T>));
             })
          .space({{"BM", {32, 64, 128, 256}}, {"BN", {32, 64, 128, 256}}, {"BK", {64, 128, 256, 512}}});
  return def;
}

}  // namespace lang::kernels
}  // namespace kiln::dsl

namespace kiln {
namespace kernels = dsl::lang::kernels;
}
