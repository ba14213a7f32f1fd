// Matrix products of factors that lie in memory in other orders: transposed, or in rows that are further apart than
// they are long.
#pragma once

#include "kiln/dsl/kernels/matmul.h"

namespace kiln::dsl::lang::kernels {

// How far two neighbouring rows of a matrix are apart, and two neighbouring columns.
struct MatrixStrides {
  Operand row, column;
};

// A block of A·B of [M, K] and [K, N], whatever their order in memory.
template <class T>
Value ordered_product_block(const Value& A, const MatrixStrides& a, const Value& B, const MatrixStrides& b,
                            const i32& M, const i32& N, const i32& K, const BlockOrigin& at, const MatmulBlock& block) {
  return sum_of_products(
      accumulator_v<T>, K, block,
      [&](const Value& k) { return tile(A, {M, K}, {a.row, a.column}).load({at.m, k}, {block.m, block.k}); },
      [&](const Value& k) { return tile(B, {K, N}, {b.row, b.column}).load({k, at.n}, {block.k, block.n}); });
}

// `a_turned`: A lies in memory as Aᵀ, [K, M]; `b_turned`: B as Bᵀ, [N, K].
template <class T, class Out>
auto turned_matmul(std::string_view name, bool a_turned, bool b_turned) {
  return product_hints<T>(kernel(name, {"A", "B", "C", "M", "N", "K", "BM=128", "BN=256", "BK=256", "GROUP=8"},
                                 [=](Ptr<const T> A, Ptr<const T> B, Ptr<Out> C, i32 M, i32 N, i32 K, Const BM,
                                     Const BN, Const BK, Const GROUP) {
                                   grid(cdiv(M, BM) * cdiv(N, BN));
                                   const BlockOrigin at = block_origin(M, N, BM, BN, GROUP);
                                   const MatrixStrides a = a_turned ? MatrixStrides{1, M} : MatrixStrides{K, 1};
                                   const MatrixStrides b = b_turned ? MatrixStrides{1, K} : MatrixStrides{N, 1};
                                   const Value product =
                                       ordered_product_block<T>(A, a, B, b, M, N, K, at, {BM, BN, BK});
                                   tile(C, {M, N}).store({at.m, at.n}, cast(product, element_v<Out>));
                                 }))
      .array("A", "M*K")
      .array("B", "K*N")
      .array("C", "M*N")
      .defaults("amd", {{"BM", 64}, {"BN", 64}, {"BK", 32}, {"num_warps", 4}});
}

// C = A·Bᵀ of A [M, K] and B [N, K], as layers store their weights; of i8 in i32
template <class T = f32, class Out = ProductOf<T>>
const auto& matmul_nt() {
  static const Kept def = turned_matmul<T, Out>("matmul_nt", false, true);
  return *def;
}

// C = Aᵀ·B of A [K, M] and B [K, N], as in the gradients of weights; of i8 in i32
template <class T = f32, class Out = ProductOf<T>>
const auto& matmul_tn() {
  static const Kept def = turned_matmul<T, Out>("matmul_tn", true, false);
  return *def;
}

// C = A·B of [M, K] and [K, N] whose rows begin lda, ldb and ldc elements after one another; of i8 in i32
template <class T = f32, class Out = ProductOf<T>>
const auto& matmul_strided() {
  static const Kept def =
      product_hints<T>(
          kernel("matmul_strided",
                 {"A", "B", "C", "M", "N", "K", "lda", "ldb", "ldc", "BM=128", "BN=256", "BK=256", "GROUP=8"},
                 [](Ptr<const T> A, Ptr<const T> B, Ptr<Out> C, i32 M, i32 N, i32 K, i32 lda, i32 ldb, i32 ldc,
                    Const BM, Const BN, Const BK, Const GROUP) {
                   grid(cdiv(M, BM) * cdiv(N, BN));
                   const BlockOrigin at = block_origin(M, N, BM, BN, GROUP);
                   const Value product = ordered_product_block<T>(A, {lda, 1}, B, {ldb, 1}, M, N, K, at, {BM, BN, BK});
                   tile(C, {M, N}, {ldc, 1}).store({at.m, at.n}, cast(product, element_v<Out>));
                 }))
          .array("A", "M*lda")
          .array("B", "K*ldb")
          .array("C", "M*ldc");
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
