// Normalisation of the rows of [rows, cols] arrays; BLOCK ≥ cols where nothing else is said. `stride` is the distance
// of two rows.
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// What makes a row, or several, one of mean 0 and variance 1. Beyond the end of a row nothing has a meaning.
struct Centred {
  Value normal, scale;  // 1/sqrt(variance + eps)
};
// Of elements of type T, as f32. The mean of a row far from zero is rounded; the mean of the distances from it,
// `drift`, says by how much, and corrects both. Elements of 16 bits are themselves rounded more than that,
// and do without: a row of equal ones comes within 4e-5 of its value from 0, not to 0 itself (eps = 1e-5).
template <class T>
Centred centre(const Value& v, const Value& inside, const Value& count, const Value& eps) {
  const Value share = 1 / count;  // before anything of the row is there
  const Value mean = row_sums(v) * share;
  const Value rough = where(inside, v - mean, 0);
  if (info(element_v<T>).bits <= 16) {
    const Value scale = rsqrt(row_sums(rough * rough) * share + eps);
    return {rough * scale, scale};
  }
  const Value drift = row_sums(rough) * share;
  const Value scale = rsqrt(row_sums(rough * rough) * share - drift * drift + eps);
  return {fma(rough, scale, -drift * scale), scale};
}

// y[r, :] = (x[r, :] - mean) / sqrt(variance + eps) · weight + bias
template <class T = f32>
const auto& layer_norm() {
  static const Kept def =
      kernel("layer_norm", {"x", "weight", "bias", "y", "rows", "cols", "stride", "eps", "BLOCK=4096"},
             [](Ptr<const T> x, Ptr<const T> weight, Ptr<const T> bias, Ptr<T> y, i32 rows, i32 cols, i32 stride,
                f32 eps, Const BLOCK) {
               grid(rows);
               const Value row = program_id(0);
               const Value inside = arange(0, BLOCK) < cols;
               const Value v = load_f32(row_of(x, row, stride, cols), {0}, {BLOCK});
               const Value normal = centre<T>(v, inside, cast(cols, f32_t), eps).normal;
               const Value w = load_f32(tile(weight, {cols}), {0}, {BLOCK});
               const Value b = load_f32(tile(bias, {cols}), {0}, {BLOCK});
               row_of(y, row, stride, cols).store({0}, cast(fma(normal, w, b), element_v<T>));
             })
          .space({{"BLOCK", {256, 512, 1024, 2048, 4096, 8192, 16384}}, {"num_warps", {1, 2, 4, 8, 16}}})
          .where("le(cols, BLOCK)")
          .array("x", "rows*stride")
          .array("weight", "cols")
          .array("bias", "cols")
          .array("y", "rows*stride");
  return *def;
}

// The same for narrow rows, ROWS at once.
template <class T = f32>
const auto& layer_norm_narrow() {
  static const Kept def =
      kernel("layer_norm_narrow", {"x", "weight", "bias", "y", "rows", "cols", "stride", "eps", "ROWS=4", "BLOCK=256"},
             [](Ptr<const T> x, Ptr<const T> weight, Ptr<const T> bias, Ptr<T> y, i32 rows, i32 cols, i32 stride,
                f32 eps, Const ROWS, Const BLOCK) {
               grid(cdiv(rows, ROWS));
               const Value first = program_id(0) * ROWS;
               const Value inside = expand_dims(arange(0, BLOCK) < cols, 0);
               const Value v = load_f32(tile(x, {rows, cols}, {stride, 1}), {first, 0}, {ROWS, BLOCK});
               const Value normal = centre<T>(v, inside, cast(cols, f32_t), eps).normal;
               const Value w = expand_dims(load_f32(tile(weight, {cols}), {0}, {BLOCK}), 0);
               const Value b = expand_dims(load_f32(tile(bias, {cols}), {0}, {BLOCK}), 0);
               tile(y, {rows, cols}, {stride, 1}).store({first, 0}, cast(fma(normal, w, b), element_v<T>));
             })
          .space(narrow_space())
          .where("le(cols, BLOCK)")
          .array("x", "rows*stride")
          .array("weight", "cols")
          .array("bias", "cols")
          .array("y", "rows*stride")
          .defaults("cuda", {{"ROWS", 16}, {"num_warps", 4}});
  return *def;
}

