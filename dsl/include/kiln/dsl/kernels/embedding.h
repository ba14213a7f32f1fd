// Rows of a table [entries, cols] by number, and the gradient of that. Numbers are in 0…entries-1.
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// out[t, :] = table[ids[t], :]
template <class T = f32>
const auto& embedding() {
  static const Kept def =
      kernel("embedding", {"table", "ids", "out", "tokens", "cols", "BLOCK=1024"},
             [](Ptr<const T> table, Ptr<const i32> ids, Ptr<T> out, i32 tokens, i32 cols, Const BLOCK) {
               grid(tokens);
               const Value token = program_id(0);
               const Tile from = row_of(table, load(ids + token), cols, cols);
               const Tile to = row_of(out, token, cols, cols);
               for (Value col : range(0, cols, BLOCK)) {
                 to.store({col}, from.load({col}, {BLOCK}));
               }
             })
          .space({{"BLOCK", {256, 1024, 4096}}})
          .array("table", "tokens*cols")
          .array("ids", "tokens", "0", "tokens")
          .array("out", "tokens*cols");
  return *def;
}

// dtable[ids[t], :] += dout[t, :] by atomics: the order of additions to one row is not fixed
template <class T = f32>
const auto& embedding_backward() {
  static const Kept def =
      kernel("embedding_backward", {"dout", "ids", "dtable", "tokens", "cols", "BLOCK=1024"},
             [](Ptr<const T> dout, Ptr<const i32> ids, Ptr<T> dtable, i32 tokens, i32 cols, Const BLOCK) {
               grid(tokens);
               const Value token = program_id(0);
               const Tile from = row_of(dout, token, cols, cols);
               const Value to = dtable + cast(load(ids + token), i64_t) * cols;
               for (Value col : range(0, cols, BLOCK)) {
                 const Value lane = col + arange(0, BLOCK);
                 atomic_add(to + lane, from.load({col}, {BLOCK}),
                            {.mask = lane < cols, .order = MemoryOrder::kRelaxed});
               }
             })
          .space({{"BLOCK", {256, 1024, 4096}}})
          .array("dout", "tokens*cols")
          .array("ids", "tokens", "0", "tokens")
          .array("dtable", "tokens*cols");
  return *def;
}

// The same in the order of t, so that results do not depend on the number of threads: a program owns BLOCK columns.
template <class T = f32>
const auto& embedding_backward_ordered() {
  static const Kept def =
      kernel("embedding_backward_ordered", {"dout", "ids", "dtable", "tokens", "cols", "BLOCK=256"},
             [](Ptr<const T> dout, Ptr<const i32> ids, Ptr<T> dtable, i32 tokens, i32 cols, Const BLOCK) {
               grid(cdiv(cols, BLOCK));
               const Value col = program_id(0) * BLOCK;
               for (Value token : range(0, tokens)) {
                 const Tile to = row_of(dtable, load(ids + token), cols, cols);
                 const Value slope = row_of(dout, token, cols, cols).load({col}, {BLOCK});
                 to.store({col}, to.load({col}, {BLOCK}) + slope);
               }
             })
          .space({{"BLOCK", {64, 256, 1024}}})
          .array("dout", "tokens*cols")
          .array("ids", "tokens", "0", "tokens")
          .array("dtable", "tokens*cols");
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
