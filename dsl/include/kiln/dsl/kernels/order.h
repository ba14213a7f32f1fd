// Sorting, selecting, counting and moving elements.
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// y[r, :] = x[r, :] in ascending order, NaN last; dense rows, BLOCK ≥ cols
template <class T = f32>
const auto& sort_rows() {
  static const Kept def = kernel("sort_rows", {"x", "y", "rows", "cols", "BLOCK=1024"},
                                 [](Ptr<const T> x, Ptr<T> y, i32 rows, i32 cols, Const BLOCK) {
                                   grid(rows);
                                   // Lanes beyond the row go last: NaN is greatest, and the sort is stable.
                                   const float nan = std::numeric_limits<float>::quiet_NaN();
                                   const Value v =
                                       row_of(x, program_id(0), cols, cols).load({0}, {BLOCK}, {.other = nan});
                                   row_of(y, program_id(0), cols, cols).store({0}, sort(v, 0));
                                 })
                              .space({{"BLOCK", {256, 1024, 4096, 16384}}})
                              .where("le(cols, BLOCK)")
                              .array("x", "rows*cols")
                              .array("y", "rows*cols");
  return *def;
}

// values[r, :] and index[r, :] = the K largest of x[r, :], largest first, and where they stand; of equal ones the
// lowest index first, NaN is greatest. Dense rows, BLOCK ≥ cols ≥ K.
template <class T = f32>
const auto& topk() {
  static const Kept def =
      kernel("topk", {"x", "values", "index", "rows", "cols", "K=8", "BLOCK=4096"},
             [](Ptr<const T> x, Ptr<T> values, Ptr<i32> index, i32 rows, i32 cols, Const K, Const BLOCK) {
               require(K <= BLOCK, "K must be at most BLOCK");
               grid(rows);
               const Value row = program_id(0);
               const Value v = row_of(x, row, cols, cols).load({0}, {BLOCK}, {.other = kLowest});
               const auto [top, at] = lang::topk(v, K, 0);
               row_of(values, row, K, K).store({0}, top);
               row_of(index, row, K, K).store({0}, at);
             })
          .space({{"BLOCK", {1024, 4096, 16384, 65536}}})
          .where("le(cols, BLOCK)")
          .where("le(K, cols)")
          .array("x", "rows*cols")
          .array("values", "rows*K")
          .array("index", "rows*K");
  return *def;
}

// counts[b] += how many of x[0…n-1] equal b, for b < BINS; others are ignored. The caller clears counts.
inline const auto& histogram() {
  static const Kept def =
      kernel("histogram", {"x", "counts", "n", "BINS=256", "BLOCK=65536"},
             [](Ptr<const i32> x, Ptr<i32> counts, i32 n, Const BINS, Const BLOCK) {
               grid(cdiv(n, BLOCK));
               const Value v = tile(x, {n}).load({program_id(0) * BLOCK}, {BLOCK}, {.other = -1});
               atomic_add(counts + arange(0, BINS), lang::histogram(v, BINS), {.order = MemoryOrder::kRelaxed});
             })
          .space({{"BLOCK", {4096, 16384, 65536}}})
          .array("x", "n", "0", "BINS")
          .array("counts", "BINS")
          .defaults("amd", {{"BLOCK", 8192}})
          .defaults("cuda", {{"BLOCK", 8192}});
  return *def;
}

// y[c, r] = x[r, c] of [rows, cols]
template <class T = f32>
const auto& transpose() {
  static const Kept def = kernel("transpose", {"x", "y", "rows", "cols", "BR=64", "BC=64"},
                                 [](Ptr<const T> x, Ptr<T> y, i32 rows, i32 cols, Const BR, Const BC) {
                                   grid(cdiv(cols, BC), cdiv(rows, BR));
                                   const Value col = program_id(0) * BC, row = program_id(1) * BR;
                                   const Value block = tile(x, {rows, cols}).load({row, col}, {BR, BC});
                                   tile(y, {cols, rows}).store({col, row}, trans(block));
                                 })
                              .space({{"BR", {16, 32, 64, 128}}, {"BC", {16, 32, 64, 128}}})
                              .array("x", "rows*cols")
                              .array("y", "rows*cols");
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