// Mean and variance of a row, taken in blocks: each block's own are joined to those of the blocks before it, as
// Welford's method joins one element (Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing
// Sample Variances", 1979). Of distances from `origin`, an element of the row, so that rows far from zero lose nothing.
struct Moments {
  Value mean, variance;
};
inline Moments row_moments(const Tile& row, const Value& origin, const Value& cols, const Const& BLOCK) {
  Var mean = 0.0f, spread = 0.0f;  // the sum of the squares of distances from the mean
  for (Value col : range(0, cols, BLOCK)) {
    const Value inside = arange(0, BLOCK) < cols - col;
    const Value before = cast(col, f32_t), count = cast(min(cols - col, BLOCK), f32_t);
    const Value v = where(inside, load_f32(row, {col}, {BLOCK}) - origin, 0);
    const Value here = sum(v, 0) / count;
    const Value distance = where(inside, v - here, 0);
    const Value step = here - mean, share = count / (before + count);
    mean = mean + step * share;
    spread = spread + sum(distance * distance, 0) + step * step * before * share;
  }
  return {mean, spread / cast(cols, f32_t)};
}

// The same for rows of any length, which are read twice.
template <class T = f32>
const auto& layer_norm_long() {
  static const Kept def =
      kernel("layer_norm_long", {"x", "weight", "bias", "y", "rows", "cols", "stride", "eps", "BLOCK=4096"},
             [](Ptr<const T> x, Ptr<const T> weight, Ptr<const T> bias, Ptr<T> y, i32 rows, i32 cols, i32 stride,
                f32 eps, Const BLOCK) {
               grid(rows);
               const Value row = program_id(0);
               const Tile from = row_of(x, row, stride, cols), to = row_of(y, row, stride, cols);
               const Value first = load(x + cast(row, i64_t) * stride, {.mask = cols > 0});
               const Value origin = cast(first, f32_t);
               const auto [mean, variance] = row_moments(from, origin, cols, BLOCK);
               const Value scale = rsqrt(variance + eps);
               for (Value col : range(0, cols, BLOCK)) {
                 const Value normal = (load_f32(from, {col}, {BLOCK}) - origin - mean) * scale;
                 const Value w = load_f32(tile(weight, {cols}), {col}, {BLOCK});
                 const Value b = load_f32(tile(bias, {cols}), {col}, {BLOCK});
                 to.store({col}, cast(fma(normal, w, b), element_v<T>));
               }
             })
          .space({{"BLOCK", {1024, 2048, 4096, 8192, 16384}}, {"num_warps", {1, 2, 4, 8, 16}}})
          .array("x", "rows*stride")
          .array("weight", "cols")
          .array("bias", "cols")
          .array("y", "rows*stride")
          .defaults("cuda", {{"BLOCK", 8192}, {"num_warps", 8}});
  return *def;
}

