// Layers of 8-bit integers: activations with one scale and zero point, or a scale for each token, and weights with a
// scale for each row.
//
// Sums of products are exact i32. A static layer computes Σ(x - x_zero)·w · x_scale·w_scale[n] + bias[n]; what of it
// does not depend on x is folded into two numbers for each output, scale and offset, once for all launches
// (fold_zero_point): Σ x·w · scale[n] + offset[n].
#pragma once

#include "kiln/dsl/kernels/conv2d.h"
#include "kiln/dsl/kernels/matmul.h"
#include "kiln/dsl/kernels/packed.h"

namespace kiln::dsl::lang::kernels {

// scale[n] = x_scale·w_scale[n], offset[n] = bias[n] - x_zero·scale[n]·Σ w[n, …] of weights w [N, K]. Filters of a
// convolution are rows of K = R·S·C.
inline const auto& fold_zero_point() {
  static const Kept def =
      kernel("fold_zero_point",
             {"w", "w_scale", "bias", "scale", "offset", "N", "K", "x_scale", "x_zero", "BLOCK=1024"},
             [](Ptr<const i8> w, Ptr<const f32> w_scale, Ptr<const f32> bias, Ptr<f32> scale, Ptr<f32> offset, i32 N,
                i32 K, f32 x_scale, i32 x_zero, Const BLOCK) {
               grid(N);
               const Value n = program_id(0);
               const Tile row = row_of(w, n, K, K);
               Var total = zeros(i32_t, {BLOCK});
               for (Value k : range(0, K, BLOCK)) total += cast(row.load({k}, {BLOCK}), i32_t);
               const Value factor = load(w_scale + n) * x_scale;
               // The product of ints may not fit into 32 bits.
               const Value shift = cast(cast(sum(total, 0), i64_t) * cast(x_zero, i64_t), f32_t);
               store(scale + n, factor);
               store(offset + n, load(bias + n) - shift * factor);
             })
          .space({{"BLOCK", {256, 1024, 4096}}})
          .array("w", "N*K")
          .array("w_scale", "N", "0", "1")
          .array("bias", "N")
          .array("scale", "N")
          .array("offset", "N");
  return *def;
}

// What a layer does with its sum: ACT of linear_q8 and conv2d_q8.
enum class Activation : int64_t { kNone = 0, kRelu = 1, kGelu = 2 };

// The numbers of outputs n … n+BN-1, and those of the result: q = round(y·inverse) + zero.
struct Requantise {
  Value scale, offset, N, inverse, zero;
};

// A block of sums with their columns from n on, as Out: ints are rounded to the nearest, ties to even, and saturate.
template <class Out>
Value requantised(const Value& sums, const Requantise& by, const Value& n, const Const& ACT, const Const& BN) {
  const Value scale = tile(by.scale, {by.N}).load({n}, {BN}), offset = tile(by.offset, {by.N}).load({n}, {BN});
  const Value v = cast(sums, f32_t) * scale + offset;
  const Value active = if_(
      ACT == 1, [&] { return max(v, 0); },
      [&] { return if_(ACT == 2, [&] { return gelu_tanh(v, fast); }, [&] { return v; }); });
  if (is_float(element_v<Out>)) return cast(active, element_v<Out>);
  return cast(round(active * by.inverse) + cast(by.zero, f32_t), element_v<Out>);
}

// y = requantise(activation(Σ_k x[m, k]·w[n, k] · scale[n] + offset[n])) of x [M, K] in u8 or i8 and weights w [N, K].
// y [M, N] of Out: ints are round(·inverse) + zero; floats take neither.
template <class A = u8, class Out = A>
const auto& linear_q8() {
  static const Kept def =
      product_hints<i8>(
          kernel("linear_q8",
                 {"x", "w", "scale", "offset", "y", "M", "N", "K", "inverse", "zero", "ACT=0", "BM=128", "BN=256",
                  "BK=256", "GROUP=8"},
                 [](Ptr<const A> x, Ptr<const i8> w, Ptr<const f32> scale, Ptr<const f32> offset, Ptr<Out> y, i32 M,
                    i32 N, i32 K, f32 inverse, i32 zero, Const ACT, Const BM, Const BN, Const BK, Const GROUP) {
                   require(ACT >= 0 && ACT <= 2, "ACT is 0, 1 or 2");
                   grid(cdiv(M, BM) * cdiv(N, BN));
                   const BlockOrigin at = block_origin(M, N, BM, BN, GROUP);
                   const Value sums = sum_of_products(
                       i32_t, K, {BM, BN, BK},
                       [&](const Value& k) { return tile(x, {M, K}).load({at.m, k}, {BM, BK}); },
                       [&](const Value& k) { return tile(w, {K, N}, {1, K}).load({k, at.n}, {BK, BN}); });
                   const Value out = requantised<Out>(sums, {scale, offset, N, inverse, zero}, at.n, ACT, BN);
                   tile(y, {M, N}).store({at.m, at.n}, out);
                 }))
          .array("x", "M*K")
          .array("w", "N*K")
          .array("scale", "N", "0", "1")
          .array("offset", "N")
          .array("y", "M*N")
          .defaults("amd", {{"BM", 128}, {"BN", 128}, {"BK", 32}});
  return *def;
}

// The same with weights that were packed ahead: pack_weights<i8>(w, panels, N, K, 1, K), with the same BN.
template <class A = u8, class Out = A>
const auto& linear_q8_packed() {
  static const Kept def =
      kernel("linear_q8_packed",
             {"x", "panels", "scale", "offset", "y", "M", "N", "K", "inverse", "zero", "ACT=0", "BM=256", "BN=64",
              "BK=256", "GROUP=1"},
             [](Ptr<const A> x, Ptr<const i8> panels, Ptr<const f32> scale, Ptr<const f32> offset, Ptr<Out> y, i32 M,
                i32 N, i32 K, f32 inverse, i32 zero, Const ACT, Const BM, Const BN, Const BK, Const GROUP) {
               require(ACT >= 0 && ACT <= 2, "ACT is 0, 1 or 2");
               grid(cdiv(M, BM) * cdiv(N, BN));
               const auto [m, n] = block_origin(M, N, BM, BN, GROUP);
               const Value sums = packed_product_block<i8>(x, panels, M, K, m, n, {BM, BN, BK});
               const Value out = requantised<Out>(sums, {scale, offset, N, inverse, zero}, n, ACT, BN);
               tile(y, {M, N}).store({m, n}, out);
             })
          .space(packed_space())
          .space("cpu", {{"GROUP", {1, 8, 64}}})
          .array("x", "M*K")
          .array("panels", panel_elements<i8>("N", "K"))
          .array("scale", "N", "0", "1")
          .array("offset", "N")
          .array("y", "M*N")
          .defaults("amd", {{"BM", 64}, {"BK", 32}})
          .defaults("cuda", {{"BM", 128}, {"BK", 32}});
  return *def;
}

// The same of a convolution as conv2d's: x [N, H, W, C], filters w [K, R, S, C]. Outside of x lies x_zero, which stands
// for 0.
template <class A = u8, class Out = A>
const auto& conv2d_q8() {
  static const Kept def =
      convolution_hints<i8>(
          kernel("conv2d_q8",
                 {"x", "w",      "scale", "offset", "y",       "N",    "H",     "W",      "C",     "K",      "R",
                  "S", "stride", "pad",   "x_zero", "inverse", "zero", "ACT=0", "BM=128", "BN=64", "BK=192", "GROUP=8"},
                 [](Ptr<const A> x, Ptr<const i8> w, Ptr<const f32> scale, Ptr<const f32> offset, Ptr<Out> y, i32 N,
                    i32 H, i32 W, i32 C, i32 K, i32 R, i32 S, i32 stride, i32 pad, i32 x_zero, f32 inverse, i32 zero,
                    Const ACT, Const BM, Const BN, Const BK, Const GROUP) {
                   require(ACT >= 0 && ACT <= 2, "ACT is 0, 1 or 2");
                   const auto [pixels, m, n, sums] = convolve(x, w, {N, H, W, C, K, R, S, stride, pad}, {BM, BN, BK},
                                                              GROUP, cast(x_zero, element_v<A>));
                   const Value out = requantised<Out>(sums, {scale, offset, K, inverse, zero}, n, ACT, BN);
                   tile(y, {pixels, K}).store({m, n}, out);
                 }))
          .array("scale", "K", "0", "1")
          .array("offset", "K")
          .defaults("cuda", {{"BM", 64}, {"BN", 64}, {"BK", 64}, {"num_warps", 8}});
  return *def;
}

// --- dynamic: a scale for each token ---

// Row r of x [rows, cols] as i8 q times scale[r], the largest magnitude over 127; 0 of a row of zeros.
template <class T = f32>
const auto& quantise_tokens() {
  static const Kept def = kernel("quantise_tokens", {"x", "q", "scale", "rows", "cols", "BLOCK=1024"},
                                 [](Ptr<const T> x, Ptr<i8> q, Ptr<f32> scale, i32 rows, i32 cols, Const BLOCK) {
                                   grid(rows);
                                   const Value row = program_id(0);
                                   const Tile from = row_of(x, row, cols, cols), to = row_of(q, row, cols, cols);
                                   Var top = zeros(f32_t, {BLOCK});
                                   for (Value col : range(0, cols, BLOCK))
                                     top = max(top, abs(load_f32(from, {col}, {BLOCK})));
                                   const Value most = reduce_max(top, 0);
                                   const Value inverse = where(most > 0, 127 / most, 0);
                                   store(scale + row, most / 127);
                                   for (Value col : range(0, cols, BLOCK)) {
                                     to.store({col}, cast(round(load_f32(from, {col}, {BLOCK}) * inverse), i8_t));
                                   }
                                 })
                              .space({{"BLOCK", {256, 1024, 4096}}})
                              .array("x", "rows*cols")
                              .array("q", "rows*cols")
                              .array("scale", "rows");
  return *def;
}

// y[m, n] = Σ_k q[m, k]·w[n, k] · row_scale[m]·column_scale[n] + bias[n], of i8 tokens and weights [N, K].
template <class T = f32>
const auto& linear_dynamic() {
  static const Kept def =
      product_hints<i8>(
          kernel("linear_dynamic",
                 {"q", "w", "row_scale", "column_scale", "bias", "y", "M", "N", "K", "BM=128", "BN=256", "BK=256",
                  "GROUP=8"},
                 [](Ptr<const i8> q, Ptr<const i8> w, Ptr<const f32> row_scale, Ptr<const f32> column_scale,
                    Ptr<const f32> bias, Ptr<T> y, i32 M, i32 N, i32 K, Const BM, Const BN, Const BK, Const GROUP) {
                   grid(cdiv(M, BM) * cdiv(N, BN));
                   const BlockOrigin at = block_origin(M, N, BM, BN, GROUP);
                   const Value sums = sum_of_products(
                       i32_t, K, {BM, BN, BK},
                       [&](const Value& k) { return tile(q, {M, K}).load({at.m, k}, {BM, BK}); },
                       [&](const Value& k) { return tile(w, {K, N}, {1, K}).load({k, at.n}, {BK, BN}); });
                   const Value rows = expand_dims(tile(row_scale, {M}).load({at.m}, {BM}), 1);
                   const Value columns = tile(column_scale, {N}).load({at.n}, {BN});
                   const Value out = cast(sums, f32_t) * rows * columns + tile(bias, {N}).load({at.n}, {BN});
                   tile(y, {M, N}).store({at.m, at.n}, cast(out, element_v<T>));
                 }))
          .array("q", "M*K")
          .array("w", "N*K")
          .array("row_scale", "M", "0", "1")
          .array("column_scale", "N", "0", "1")
          .array("bias", "N")
          .array("y", "M*N")
          // Without matrix instructions a thread holds few sums, and rows of bytes take as much LDS as those of others.
          .defaults("amd:gfx906", {{"BM", 64}, {"BN", 64}, {"BK", 32}, {"num_warps", 4}})
          .defaults("amd:gfx1100", {{"BK", 32}, {"waves_per_eu", 8}})
          .defaults("amd:gfx1200", {{"BK", 32}, {"waves_per_eu", 8}})
          // A thread has a row of sums, and the factors of all its columns.
          .defaults("cuda:sm_100a", {{"BN", 128}, {"BK", 128}, {"num_warps", 8}, {"num_stages", 4}});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
