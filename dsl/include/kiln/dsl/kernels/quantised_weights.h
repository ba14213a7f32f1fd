// Products with weights of few bits, a factor for a group of them, and with operands in the OCP microscaling formats.
#pragma once

#include "kiln/dsl/kernels/matmul_f8.h"
#include "kiln/dsl/kernels/matmul_fused.h"

namespace kiln::dsl::lang::kernels {

// matmul_w8 with weights of f8e4m3 or f8e5m2.
template <class T = f32, class W = f8e4m3>
const auto& matmul_wf8() {
  static const Kept def = matmul_of_bytes<T, W>("matmul_wf8");
  return *def;
}

// As matmul_w4, with a factor for GROUP weights, 32, 64 or 128. With ZEROS=1 weight (n, k) stands for itself less
// zeros[k/GROUP, n], else less 8. BK is GROUP or an even divisor of it.
template <class T = f32>
const auto& matmul_w4_groups() {
  static const Kept def =
      widened_hints<T>(
          kernel("matmul_w4_groups",
                 {"A", "B", "scale", "zeros", "C", "M", "N", "K", "ldb", "GROUP=32", "ZEROS=1", "BM=64", "BN=128",
                  "BK=32"},
                 [](Ptr<const T> A, Ptr<const u8> B, Ptr<const T> scale, Ptr<const u8> zeros, Ptr<T> C, i32 M, i32 N,
                    i32 K, i32 ldb, Const GROUP, Const ZEROS, Const BM, Const BN, Const BK) {
                   require(GROUP == 32 || GROUP == 64 || GROUP == 128, "GROUP is 32, 64 or 128");
                   require(GROUP % BK == 0, "BK is no divisor of GROUP, the weights of a scale");
                   grid(cdiv(M, BM) * cdiv(N, BN));
                   const auto [m, n] = block_origin(M, N, BM, BN);
                   Var sums = lang::zeros(f32_t, {BN, BM});
                   for (Value pair : range(0, cdiv(K, 2), BK / 2).stages(3)) {
                     const Value k = pair * 2, group = k / GROUP;
                     const Value pairs = tile(B, {N, ldb}).load({n, pair}, {BN, BK / 2});
                     const Value codes = cast(reshape(join(pairs & 15, pairs >> 4), {BN, BK}), i8_t);
                     const Value zero = if_(
                         ZEROS == 1, [&] { return cast(row_of(zeros, group, N, N).load({n}, {BN}), i8_t); },
                         [&] { return full({BN}, 8, i8_t); });
                     const Value factor = load_f32(row_of(scale, group, N, N), {n}, {BN});
                     const Value weights = cast(codes - expand_dims(zero, 1), f32_t) * expand_dims(factor, 1);
                     const Value a = tile(A, {M, K}).load({m, k}, {BM, BK});
                     sums = dot(cast(weights, element_v<T>), trans(a), sums);
                   }
                   tile(C, {M, N}).store({m, n}, trans(cast(sums, element_v<T>)));
                 }))
          .space({{"BM", {16, 32, 64, 128}},
                  {"BN", {64, 128, 256}},
                  {"BK", {32, 64, 128}},
                  {"num_warps", {4, 8}},
                  {"num_stages", {2, 3, 4}}})
          .where("le(div(K + 1, 2), ldb)")
          .array("A", "M*K")
          .array("B", "N*ldb")
          .array("scale", "(div(31 + K, 32))*N")
          .array("zeros", "(div(31 + K, 32))*N", "0", "16")
          .array("C", "M*N")
          .defaults("amd", {{"BM", 64}, {"BN", 64}, {"BK", 32}, {"num_warps", 4}})
          .defaults("cuda", {{"BM", 64}, {"BN", 128}, {"BK", 32}, {"num_warps", 4}});
  return *def;
}

// C = A·Bᵀ of e4m3 A [M, K] and B [N, K] with a factor for each row of either, plus bias[n]. f32 adds up sums of 128
// products, since matrix units keep but 14 bits of a sum of f8.
template <class Out = bf16>
const auto& linear_f8() {
  static const Kept def =
      kernel("linear_f8", {"A", "B", "row_scale", "column_scale", "bias", "C", "M", "N", "K", "BM=128", "BN=128"},
             [](Ptr<const f8e4m3> A, Ptr<const f8e4m3> B, Ptr<const f32> row_scale, Ptr<const f32> column_scale,
                Ptr<const f32> bias, Ptr<Out> C, i32 M, i32 N, i32 K, Const BM, Const BN) {
               grid(cdiv(M, BM) * cdiv(N, BN));
               const auto [m, n] = block_origin(M, N, BM, BN);
               Var acc = zeros(f32_t, {BM, BN});
               for (Value k : range(0, K, kScaledBlock).stages(3)) {
                 const Value a = tile(A, {M, K}).load({m, k}, {BM, kScaledBlock});
                 const Value b = tile(B, {K, N}, {1, K}).load({k, n}, {kScaledBlock, BN});
                 acc = acc + dot(a, b, zeros(f32_t, {BM, BN}));
               }
               const Value rows = expand_dims(tile(row_scale, {M}).load({m}, {BM}), 1);
               const Value columns = tile(column_scale, {N}).load({n}, {BN});
               const Value out = acc * rows * columns + tile(bias, {N}).load({n}, {BN});
               tile(C, {M, N}).store({m, n}, cast(out, element_v<Out>));
             })
          .space({{"BM", {32, 64, 128}}, {"BN", {32, 64, 128}}, {"num_warps", {4, 8}}, {"num_stages", {2, 3, 4, 5, 6}}})
          .array("A", "M*K")
          .array("B", "N*K")
          .array("row_scale", "M")
          .array("column_scale", "N")
          .array("bias", "N")
          .array("C", "M*N")
          .defaults("amd", {{"BM", 32}, {"BN", 64}, {"num_warps", 8}})
          .defaults("cuda", {{"BM", 64}, {"BN", 64}, {"num_warps", 8}})
          .defaults("cuda:sm_90a", {{"BM", 128}, {"BN", 128}, {"num_warps", 8}, {"num_stages", 3}});
  return *def;
}

// --- microscaling: 32 elements along K share a power of two ---

inline constexpr int64_t kSharedScale = 32;

// q [rows, cols] and scale [rows, cols/32] of x [rows, cols], by the OCP specification: the largest power of two in a
// block's magnitudes becomes that of q's type. A block with an infinity or a NaN has the scale NaN. cols is a multiple
// of 32.
template <class T = f32, class Q = f8e4m3>
const auto& quantise_mx() {
  static const Kept def =
      kernel("quantise_mx", {"x", "q", "scale", "rows", "cols", "BLOCK=1024"},
             [](Ptr<const T> x, Ptr<Q> q, Ptr<u8> scale, i32 rows, i32 cols, Const BLOCK) {
               require(BLOCK % kSharedScale == 0, "BLOCK is no multiple of 32, the elements of a scale");
               constexpr int kTopExponent = std::is_same_v<Q, f8e4m3> ? 8 : 15;
               const Const blocks = BLOCK / kSharedScale;
               grid(rows, cdiv(cols, BLOCK));
               const Value row = program_id(0), col = program_id(1) * BLOCK;
               const Value v = reshape(load_f32(row_of(x, row, cols, cols), {col}, {BLOCK}), {blocks, kSharedScale});
               const Value exponent = cast(bitcast(reduce_max(abs(v), 1), u32_t) >> 23, i32_t);
               const Value shared = max(exponent - kTopExponent, 0);
               const Value inverse = bitcast(cast(254 - shared, u32_t) << 23, f32_t);
               const Value scaled = reshape(v * expand_dims(inverse, 1), {BLOCK});
               row_of(q, row, cols, cols).store({col}, cast(scaled, element_v<Q>));
               const Value of_blocks = cols / kSharedScale;
               const Tile scales = row_of(scale, row, of_blocks, of_blocks);
               scales.store({program_id(1) * blocks}, cast(where(exponent == 255, 255, shared), u8_t));
             })
          .space({{"BLOCK", {256, 1024, 4096}}})
          .where("le(cols, 32*div(cols, 32))")
          .array("x", "rows*cols")
          .array("q", "rows*cols")
          .array("scale", "rows*div(cols, 32)");
  return *def;
}

// C = A·Bᵀ of A [M, K] and B [N, K] in f8e4m3 or f8e5m2, or in u8 that hold two e2m1 numbers along K, that of the even
// k in the low half, with scales [M, K/32] and [N, K/32] in u8. K is a multiple of 32.
template <class E = f8e4m3, class Out = f32>
const auto& matmul_mx() {
  static const Kept def =
      kernel("matmul_mx", {"A", "B", "a_scale", "b_scale", "C", "M", "N", "K", "BM=64", "BN=64", "BK=128"},
             [](Ptr<const E> A, Ptr<const E> B, Ptr<const u8> a_scale, Ptr<const u8> b_scale, Ptr<Out> C, i32 M, i32 N,
                i32 K, Const BM, Const BN, Const BK) {
               require(BK % kSharedScale == 0, "BK is no multiple of 32, the elements of a scale");
               constexpr int kPacked = std::is_same_v<E, u8> ? 2 : 1;
               grid(cdiv(M, BM) * cdiv(N, BN));
               const auto [m, n] = block_origin(M, N, BM, BN);
               const Const depth = BK / kPacked, scales = BK / kSharedScale;
               const Value row = K / kPacked, groups = K / kSharedScale;
               Var acc = zeros(f32_t, {BM, BN});
               for (Value block : range(0, cdiv(K, BK)).stages(3)) {
                 const Value a = tile(A, {M, row}).load({m, block * depth}, {BM, depth});
                 const Value b = tile(B, {row, N}, {1, row}).load({block * depth, n}, {depth, BN});
                 const Value of_a = tile(a_scale, {M, groups}).load({m, block * scales}, {BM, scales});
                 const Value of_b = tile(b_scale, {N, groups}).load({n, block * scales}, {BN, scales});
                 acc = dot_scaled(a, of_a, b, of_b, acc);
               }
               tile(C, {M, N}).store({m, n}, cast(acc, element_v<Out>));
             })
          .space({{"BM", {32, 64, 128}},
                  {"BN", {32, 64, 128}},
                  {"BK", {64, 128, 256}},
                  {"num_warps", {4, 8}},
                  {"num_stages", {2, 3, 4}}})
          .where("le(K, 32*div(K, 32))")
          .array("A", "M*K")
          .array("B", "N*K")
          .array("a_scale", "M*div(K, 32)", "120", "130")
          .array("b_scale", "N*div(K, 32)", "120", "130")
          .array("C", "M*N")
          .defaults("amd", {{"BM", 32}, {"BN", 32}, {"BK", 64}, {"num_warps", 4}})
          .defaults("cuda", {{"BM", 64}, {"BN", 32}, {"BK", 64}, {"num_warps", 4}});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
