// Bags of rows of many tables in one launch, and steps of optimisers that take the gradient of the bags.
//
// All tables have rows of `cols` elements; they may be allocated separately. `tables` is what tensor_table says of them
// (kiln/dsl/tensor_table.h, a chunk of 2^31 - 1): for each table its elements, and where it begins in each array. Bag
// t·batch + s is that of table t and sample s, and has ids[offsets[bag] … offsets[bag + 1] - 1]. The number `padding`
// does not count; -1: all count. Rows of sample s and table t lie at s·stride + t·cols of an array of bags, which may
// be a part of a longer one: a concatenation.
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// What a bag does with its rows: MODE of embedding_bag.
enum class Bag : int64_t { kSum = 0, kMean = 1, kMax = 2 };

// Table `number` of the array whose base this is.
inline Value table_at(const Value& base, const Value& tables, const Value& number, int arrays, int array) {
  return base + load(tables + cast(number, i64_t) * (1 + arrays) + (1 + array));
}

// out = the sum, mean (MODE=1) or maximum (MODE=2) of the rows of each bag; 0 of an empty one. With WEIGHTED=1 row i
// counts weights[i] times, in sums alone.
template <class T = f32>
const auto& embedding_bag() {
  static const Kept def =
      kernel("embedding_bag",
             {"table", "tables", "ids", "offsets", "weights", "out", "batch", "count", "cols", "stride", "padding",
              "MODE=0", "WEIGHTED=0", "ROWS=1", "BLOCK=512"},
             [](Ptr<const T> table, Ptr<const i64> tables, Ptr<const i32> ids, Ptr<const i32> offsets,
                Ptr<const f32> weights, Ptr<T> out, i32 batch, i32 count, i32 cols, i32 stride, i32 padding, Const MODE,
                Const WEIGHTED, Const ROWS, Const BLOCK) {
               require(WEIGHTED == 0 || MODE == 0, "weights are for sums");
               grid(batch, count);
               const Value sample = program_id(0), number = program_id(1), bag = number * batch + sample;
               const Value from = table_at(table, tables, number, 1, 0);
               const Value first = load(offsets + bag), end = load(offsets + bag + 1);
               const Tile to = tile(out + cast(sample, i64_t) * stride + cast(number, i64_t) * cols, {cols});
               for (Value col : range(0, cols, BLOCK)) {
                 const Value lane = expand_dims(col + arange(0, BLOCK), 0);
                 Var total = full({BLOCK}, where(MODE == 2, kLowest, 0.0F), f32_t);
                 Var members = 0;
                 for (Value at : range(first, end, ROWS)) {
                   const Value place = at + arange(0, ROWS);
                   const Value id = load(ids + place, {.mask = place < end, .other = padding});
                   const Value counts = (place < end) & (id != padding);
                   const Value mask = expand_dims(counts, 1) & (lane < cols);
                   const Value row = from + expand_dims(cast(id, i64_t) * cols, 1) + lane;
                   const Value v = cast(load(row, {.mask = mask}), f32_t);
                   members += sum(counts, 0);
                   if_(
                       MODE == 2, [&] { total = max(total, reduce_max(where(mask, v, kLowest), 0)); },
                       [&] {
                         const Value factor = if_(
                             WEIGHTED == 1, [&] { return load(weights + place, {.mask = counts}); },
                             [&] { return full({ROWS}, 1, f32_t); });
                         total += sum(v * expand_dims(factor, 1), 0);
                       });
                 }
                 if_(MODE == 1, [&] { total = total / cast(max(members, 1), f32_t); });
                 to.store({col}, cast(where(members == 0, 0, total), element_v<T>));
               }
             })
          .space({{"ROWS", {1, 2, 4, 8}}, {"BLOCK", {64, 128, 256, 512, 1024}}, {"num_warps", {1, 2, 4}}})
          .array("table", "4096*cols")
          .array("tables", "2*count", "0", "1")
          .array("ids", "batch*count", "0", "4096")
          .array("offsets", "count*batch + 1", "0", "2")
          .array("weights", "batch*count", "0", "1")
          .array("out", "batch*stride")
          .where("le(count, 65535)")
          .where("le(count*cols, stride)")
          .defaults("amd", {{"ROWS", 4}, {"BLOCK", 128}, {"num_warps", 1}})
          .defaults("cuda", {{"ROWS", 4}, {"BLOCK", 128}, {"num_warps", 1}});
  return *def;
}

