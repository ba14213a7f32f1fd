// Products with weights that were packed ahead, once for all launches, as a CPU reads them: `pack_weights` puts B [K,
// N] into panels of BN columns, whose rows follow each other. The kernels here take such panels in the place of
// weights, with the same BN.
//
// A processor multiplies several numbers of a small type at once, neighbours along K: a unit of these, UNIT of the
// type, lies together. Panels are [cdiv(N, BN), cdiv(K, UNIT), BN, UNIT] with zeros behind column N-1 and row K-1.
#pragma once

#include "kiln/dsl/kernels/conv2d.h"
#include "kiln/dsl/kernels/matmul.h"

namespace kiln::dsl::lang::kernels {

// Two of bf16, four bytes; else one.
template <class T>
inline constexpr int packed_unit_v = std::is_same_v<T, i8>     ? 4
                                     : std::is_same_v<T, bf16> ? 2
                                                               : 1;

// So many rows of K, the last unit filled up.
template <class T>
Value packed_depth(const Value& K) {
  constexpr int UNIT = packed_unit_v<T>;
  return UNIT == 1 ? K : cdiv(K, UNIT) * UNIT;
}

// Rows k to k+BK-1 of a panel of `depth` rows, [BK, BN]; k and BK are multiples of the unit.
template <class T>
Value load_panel(const Value& panel, const Value& depth, const Value& k, const Const& BK, const Const& BN) {
  constexpr int UNIT = packed_unit_v<T>;
  if (UNIT == 1) return tile(panel, {depth, BN}).load({k, 0}, {BK, BN});
  require(BK % UNIT == 0, "BK is no multiple of the numbers in a unit of packed weights");
  const Value units = tile(panel, {depth / UNIT, BN, UNIT}).load({k / UNIT, 0, 0}, {BK / UNIT, BN, UNIT});
  return reshape(permute(units, {0, 2, 1}), {BK, BN});
}
template <class T>
void store_panel(const Value& panel, const Value& depth, const Value& k, const Value& block, const Const& BK,
                 const Const& BN) {
  constexpr int UNIT = packed_unit_v<T>;
  if (UNIT == 1) return tile(panel, {depth, BN}).store({k, 0}, block);
  require(BK % UNIT == 0, "BK is no multiple of the numbers in a unit of packed weights");
  const Value units = permute(reshape(block, {BK / UNIT, UNIT, BN}), {0, 2, 1});
  tile(panel, {depth / UNIT, BN, UNIT}).store({k / UNIT, 0, 0}, units);
}

// The elements of panels of `columns` columns and `depth` rows, as an array's size.
template <class T>
std::string panel_elements(const std::string& columns, const std::string& depth) {
  const std::string unit = std::to_string(packed_unit_v<T>), more = std::to_string(packed_unit_v<T> - 1);
  const std::string rows = packed_unit_v<T> == 1 ? depth : "div(" + depth + " + " + more + ", " + unit + ")*" + unit;
  return "div(BN + " + columns + " - 1, BN)*BN*" + rows;
}

// Element (k, n) of B lies k·row + n·column elements behind its first one: of a row-major [K, N] row = N and column =
// 1, of one stored by columns ([N, K], or the filters of a convolution) row = 1 and column = K.
template <class T = f32>
const auto& pack_weights() {
  static const Kept def =
      kernel("pack_weights", {"B", "panels", "N", "K", "row", "column", "BN=64", "BK=64"},
             [](Ptr<const T> B, Ptr<T> panels, i32 N, i32 K, i32 row, i32 column, Const BN, Const BK) {
               grid(cdiv(K, BK), cdiv(N, BN));
               const Value k = program_id(0) * BK, n = program_id(1) * BN, depth = packed_depth<T>(K);
               const Value block = tile(B, {K, N}, {row, column}).load({k, n}, {BK, BN});
               store_panel<T>(panels + cast(n, i64_t) * depth, depth, k, block, BK, BN);
             })
          .space({{"BK", {16, 32, 64, 128}}})
          .array("B", "(K - 1)*row + (N - 1)*column + 1")
          .array("panels", panel_elements<T>("N", "K"))
          .defaults("amd", {{"BK", 32}})
          .defaults("cuda", {{"BK", 32}});
  return *def;
}

// A block of A·B at row m and column n, B packed.
template <class T>
Value packed_product_block(const Value& A, const Value& panels, const Value& M, const Value& K, const Value& m,
                           const Value& n, const MatmulBlock& block) {
  const Value depth = packed_depth<T>(K), panel = panels + cast(n, i64_t) * depth;
  Var acc = zeros(accumulator_v<T>, {block.m, block.n});
  for (Value k : range(0, K, block.k).stages(3)) {
    const Value b = load_panel<T>(panel, depth, k, block.k, block.n);
    acc = dot(tile(A, {M, K}).load({m, k}, {block.m, block.k}), b, acc);
  }
  return acc;
}

// By default columns follow one another, which share their block of A: going on to the next panel costs no packing.
inline std::vector<SpaceAxis> packed_space() {
  return {{"BM", {32, 64, 128, 256, 512}}, {"BK", {32, 64, 128, 256, 512, 1024}}, {"num_warps", {4, 8}}};
}

// C = A·B
template <class T = f32>
const auto& matmul_packed() {
  static const Kept def =
      kernel("matmul_packed", {"A", "panels", "C", "M", "N", "K", "BM=256", "BN=64", "BK=256", "GROUP=1"},
             [](Ptr<const T> A, Ptr<const T> panels, Ptr<ProductOf<T>> C, i32 M, i32 N, i32 K, Const BM, Const BN,
                Const BK, Const GROUP) {
               grid(cdiv(M, BM) * cdiv(N, BN));
               const auto [m, n] = block_origin(M, N, BM, BN, GROUP);
               const Value product = packed_product_block<T>(A, panels, M, K, m, n, {BM, BN, BK});
               tile(C, {M, N}).store({m, n}, cast(product, element_v<ProductOf<T>>));
             })
          .space(packed_space())
          .space("cpu", {{"GROUP", {1, 8, 64}}})
          .array("A", "M*K")
          .array("panels", panel_elements<T>("N", "K"))
          .array("C", "M*N")
          .defaults("amd", {{"BM", 64}, {"BK", 32}})
          .defaults("cuda", {{"BM", 128}, {"BK", 32}});
  return *def;
}

// C = gelu(A·B + bias), gelu by its approximation with tanh
template <class T = f32>
const auto& matmul_bias_act_packed() {
  static const Kept def =
      kernel("matmul_bias_act_packed",
             {"A", "panels", "bias", "C", "M", "N", "K", "BM=256", "BN=64", "BK=256", "GROUP=1"},
             [](Ptr<const T> A, Ptr<const T> panels, Ptr<const T> bias, Ptr<T> C, i32 M, i32 N, i32 K, Const BM,
                Const BN, Const BK, Const GROUP) {
               grid(cdiv(M, BM) * cdiv(N, BN));
               const auto [m, n] = block_origin(M, N, BM, BN, GROUP);
               const Value product = packed_product_block<T>(A, panels, M, K, m, n, {BM, BN, BK});
               const Value b = load_f32(tile(bias, {N}), {n}, {BN});
               tile(C, {M, N}).store({m, n}, cast(gelu_tanh(product + b, accuracy<T>()), element_v<T>));
             })
          .space(packed_space())
          .space("cpu", {{"GROUP", {1, 8, 64}}})
          .array("A", "M*K")
          .array("panels", panel_elements<T>("N", "K"))
          .array("bias", "N")
          .array("C", "M*N")
          .defaults("amd", {{"BM", 64}, {"BK", 32}})
          .defaults("cuda", {{"BM", 128}, {"BK", 32}});
  return *def;
}

// Where there are units of several numbers.
template <class T, class Def>
Def whole_units(Def def) {
  const std::string unit = std::to_string(packed_unit_v<T>);
  return packed_unit_v<T> == 1 ? std::move(def) : std::move(def).where("eq(rem(S*C, " + unit + "), 0)");
}

// conv2d with filters packed as the columns of a matrix [R·S·C, K]: pack_weights(w, panels, K, R·S·C, 1, R·S·C). S·C is
// a multiple of the unit.
template <class T = f32>
const auto& conv2d_packed() {
  static const Kept def =
      whole_units<T>(convolution_conditions(kernel(
                         "conv2d_packed",
                         {"x", "panels", "y", "N", "H", "W", "C", "K", "R", "S", "stride", "pad", "BM=256", "BN=64",
                          "BK=192", "GROUP=1"},
                         [](Ptr<const T> x, Ptr<const T> panels, Ptr<ProductOf<T>> y, i32 N, i32 H, i32 W, i32 C, i32 K,
                            i32 R, i32 S, i32 stride, i32 pad, Const BM, Const BN, Const BK, Const GROUP) {
                           const Value P = (H + 2 * pad - R) / stride + 1, Q = (W + 2 * pad - S) / stride + 1;
                           const Value pixels = N * P * Q, depth = S * C;
                           grid(cdiv(pixels, BM) * cdiv(K, BN));
                           const auto [m, n] = block_origin(pixels, K, BM, BN, GROUP);
                           const ConvolvedPixels at =
                               convolved_pixels(m + arange(0, BM), pixels, P, Q, stride, pad, H, W, C);
                           const Value panel = panels + cast(n, i64_t) * (R * depth);
                           const Value sums = convolved_block(
                               x, at, {H, W, C}, R, depth, {BM, BN, BK}, [&](const Value& r, const Value& k) {
                                 return load_panel<T>(panel + cast(r, i64_t) * (depth * BN), depth, k, BK, BN);
                               });
                           tile(y, {pixels, K}).store({m, n}, cast(sums, element_v<ProductOf<T>>));
                         })))
          .space({{"BM", {32, 64, 128, 256, 512}}, {"BK", {24, 64, 128, 192, 256, 384}}, {"num_warps", {4, 8}}})
          .space("cpu", {{"GROUP", {1, 8, 64}}})
          .array("x", "N*H*W*C")
          .array("panels", "div(BN + K - 1, BN)*BN*R*S*C")
          .array("y", "N*(div(H + 2*pad - R, stride) + 1)*(div(W + 2*pad - S, stride) + 1)*K")
          .defaults("amd", {{"BM", 64}, {"BK", 16}})
          .defaults("cuda", {{"BM", 64}, {"BK", 8}});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
