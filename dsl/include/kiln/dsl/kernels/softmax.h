// Softmax, log-softmax and cross entropy of the rows of [rows, cols] arrays. `stride` is the distance of two rows.
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// The largest element of a row, and Σ e^(x - that), taken in blocks: the sum so far is scaled whenever the maximum
// grows, so that the row is read from memory once and costs one exponential an element.
struct Exponentials {
  Value top, total;
};
template <class T>
Exponentials row_exponentials(const Tile& row, const Value& cols, const Const& BLOCK) {
  Var top = kLowest, total = 0.0f;
  for (Value col : range(0, cols, BLOCK)) {
    const Value v = load_f32(row, {col}, {BLOCK}, {.other = kLowest});
    const Value next = max(top, reduce_max(v, 0));
    // As long as all is -inf: a distance from -inf would be NaN.
    const Value from = where(next == kLowest, 0, next);
    total = total * exp(top - from, accuracy<T>()) + sum(exp(v - from, accuracy<T>()), 0);
    top = next;
  }
  return {top, total};
}

// log Σ e^x of a row
template <class T>
Value row_logsumexp(const Tile& row, const Value& cols, const Const& BLOCK) {
  const auto [top, total] = row_exponentials<T>(row, cols, BLOCK);
  return top + log(total);
}

// y[r, :] = softmax(x[r, :]); BLOCK ≥ cols. One division a row: the exponentials are multiplied by a reciprocal.
template <class T = f32>
const auto& softmax() {
  static const Kept def =
      kernel("softmax", {"x", "y", "rows", "cols", "stride", "BLOCK=1024"},
             [](Ptr<const T> x, Ptr<T> y, i32 rows, i32 cols, i32 stride, Const BLOCK) {
               grid(rows);
               const Value row = program_id(0);
               // Lanes beyond the row are -inf: they neither raise the maximum nor add to the sum.
               const Value v = row_of(x, row, stride, cols).load({0}, {BLOCK}, {.other = kLowest});
               row_of(y, row, stride, cols).store({0}, lang::softmax(v, 0));
             })
          .space({{"BLOCK", {256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}}, {"num_warps", {1, 2, 4, 8, 16}}})
          .where("le(cols, BLOCK)")
          .array("x", "rows*stride")
          .array("y", "rows*stride");
  return *def;
}

// The same for narrow rows, ROWS at once.
template <class T = f32>
const auto& softmax_narrow() {
  static const Kept def = kernel("softmax_narrow", {"x", "y", "rows", "cols", "stride", "ROWS=4", "BLOCK=256"},
                                 [](Ptr<const T> x, Ptr<T> y, i32 rows, i32 cols, i32 stride, Const ROWS, Const BLOCK) {
                                   grid(cdiv(rows, ROWS));
                                   const Value first = program_id(0) * ROWS;
                                   const Tile from = tile(x, {rows, cols}, {stride, 1}),
                                              to = tile(y, {rows, cols}, {stride, 1});
                                   const Value v = from.load({first, 0}, {ROWS, BLOCK}, {.other = kLowest});
                                   to.store({first, 0}, lang::softmax(v, 1));
                                 })
                              .space(narrow_space())
                              .where("le(cols, BLOCK)")
                              .array("x", "rows*stride")
                              .array("y", "rows*stride")
                              .defaults("cuda", {{"ROWS", 8}, {"num_warps", 4}});
  return *def;
}

// The same for rows of any length, which are read twice.
template <class T = f32>
const auto& softmax_long() {
  static const Kept def = kernel("softmax_long", {"x", "y", "rows", "cols", "stride", "BLOCK=4096"},
                                 [](Ptr<const T> x, Ptr<T> y, i32 rows, i32 cols, i32 stride, Const BLOCK) {
                                   grid(rows);
                                   const Tile from = row_of(x, program_id(0), stride, cols);
                                   const Tile to = row_of(y, program_id(0), stride, cols);
                                   const auto [top, total] = row_exponentials<T>(from, cols, BLOCK);
                                   const Value scale = 1 / total;
                                   for (Value col : range(0, cols, BLOCK)) {
                                     const Value v = load_f32(from, {col}, {BLOCK});
                                     to.store({col}, cast(exp(v - top, accuracy<T>()) * scale, element_v<T>));
                                   }
                                 })
                              .space({{"BLOCK", {1024, 2048, 4096, 8192, 16384}}, {"num_warps", {1, 2, 4, 8, 16}}})
                              .array("x", "rows*stride")
                              .array("y", "rows*stride")
                              .defaults("cuda", {{"BLOCK", 8192}, {"num_warps", 8}});
  return *def;
}

