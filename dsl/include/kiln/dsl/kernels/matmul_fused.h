// Matrix products that do more to their sums, or to one of their factors, than round them.
#pragma once

#include "kiln/dsl/kernels/matmul.h"
#include "kiln/target/schedule_options.h"

namespace kiln::dsl::lang::kernels {

// C = A·B + bias + R, bias by column, R [M, N]: the second layer of a block of a transformer
template <class T = f32>
const auto& matmul_bias_residual() {
  static const Kept def =
      product_hints<T>(kernel("matmul_bias_residual",
                              {"A", "B", "bias", "R", "C", "M", "N", "K", "BM=128", "BN=256", "BK=256"},
                              [](Ptr<const T> A, Ptr<const T> B, Ptr<const T> bias, Ptr<const T> R, Ptr<T> C, i32 M,
                                 i32 N, i32 K, Const BM, Const BN, Const BK) {
                                grid(cdiv(M, BM) * cdiv(N, BN));
                                const auto [m, n] = block_origin(M, N, BM, BN);
                                const Value product = product_block(A, B, M, N, K, m, n, {BM, BN, BK});
                                const Value biased = product + load_f32(tile(bias, {N}), {n}, {BN});
                                const Value total = biased + load_f32(tile(R, {M, N}), {m, n}, {BM, BN});
                                tile(C, {M, N}).store({m, n}, cast(total, element_v<T>));
                              }))
          .array("A", "M*K")
          .array("B", "K*N")
          .array("bias", "N")
          .array("R", "M*N")
          .array("C", "M*N");
  return *def;
}

// C = A·B, element (m, n) times row_scale[m] and column_scale[n], rounded to i8 or f8e4m3: to the nearest, ties to
// even, what is out of range to the ends of it.
template <class T = f32, class Out = i8>
const auto& matmul_quantise() {
  static const Kept def =
      product_hints<T>(kernel("matmul_quantise",
                              {"A", "B", "row_scale", "column_scale", "C", "M", "N", "K", "BM=128", "BN=256", "BK=256"},
                              [](Ptr<const T> A, Ptr<const T> B, Ptr<const f32> row_scale, Ptr<const f32> column_scale,
                                 Ptr<Out> C, i32 M, i32 N, i32 K, Const BM, Const BN, Const BK) {
                                grid(cdiv(M, BM) * cdiv(N, BN));
                                const auto [m, n] = block_origin(M, N, BM, BN);
                                const Value product = cast(product_block(A, B, M, N, K, m, n, {BM, BN, BK}), f32_t);
                                const Value rows = expand_dims(tile(row_scale, {M}).load({m}, {BM}), 1);
                                const Value scaled = product * rows * tile(column_scale, {N}).load({n}, {BN});
                                const Value rounded = std::is_same_v<Out, i8> ? round(scaled) : scaled;
                                tile(C, {M, N}).store({m, n}, cast(rounded, element_v<Out>));
                              }))
          .array("A", "M*K")
          .array("B", "K*N")
          .array("row_scale", "M")
          .array("column_scale", "N")
          .array("C", "M*N");
  return *def;
}

// Products with weights that are widened are made the other way round, (W·Aᵀ)ᵀ: matrix units of several warps take the
// first operand from the registers that it was widened in.
inline std::vector<SpaceAxis> widened_space() {
  using enum target::Schedule;
  return {{"BM", {16, 32, 64, 128, 256}}, {"BN", {64, 128, 256}},
          {"BK", {32, 64, 128}},          {"num_warps", {4, 8}},
          {"num_stages", {2, 3, 4}},      {"warp_specialise", target::values_of({kPlain, kPersistent})},
          {"split_k", {1, 2, 4, 8}}};
}

template <class T, class Def>
Def widened_hints(Def def) {
  ConstexprValues blocks = gpu_blocks<T>();
  return std::move(def)
      .space(widened_space())
      .defaults("amd", blocks)
      .defaults("amd:gfx1100", rdna_blocks<T>())
      .defaults("amd:gfx1200", rdna_blocks<T>())
      .defaults("cuda", blocks)
      .defaults("cuda:sm_90a", {{"num_warps", 8}, {"num_stages", 4}});
}

// A product of T with weights of one byte, a factor for each row of them.
template <class T, class W>
auto matmul_of_bytes(std::string_view name) {
  return widened_hints<T>(
             kernel(name, {"A", "B", "scale", "C", "M", "N", "K", "BM=64", "BN=128", "BK=128"},
                    [](Ptr<const T> A, Ptr<const W> B, Ptr<const f32> scale, Ptr<T> C, i32 M, i32 N, i32 K, Const BM,
                       Const BN, Const BK) {
                      grid(cdiv(M, BM) * cdiv(N, BN));
                      const BlockOrigin at = block_origin(M, N, BM, BN);
                      const Value sums = sum_of_products(
                          f32_t, K, {BN, BM, BK},
                          [&](const Value& k) { return cast(tile(B, {N, K}).load({at.n, k}, {BN, BK}), element_v<T>); },
                          [&](const Value& k) { return trans(tile(A, {M, K}).load({at.m, k}, {BM, BK})); });
                      const Value scaled = sums * expand_dims(tile(scale, {N}).load({at.n}, {BN}), 1);
                      tile(C, {M, N}).store({at.m, at.n}, trans(cast(scaled, element_v<T>)));
                    }))
      .array("A", "M*K")
      .array("B", "N*K")
      .array("scale", "N")
      .array("C", "M*N")
      .defaults("amd", {{"BM", 64}, {"BN", 64}, {"BK", 32}, {"num_warps", 4}});
}

// C = A·Bᵀ of A [M, K] and weights B [N, K] of i8, row n of which stands for itself times scale[n].
template <class T = f32>
const auto& matmul_w8() {
  static const Kept def = matmul_of_bytes<T, i8>("matmul_w8");
  return *def;
}

inline constexpr int64_t kWeightGroup = 128;

// C = A·Bᵀ of A [M, K] and weights B [N, K] of four bits, two in a byte, that of the even k in its low half; rows begin
// ldb ≥ K/2 bytes after one another. Weight (n, k) stands for itself less 8, times scale[k/128, n]. BK is 128 or an
// even divisor of it.
template <class T = f32>
const auto& matmul_w4() {
  static const Kept def =
      widened_hints<T>(kernel("matmul_w4", {"A", "B", "scale", "C", "M", "N", "K", "ldb", "BM=64", "BN=128", "BK=128"},
                              [](Ptr<const T> A, Ptr<const u8> B, Ptr<const T> scale, Ptr<T> C, i32 M, i32 N, i32 K,
                                 i32 ldb, Const BM, Const BN, Const BK) {
                                require(Const(kWeightGroup) % BK == 0,
                                        "BK is no divisor of 128, the weights of a scale");
                                grid(cdiv(M, BM) * cdiv(N, BN));
                                const auto [m, n] = block_origin(M, N, BM, BN);
                                Var sums = zeros(f32_t, {BN, BM});
                                for (Value pair : range(0, cdiv(K, 2), BK / 2).stages(3)) {
                                  const Value k = pair * 2;
                                  const Value pairs = tile(B, {N, ldb}).load({n, pair}, {BN, BK / 2});
                                  const Value codes = reshape(join(pairs & 15, pairs >> 4), {BN, BK});
                                  const Value factor = load_f32(row_of(scale, k / kWeightGroup, N, N), {n}, {BN});
                                  const Value weights = cast(cast(codes, i8_t) - 8, f32_t) * expand_dims(factor, 1);
                                  const Value a = tile(A, {M, K}).load({m, k}, {BM, BK});
                                  sums = dot(cast(weights, element_v<T>), trans(a), sums);
                                }
                                tile(C, {M, N}).store({m, n}, trans(cast(sums, element_v<T>)));
                              }))
          .where("le(div(K + 1, 2), ldb)")
          .array("A", "M*K")
          .array("B", "N*ldb")
          .array("scale", "div(127 + K, 128)*N")
          .array("C", "M*N")
          .defaults("amd", {{"BM", 64}, {"BN", 64}, {"BK", 32}, {"num_warps", 4}});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