// What the gradient needs of each id: keys, the table above the row, all ones for padding; its bag; and how many times
// its row counts there, by MODE (0 or 1) and WEIGHTED.
inline const auto& embedding_keys() {
  static const Kept def =
      kernel("embedding_keys",
             {"ids", "offsets", "weights", "keys", "bags", "factors", "batch", "count", "padding", "MODE=0",
              "WEIGHTED=0", "BLOCK=64"},
             [](Ptr<const i32> ids, Ptr<const i32> offsets, Ptr<const f32> weights, Ptr<u64> keys, Ptr<i32> bags,
                Ptr<f32> factors, i32 batch, i32 count, i32 padding, Const MODE, Const WEIGHTED, Const BLOCK) {
               require(MODE == 0 || MODE == 1, "MODE is 0, a sum, or 1, a mean");
               require(WEIGHTED == 0 || MODE == 0, "weights are for sums");
               grid(batch * count);
               const Value bag = program_id(0);
               const Value first = load(offsets + bag), end = load(offsets + bag + 1);
               Var members = 0;
               for (Value at : range(first, end, BLOCK)) {
                 const Value id = tile(ids, {end}).load({at}, {BLOCK}, {.other = padding});
                 members += sum((id != padding) & (at + arange(0, BLOCK) < end), 0);
               }
               const Value share =
                   if_(MODE == 1, [&] { return 1 / cast(max(members, 1), f32_t); }, [&] { return 1.0F; });
               const Value high = cast(bag / batch, u64_t) << 32;
               for (Value at : range(first, end, BLOCK)) {
                 const Value id = tile(ids, {end}).load({at}, {BLOCK});
                 const Value key = where(id == padding, ~cast(0, u64_t), high | cast(cast(id, u32_t), u64_t));
                 tile(keys, {end}).store({at}, key);
                 tile(bags, {end}).store({at}, full({BLOCK}, bag, i32_t));
                 const Value factor = if_(
                     WEIGHTED == 1, [&] { return tile(weights, {end}).load({at}, {BLOCK}); },
                     [&] { return full({BLOCK}, share, f32_t); });
                 tile(factors, {end}).store({at}, factor);
               }
             })
          .space({{"BLOCK", {32, 64, 256}}, {"num_warps", {1, 2, 4}}})
          .array("ids", "batch*count", "0", "4096")
          .array("offsets", "count*batch + 1", "0", "2")
          .array("weights", "batch*count", "0", "1")
          .array("keys", "batch*count")
          .array("bags", "batch*count")
          .array("factors", "batch*count")
          .defaults("amd", {{"num_warps", 1}})
          .defaults("cuda", {{"num_warps", 1}});
  return *def;
}

// The keys in ascending order, and where each stood; equal ones in the order they had. BLOCK ≥ n.
inline const auto& embedding_order() {
  static const Kept def = kernel("embedding_order", {"keys", "sorted", "order", "n", "BLOCK=65536"},
                                 [](Ptr<const u64> keys, Ptr<u64> sorted, Ptr<i32> order, i32 n, Const BLOCK) {
                                   grid(1);
                                   const Value all = ~cast(0, u64_t), at = arange(0, BLOCK);
                                   // Lanes behind the end are as great as any key, and the sort is stable.
                                   const Value key = tile(keys, {n}).load({0}, {BLOCK}, {.other = all});
                                   const auto [first, second] = sort(key, at, 0);
                                   tile(sorted, {n}).store({0}, first);
                                   tile(order, {n}).store({0}, second);
                                 })
                              .space({{"BLOCK", {4096, 65536, 262144, 1048576}}})
                              .where("le(n, BLOCK)")
                              .array("keys", "n")
                              .array("sorted", "n")
                              .array("order", "n")
                              .defaults("amd", {{"BLOCK", 1024}, {"num_warps", 16}})
                              .defaults("cuda", {{"BLOCK", 2048}, {"num_warps", 16}});
  return *def;
}

// The gradient of one row: that of each of its ids, in their order. Runs `step(key, lanes, gradient)` for the first of
// the ids of each row.
template <class T, class Step>
void for_each_row(const Value& sorted, const Value& order, const Value& bags, const Value& factors, const Value& dout,
                  const i32& n, const i32& batch, const i32& cols, const i32& stride, const Const& BLOCK, Step step) {
  grid(n);
  const Value place = program_id(0), key = load(sorted + place);
  const Value before = load(sorted + place - 1, {.mask = place > 0, .other = ~key});
  if_((before != key) & (key != ~cast(0, u64_t)), [&] {
    Var at = place, total = zeros(f32_t, {BLOCK});
    while_([&] { return (at < n) & (load(sorted + at, {.mask = at < n, .other = ~key}) == key); },
           [&] {
             const Value id = load(order + at), bag = load(bags + id);
             const Value row = dout + cast(bag % batch, i64_t) * stride + cast(bag / batch, i64_t) * cols;
             total += load_f32(tile(row, {cols}), {0}, {BLOCK}) * load(factors + id);
             at += 1;
           });
    step(key, total.read());
  });
}