// y[r, :] = x[r, :] - log Σ e^x[r, :], for rows of any length
template <class T = f32>
const auto& log_softmax() {
  static const Kept def = kernel("log_softmax", {"x", "y", "rows", "cols", "stride", "BLOCK=4096"},
                                 [](Ptr<const T> x, Ptr<T> y, i32 rows, i32 cols, i32 stride, Const BLOCK) {
                                   grid(rows);
                                   const Tile from = row_of(x, program_id(0), stride, cols);
                                   const Tile to = row_of(y, program_id(0), stride, cols);
                                   const Value normaliser = row_logsumexp<T>(from, cols, BLOCK);
                                   for (Value col : range(0, cols, BLOCK)) {
                                     const Value v = load_f32(from, {col}, {BLOCK}) - normaliser;
                                     to.store({col}, cast(v, element_v<T>));
                                   }
                                 })
                              .space({{"BLOCK", {1024, 2048, 4096, 8192, 16384}}, {"num_warps", {1, 2, 4, 8, 16}}})
                              .array("x", "rows*stride")
                              .array("y", "rows*stride");
  return *def;
}

// loss[r] = lse[r] - logits[r, target[r]] with lse[r] = log Σ e^logits[r, :], which the backward pass takes; both f32.
// A target outside of 0…cols-1, such as -100, is ignored: its loss is 0.
template <class T = f32>
const auto& cross_entropy() {
  static const Kept def = kernel("cross_entropy", {"logits", "target", "loss", "lse", "rows", "cols", "BLOCK=4096"},
                                 [](Ptr<const T> logits, Ptr<const i32> target, Ptr<f32> loss, Ptr<f32> lse, i32 rows,
                                    i32 cols, Const BLOCK) {
                                   grid(rows);
                                   const Value row = program_id(0);
                                   const Value start = cast(row, i64_t) * cols;
                                   const Value normaliser = row_logsumexp<T>(tile(logits + start, {cols}), cols, BLOCK);
                                   const Value wanted = load(target + row);
                                   const Value counts = (wanted >= 0) & (wanted < cols);
                                   const Value logit = cast(load(logits + start + wanted, {.mask = counts}), f32_t);
                                   store(lse + row, normaliser);
                                   store(loss + row, where(counts, normaliser - logit, 0));
                                 })
                              .space({{"BLOCK", {1024, 2048, 4096, 8192, 16384}}, {"num_warps", {1, 2, 4, 8, 16}}})
                              .array("logits", "rows*cols")
                              .array("target", "rows", "0", "cols")
                              .array("loss", "rows")
                              .array("lse", "rows");
  return *def;
}

// mean[0] = the mean of the losses whose target counts; NaN where none does
inline const auto& cross_entropy_mean() {
  static const Kept def =
      kernel("cross_entropy_mean", {"loss", "target", "mean", "rows", "cols", "BLOCK=1024"},
             [](Ptr<const f32> loss, Ptr<const i32> target, Ptr<f32> mean, i32 rows, i32 cols, Const BLOCK) {
               Var total = zeros(f32_t, {BLOCK});
               Var count = zeros(i32_t, {BLOCK});
               for (Value row : range(0, rows, BLOCK)) {
                 const Value wanted = tile(target, {rows}).load({row}, {BLOCK}, {.other = -1});
                 const Value counts = (wanted >= 0) & (wanted < cols);
                 total += where(counts, tile(loss, {rows}).load({row}, {BLOCK}), 0);
                 count += cast(counts, i32_t);
               }
               store(mean, sum(total, 0) / cast(sum(count, 0), f32_t));
             })
          .space({{"BLOCK", {256, 1024, 4096}}, {"num_warps", {1, 2, 4, 8, 16}}})
          .array("loss", "rows")
          .array("target", "rows", "0", "cols")
          .array("mean", "1");
  return *def;
}

// dlogits[r, c] = scale · (e^(logits[r, c] - lse[r]) - [c = target[r]]), and 0 in rows whose target is ignored. `scale`
// is the gradient of a row's loss: 1/count for their mean.
template <class T = f32>
const auto& cross_entropy_backward() {
  static const Kept def =
      kernel("cross_entropy_backward", {"logits", "target", "lse", "dlogits", "rows", "cols", "scale", "BLOCK=4096"},
             [](Ptr<const T> logits, Ptr<const i32> target, Ptr<const f32> lse, Ptr<T> dlogits, i32 rows, i32 cols,
                f32 scale, Const BLOCK) {
               grid(cdiv(cols, BLOCK) * rows);
               const Value blocks = cdiv(cols, BLOCK);
               const Value row = program_id(0) / blocks;
               const Value col = program_id(0) % blocks * BLOCK;
               const Value wanted = load(target + row);
               const Value counts = (wanted >= 0) & (wanted < cols);
               const Value normaliser = load(lse + row);
               const Value v = load_f32(row_of(logits, row, cols, cols), {col}, {BLOCK});
               const Value hit = col + arange(0, BLOCK) == wanted;
               const Value slope = exp(v - normaliser, accuracy<T>()) - cast(hit, f32_t);
               const Value out = where(counts, slope * scale, 0);
               row_of(dlogits, row, cols, cols).store({col}, cast(out, element_v<T>));
             })
          .space({{"BLOCK", {1024, 2048, 4096, 8192, 16384}}, {"num_warps", {1, 2, 4, 8, 16}}})
          .array("logits", "rows*cols")
          .array("target", "rows", "0", "cols")
          .array("lse", "rows")
          .array("dlogits", "rows*cols");
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
