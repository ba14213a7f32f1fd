// Products by group, as grouped_matmul has them, in the other two orders: what their gradients are made of.
#pragma once

#include "kiln/dsl/kernels/matmul_orders.h"

namespace kiln::dsl::lang::kernels {

// Rows of A [M, K] times the turned matrix of their group: the first sizes[0] rows times B[0]ᵀ, the next sizes[1] times
// B[1]ᵀ, … of B [groups, N, K]. Rows of C [M, N] behind them stay as they are. groups ≤ GROUPS.
template <class T = f32>
const auto& grouped_matmul_nt() {
  static const Kept def =
      product_hints<T>(
          kernel("grouped_matmul_nt",
                 {"A", "B", "sizes", "C", "M", "N", "K", "groups", "BM=64", "BN=256", "BK=256", "GROUPS=64"},
                 [](Ptr<const T> A, Ptr<const T> B, Ptr<const i32> sizes, Ptr<ProductOf<T>> C, i32 M, i32 N, i32 K,
                    i32 groups, Const BM, Const BN, Const BK, Const GROUPS) {
                   grid((M + groups * (BM - 1)) / BM * cdiv(N, BN));
                   const auto [group, end, m, n] = grouped_block(sizes, groups, N, {BM, BN, BK}, GROUPS);
                   const Value matrix = B + cast(group, i64_t) * K * N;
                   const Value product =
                       ordered_product_block<T>(A, {K, 1}, matrix, {1, K}, M, N, K, {m, n}, {BM, BN, BK});
                   tile(C, {min(end, M), N}).store({m, n}, cast(product, element_v<ProductOf<T>>));
                 }))
          .where("le(groups, GROUPS)")
          .array("A", "M*K")
          .array("B", "groups*K*N")
          .array("sizes", "groups", "div(M, groups)", "div(M, groups) + 1")
          .array("C", "M*N")
          .defaults("amd", {{"BM", 64}, {"BN", 64}, {"BK", 32}, {"num_warps", 4}});
  return *def;
}

// C[g] = A[g]ᵀ·B[g] of each group's rows of A [M, K] and B [M, N]: the first sizes[0] ones, the next sizes[1], …;
// C [groups, K, N], zeros of a group without rows. Sizes add up to M at most. groups ≤ GROUPS, and ≤ 65535.
template <class T = f32>
const auto& grouped_matmul_tn() {
  static const Kept def =
      product_hints<T>(
          kernel("grouped_matmul_tn",
                 {"A", "B", "sizes", "C", "M", "N", "K", "groups", "BM=64", "BN=256", "BK=64", "GROUPS=64"},
                 [](Ptr<const T> A, Ptr<const T> B, Ptr<const i32> sizes, Ptr<ProductOf<T>> C, i32 M, i32 N, i32 K,
                    i32 groups, Const BM, Const BN, Const BK, Const GROUPS) {
                   grid(cdiv(K, BM) * cdiv(N, BN), groups);
                   const auto [row, column] = block_origin(K, N, BM, BN);
                   const Value group = program_id(1), size = tile(sizes, {groups}).load({0}, {GROUPS});
                   const Value before = sum(where(arange(0, GROUPS) < group, size, 0), 0);
                   const Value end = min(before + load(sizes + group), M);
                   Var acc = zeros(accumulator_v<T>, {BM, BN});
                   for (Value m : range(before, end, BK).stages(3)) {
                     const Value a = tile(A, {K, end}, {1, K}).load({row, m}, {BM, BK});
                     acc = dot(a, tile(B, {end, N}).load({m, column}, {BK, BN}), acc);
                   }
                   const Value matrix = C + cast(group, i64_t) * K * N;
                   tile(matrix, {K, N}).store({row, column}, cast(acc, element_v<ProductOf<T>>));
                 }))
          .where("le(groups, GROUPS)")
          .array("A", "M*K")
          .array("B", "M*N")
          .array("sizes", "groups", "div(M, groups)", "div(M, groups) + 1")
          .array("C", "groups*K*N")
          .defaults("amd", {{"BM", 64}, {"BN", 64}, {"BK", 32}, {"num_warps", 4}});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
