// Sums, running sums and extremes along the axes of [rows, cols] arrays. `stride` is the distance of two rows.
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// y[r] = sum of x[r, :], summed in f32, block by block: sums that a row carries element by element would cost CPUs a
// store each.
template <class T = f32>
const auto& row_sum() {
  static const Kept def = kernel("row_sum", {"x", "y", "rows", "cols", "stride", "BLOCK=1024"},
                                 [](Ptr<const T> x, Ptr<T> y, i32 rows, i32 cols, i32 stride, Const BLOCK) {
                                   grid(rows);
                                   const Value row = program_id(0);
                                   const Tile line = row_of(x, row, stride, cols);
                                   Var total = 0.0f;
                                   for (Value col : range(0, cols, BLOCK)) {
                                     total = total + sum(load_f32(line, {col}, {BLOCK}), 0);
                                   }
                                   store(y + row, cast(total, element_v<T>));
                                 })
                              .space({{"BLOCK", {256, 512, 1024, 2048, 4096, 8192}}, {"num_warps", {1, 2, 4, 8}}})
                              .defaults("cuda", {{"BLOCK", 4096}, {"num_warps", 4}})
                              .defaults("amd", {{"BLOCK", 4096}, {"num_warps", 8}})
                              .array("x", "rows*stride")
                              .array("y", "rows");
  return *def;
}

// y[c] = sum of x[:, c] in f32, ROWS rows at a time; dense rows
template <class T = f32>
const auto& column_sum() {
  static const Kept def = kernel("column_sum", {"x", "y", "rows", "cols", "ROWS=1", "BLOCK=256"},
                                 [](Ptr<const T> x, Ptr<T> y, i32 rows, i32 cols, Const ROWS, Const BLOCK) {
                                   grid(cdiv(cols, BLOCK));
                                   const Value col = program_id(0) * BLOCK;
                                   Var total = zeros(f32_t, {ROWS, BLOCK});
                                   for (Value row : range(0, rows, ROWS)) {
                                     total += tile(x, {rows, cols}).load({row, col}, {ROWS, BLOCK});
                                   }
                                   tile(y, {cols}).store({col}, cast(sum(total, 0), element_v<T>));
                                 })
                              .space({{"ROWS", {1, 4, 64, 256, 512}}, {"BLOCK", {32, 64, 256, 1024}}})
                              .array("x", "rows*cols")
                              .array("y", "cols")
                              .defaults("amd", {{"ROWS", 64}, {"BLOCK", 64}})
                              .defaults("cuda", {{"ROWS", 512}, {"BLOCK", 32}, {"num_warps", 16}});
  return *def;
}

// y[r, c] = x[r, 0] + … + x[r, c], in f32; dense rows
template <class T = f32>
const auto& cumsum_rows() {
  static const Kept def = kernel("cumsum_rows", {"x", "y", "rows", "cols", "BLOCK=1024"},
                                 [](Ptr<const T> x, Ptr<T> y, i32 rows, i32 cols, Const BLOCK) {
                                   grid(rows);
                                   const Tile from = row_of(x, program_id(0), cols, cols);
                                   const Tile to = row_of(y, program_id(0), cols, cols);
                                   Var before = 0.0f;
                                   for (Value col : range(0, cols, BLOCK)) {
                                     const Value v = load_f32(from, {col}, {BLOCK});
                                     to.store({col}, cast(before + cumsum(v, 0), element_v<T>));
                                     before += sum(v, 0);
                                   }
                                 })
                              .space({{"BLOCK", {256, 1024, 4096}}})
                              .array("x", "rows*cols")
                              .array("y", "rows*cols");
  return *def;
}

// y[r, c] = x[0, c] + … + x[r, c] in f32, ROWS rows at a time; dense rows
template <class T = f32>
const auto& cumsum_columns() {
  static const Kept def = kernel("cumsum_columns", {"x", "y", "rows", "cols", "ROWS=1", "BLOCK=256"},
                                 [](Ptr<const T> x, Ptr<T> y, i32 rows, i32 cols, Const ROWS, Const BLOCK) {
                                   grid(cdiv(cols, BLOCK));
                                   const Value col = program_id(0) * BLOCK;
                                   Var before = zeros(f32_t, {1, BLOCK});
                                   for (Value row : range(0, rows, ROWS)) {
                                     const Value v = load_f32(tile(x, {rows, cols}), {row, col}, {ROWS, BLOCK});
                                     tile(y, {rows, cols}).store({row, col}, cast(before + cumsum(v, 0), element_v<T>));
                                     before += expand_dims(sum(v, 0), 0);
                                   }
                                 })
                              .space({{"ROWS", {1, 16, 64, 128}}, {"BLOCK", {32, 64, 256, 1024}}})
                              .array("x", "rows*cols")
                              .array("y", "rows*cols")
                              .defaults("amd", {{"ROWS", 16}, {"BLOCK", 64}})
                              .defaults("cuda", {{"ROWS", 128}, {"BLOCK", 32}, {"num_warps", 8}});
  return *def;
}

// index[r] = where x[r, :] is largest, the lowest of several; NaN is largest. BLOCK ≥ cols.
template <class T = f32>
const auto& argmax() {
  static const Kept def = kernel("argmax", {"x", "index", "rows", "cols", "stride", "BLOCK=4096"},
                                 [](Ptr<const T> x, Ptr<i32> index, i32 rows, i32 cols, i32 stride, Const BLOCK) {
                                   grid(rows);
                                   const Value row = program_id(0);
                                   const Value v = row_of(x, row, stride, cols).load({0}, {BLOCK}, {.other = kLowest});
                                   store(index + row, lang::argmax(v, 0));
                                 })
                              .space({{"BLOCK", {1024, 4096, 16384, 65536}}})
                              .where("le(cols, BLOCK)")
                              .array("x", "rows*stride")
                              .array("index", "rows");
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