template <class Def>
Def row_step_hints(Def def) {
  return std::move(def)
      .space({{"BLOCK", {64, 128, 256, 512, 1024}}, {"num_warps", {1, 2, 4}}})
      .where("le(cols, BLOCK)")
      .array("sorted", "n", "0", "4096")
      .array("order", "n", "0", "n")
      .array("bags", "n", "0", "batch")
      .array("factors", "n", "0", "1")
      .array("dout", "batch*stride")
      .defaults("amd", {{"BLOCK", 256}, {"num_warps", 1}})
      .defaults("cuda", {{"BLOCK", 256}, {"num_warps", 1}});
}

// Row (t, r) of a table and of its state.
struct TableRow {
  Value table, row;
};
inline TableRow row_of_key(const Value& key) { return {cast(key >> 32, i32_t), cast(key & 0xffffffff, i64_t)}; }

// One step of SGD on the rows that ids name, with g the gradient of a row: w = w - lr·g.
template <class T = f32>
const auto& embedding_sgd() {
  static const Kept def = row_step_hints(
      kernel(
          "embedding_sgd",
          {"table", "tables", "sorted", "order", "bags", "factors", "dout", "n", "batch", "cols", "stride", "lr",
           "BLOCK=512"},
          [](Ptr<T> table, Ptr<const i64> tables, Ptr<const u64> sorted, Ptr<const i32> order, Ptr<const i32> bags,
             Ptr<const f32> factors, Ptr<const T> dout, i32 n, i32 batch, i32 cols, i32 stride, f32 lr, Const BLOCK) {
            for_each_row<T>(sorted, order, bags, factors, dout, n, batch, cols, stride, BLOCK,
                            [&](const Value& key, const Value& gradient) {
                              const auto [number, row] = row_of_key(key);
                              const Tile to = tile(table_at(table, tables, number, 1, 0) + row * cols, {cols});
                              const Value next = load_f32(to, {0}, {BLOCK}) - gradient * lr;
                              to.store({0}, cast(next, element_v<T>));
                            });
          })
          .array("table", "4096*cols")
          .array("tables", "2", "0", "1"));
  return *def;
}

// Adagrad: state [rows, cols] of f32 += g², w = w - lr·g/(sqrt(state) + eps).
template <class T = f32>
const auto& embedding_adagrad() {
  static const Kept def = row_step_hints(
      kernel("embedding_adagrad",
             {"table", "state", "tables", "sorted", "order", "bags", "factors", "dout", "n", "batch", "cols", "stride",
              "lr", "eps", "BLOCK=512"},
             [](Ptr<T> table, Ptr<f32> state, Ptr<const i64> tables, Ptr<const u64> sorted, Ptr<const i32> order,
                Ptr<const i32> bags, Ptr<const f32> factors, Ptr<const T> dout, i32 n, i32 batch, i32 cols, i32 stride,
                f32 lr, f32 eps, Const BLOCK) {
               for_each_row<T>(sorted, order, bags, factors, dout, n, batch, cols, stride, BLOCK,
                               [&](const Value& key, const Value& gradient) {
                                 const auto [number, row] = row_of_key(key);
                                 const Tile to = tile(table_at(table, tables, number, 2, 0) + row * cols, {cols});
                                 const Tile kept = tile(table_at(state, tables, number, 2, 1) + row * cols, {cols});
                                 const Value squares = kept.load({0}, {BLOCK}) + gradient * gradient;
                                 kept.store({0}, squares);
                                 const Value next = load_f32(to, {0}, {BLOCK}) - gradient / (sqrt(squares) + eps) * lr;
                                 to.store({0}, cast(next, element_v<T>));
                               });
             })
          .array("table", "4096*cols")
          .array("state", "4096*cols", "0", "1")
          .array("tables", "3", "0", "1"));
  return *def;
}

// Adagrad with one state for a row: state [rows] of f32 += the mean of g², w = w - lr·g/(sqrt(state) + eps).
template <class T = f32>
const auto& embedding_rowwise_adagrad() {
  static const Kept def = row_step_hints(
      kernel("embedding_rowwise_adagrad",
             {"table", "state", "tables", "sorted", "order", "bags", "factors", "dout", "n", "batch", "cols", "stride",
              "lr", "eps", "BLOCK=512"},
             [](Ptr<T> table, Ptr<f32> state, Ptr<const i64> tables, Ptr<const u64> sorted, Ptr<const i32> order,
                Ptr<const i32> bags, Ptr<const f32> factors, Ptr<const T> dout, i32 n, i32 batch, i32 cols, i32 stride,
                f32 lr, f32 eps, Const BLOCK) {
               for_each_row<T>(sorted, order, bags, factors, dout, n, batch, cols, stride, BLOCK,
                               [&](const Value& key, const Value& gradient) {
                                 const auto [number, row] = row_of_key(key);
                                 const Tile to = tile(table_at(table, tables, number, 2, 0) + row * cols, {cols});
                                 const Value kept = table_at(state, tables, number, 2, 1) + row;
                                 const Value square = load(kept) + sum(gradient * gradient, 0) / cast(cols, f32_t);
                                 store(kept, square);
                                 const Value next = load_f32(to, {0}, {BLOCK}) - gradient * (lr / (sqrt(square) + eps));
                                 to.store({0}, cast(next, element_v<T>));
                               });
             })
          .array("table", "4096*cols")
          .array("state", "4096", "0", "1")
          .array("tables", "3", "0", "1"));
  return *def;
}