// The gradients of layer_norm, for dense rows: dx, and of weight and bias what each block of ROWS rows adds up to, in
// f32: dweight and dbias are [⌈rows/ROWS⌉, cols], and column_sum of them finishes. The sums are in a fixed order.
template <class T = f32>
const auto& layer_norm_backward() {
  static const Kept def =
      kernel("layer_norm_backward",
             {"x", "weight", "dy", "dx", "dweight", "dbias", "rows", "cols", "eps", "ROWS=64", "BLOCK=4096"},
             [](Ptr<const T> x, Ptr<const T> weight, Ptr<const T> dy, Ptr<T> dx, Ptr<f32> dweight, Ptr<f32> dbias,
                i32 rows, i32 cols, f32 eps, Const ROWS, Const BLOCK) {
               grid(cdiv(rows, ROWS));
               const Value first = program_id(0) * ROWS;
               const Value inside = arange(0, BLOCK) < cols;
               const Value count = cast(cols, f32_t);
               const Value w = load_f32(tile(weight, {cols}), {0}, {BLOCK});
               Var weight_sum = zeros(f32_t, {BLOCK}), bias_sum = zeros(f32_t, {BLOCK});
               for (Value row : range(first, min(first + ROWS, rows))) {
                 const Value v = load_f32(row_of(x, row, cols, cols), {0}, {BLOCK});
                 const Value slope = load_f32(row_of(dy, row, cols, cols), {0}, {BLOCK});
                 const Centred centred = centre<T>(v, inside, count, eps);
                 const Value normal = centred.normal;
                 const Value inner = slope * w;
                 const Value mean = sum(inner, 0) / count, along = sum(inner * normal, 0) / count;
                 const Value out = (inner - mean - normal * along) * centred.scale;
                 row_of(dx, row, cols, cols).store({0}, cast(out, element_v<T>));
                 weight_sum += slope * normal;
                 bias_sum += slope;
               }
               row_of(dweight, program_id(0), cols, cols).store({0}, weight_sum);
               row_of(dbias, program_id(0), cols, cols).store({0}, bias_sum);
             })
          .space({{"BLOCK", {256, 512, 1024, 2048, 4096, 8192, 16384}}, {"num_warps", {1, 2, 4, 8, 16}}})
          .where("le(cols, BLOCK)")
          .array("x", "rows*cols")
          .array("weight", "cols")
          .array("dy", "rows*cols")
          .array("dx", "rows*cols")
          .array("dweight", "div(rows + ROWS - 1, ROWS)*cols")
          .array("dbias", "div(rows + ROWS - 1, ROWS)*cols");
  return *def;
}

// v / sqrt(mean of squares + eps) · weight of a row that is 0 beyond its end
inline Value rms_normal(const Value& v, const Value& weight, const Value& cols, const Value& eps) {
  const Value share = 1 / cast(cols, f32_t);  // before anything of the row is there
  return v * rsqrt(row_sums(v * v) * share + eps) * weight;
}

// y[r, :] = x[r, :] / sqrt(mean of squares + eps) · weight
template <class T = f32>
const auto& rms_norm() {
  static const Kept def =
      kernel("rms_norm", {"x", "weight", "y", "rows", "cols", "stride", "eps", "BLOCK=4096"},
             [](Ptr<const T> x, Ptr<const T> weight, Ptr<T> y, i32 rows, i32 cols, i32 stride, f32 eps, Const BLOCK) {
               grid(rows);
               const Value v = load_f32(row_of(x, program_id(0), stride, cols), {0}, {BLOCK});
               const Value w = load_f32(tile(weight, {cols}), {0}, {BLOCK});
               row_of(y, program_id(0), stride, cols).store({0}, cast(rms_normal(v, w, cols, eps), element_v<T>));
             })
          .space({{"BLOCK", {256, 512, 1024, 2048, 4096, 8192, 16384}}, {"num_warps", {1, 2, 4, 8, 16}}})
          .where("le(cols, BLOCK)")
          .array("x", "rows*stride")
          .array("weight", "cols")
          .array("y", "rows*stride");
  return *def;
}

// The same for narrow rows, ROWS at once.
template <class T = f32>
const auto& rms_norm_narrow() {
  static const Kept def =
      kernel("rms_norm_narrow", {"x", "weight", "y", "rows", "cols", "stride", "eps", "ROWS=4", "BLOCK=256"},
             [](Ptr<const T> x, Ptr<const T> weight, Ptr<T> y, i32 rows, i32 cols, i32 stride, f32 eps, Const ROWS,
                Const BLOCK) {
               grid(cdiv(rows, ROWS));
               const Value first = program_id(0) * ROWS;
               const Value v = load_f32(tile(x, {rows, cols}, {stride, 1}), {first, 0}, {ROWS, BLOCK});
               const Value w = expand_dims(load_f32(tile(weight, {cols}), {0}, {BLOCK}), 0);
               const Value normal = rms_normal(v, w, cols, eps);
               tile(y, {rows, cols}, {stride, 1}).store({first, 0}, cast(normal, element_v<T>));
             })
          .space(narrow_space())
          .where("le(cols, BLOCK)")
          .array("x", "rows*stride")
          .array("weight", "cols")
          .array("y", "rows*stride")
          .defaults("cuda", {{"ROWS", 8}, {"num_warps", 4}});
  return *def;
}

// total[r, :] = x[r, :] + residual[r, :], and y[r, :] its RMS norm, for dense rows
template <class T = f32>
const auto& residual_rms_norm() {
  static const Kept def =
      kernel("residual_rms_norm", {"x", "residual", "weight", "total", "y", "rows", "cols", "eps", "BLOCK=4096"},
             [](Ptr<const T> x, Ptr<const T> residual, Ptr<const T> weight, Ptr<T> total, Ptr<T> y, i32 rows, i32 cols,
                f32 eps, Const BLOCK) {
               grid(rows);
               const Value row = program_id(0);
               const Value v = load_f32(row_of(x, row, cols, cols), {0}, {BLOCK}) +
                               load_f32(row_of(residual, row, cols, cols), {0}, {BLOCK});
               const Value w = load_f32(tile(weight, {cols}), {0}, {BLOCK});
               row_of(total, row, cols, cols).store({0}, cast(v, element_v<T>));
               row_of(y, row, cols, cols).store({0}, cast(rms_normal(v, w, cols, eps), element_v<T>));
             })
          .space({{"BLOCK", {256, 512, 1024, 2048, 4096, 8192, 16384}}, {"num_warps", {1, 2, 4, 8, 16}}})
          .where("le(cols, BLOCK)")
          .array("x", "rows*cols")
          .array("residual", "rows*cols")
          .array("weight", "cols")
          .array("total", "rows*cols")
          .array("y", "rows*cols");
  return *def;
}

// y[r, :] = the layer norm of x[r, :] + residual[r, :], for dense rows
template <class T = f32>
const auto& residual_layer_norm() {
  static const Kept def =
      kernel("residual_layer_norm", {"x", "residual", "weight", "bias", "y", "rows", "cols", "eps", "BLOCK=4096"},
             [](Ptr<const T> x, Ptr<const T> residual, Ptr<const T> weight, Ptr<const T> bias, Ptr<T> y, i32 rows,
                i32 cols, f32 eps, Const BLOCK) {
               grid(rows);
               const Value row = program_id(0);
               const Value inside = arange(0, BLOCK) < cols;
               const Value v = load_f32(row_of(x, row, cols, cols), {0}, {BLOCK}) +
                               load_f32(row_of(residual, row, cols, cols), {0}, {BLOCK});
               const Value normal = centre<T>(v, inside, cast(cols, f32_t), eps).normal;
               const Value w = load_f32(tile(weight, {cols}), {0}, {BLOCK});
               const Value b = load_f32(tile(bias, {cols}), {0}, {BLOCK});
               row_of(y, row, cols, cols).store({0}, cast(fma(normal, w, b), element_v<T>));
             })
          .space({{"BLOCK", {256, 512, 1024, 2048, 4096, 8192, 16384}}, {"num_warps", {1, 2, 4, 8, 16}}})
          .where("le(cols, BLOCK)")
          .array("x", "rows*cols")
          .array("residual", "rows*cols")
          .array("weight", "cols")
          .array("bias", "cols")
          .array("y", "rows*cols");
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