// SGD without an order of the ids: each adds its part to its row by atomics, in no fixed order. For sums; with
// WEIGHTED=1 by weights.
template <class T = f32>
const auto& embedding_sgd_atomic() {
  static const Kept def =
      kernel("embedding_sgd_atomic",
             {"table", "tables", "ids", "offsets", "weights", "dout", "batch", "count", "cols", "stride", "padding",
              "lr", "WEIGHTED=0", "BLOCK=512"},
             [](Ptr<T> table, Ptr<const i64> tables, Ptr<const i32> ids, Ptr<const i32> offsets, Ptr<const f32> weights,
                Ptr<const T> dout, i32 batch, i32 count, i32 cols, i32 stride, i32 padding, f32 lr, Const WEIGHTED,
                Const BLOCK) {
               grid(batch, count);
               const Value sample = program_id(0), number = program_id(1), bag = number * batch + sample;
               const Value to = table_at(table, tables, number, 1, 0);
               const Value slope = dout + cast(sample, i64_t) * stride + cast(number, i64_t) * cols;
               const Value lane = arange(0, BLOCK);
               const Value gradient = load_f32(tile(slope, {cols}), {0}, {BLOCK}) * -lr;
               for (Value at : range(load(offsets + bag), load(offsets + bag + 1))) {
                 const Value id = load(ids + at);
                 const Value factor = if_(WEIGHTED == 1, [&] { return load(weights + at); }, [&] { return 1.0F; });
                 atomic_add(to + cast(id, i64_t) * cols + lane, cast(gradient * factor, element_v<T>),
                            {.mask = (lane < cols) & (id != padding), .order = MemoryOrder::kRelaxed});
               }
             })
          .space({{"BLOCK", {64, 128, 256, 512, 1024}}, {"num_warps", {1, 2, 4}}})
          .where("le(cols, BLOCK)")
          .where("le(count, 65535)")
          .array("table", "4096*cols")
          .array("tables", "2*count", "0", "1")
          .array("ids", "batch*count", "0", "4096")
          .array("offsets", "count*batch + 1", "0", "2")
          .array("weights", "batch*count", "0", "1")
          .array("dout", "batch*stride")
          .defaults("amd", {{"BLOCK", 256}, {"num_warps", 1}})
          .defaults("cuda", {{"BLOCK", 256}, {"num_warps", 1}});
  return *def;
}

// The gradient of dlrm_interaction, its concatenation with the first feature included: of out = (features[b, 0], then
// features[b, i]·features[b, j] for j < i) the slopes dout become dfeatures [batch, F, D].
template <class T = f32>
const auto& dlrm_interaction_backward() {
  static const Kept def =
      kernel("dlrm_interaction_backward", {"features", "dout", "dfeatures", "batch", "F=27", "D=128"},
             [](Ptr<const T> features, Ptr<const T> dout, Ptr<T> dfeatures, i32 batch, Const F, Const D) {
               grid(batch);
               const Value sample = cast(program_id(0), i64_t);
               const Value slopes = dout + sample * (D + F * (F - 1) / 2);
               const Value block = tile(features + sample * F * D, {F, D}).load({0, 0}, {F, D});
               const Value i = expand_dims(arange(0, F), 1), j = expand_dims(arange(0, F), 0);
               const Value high = max(i, j), low = min(i, j);
               // Of the product of two features both have the other one's share; a feature has none with itself.
               const Value pairs = load(slopes + D + high * (high - 1) / 2 + low, {.mask = i != j});
               const Value of_first = load_f32(tile(slopes, {D}), {0}, {D});
               const Value total = dot(pairs, block) + where(i == 0, expand_dims(of_first, 0), 0);
               tile(dfeatures + sample * F * D, {F, D}).store({0, 0}, cast(total, element_v<T>));
             })
          .space({})
          .array("features", "batch*F*D")
          .array("dout", "batch*(D + div(F*(F - 1), 2))")
          .array("dfeatures", "batch*F*D")
          .defaults("amd", {{"num_warps", 8}})
          .defaults("cuda", {{"num_warps", 8}});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
