// A sample of fixed shape from a set with two classes of unequal size.
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// The keys of elements in a sample: the random word above the complement of the index. So keys differ, the K largest of
// a class are the sample in its order, and a key says which element it belongs to.
inline Value sampler_keys(const Value& seed, const Value& at) {
  const Value word = philox(seed, cast(at, i64_t))[0];
  return cast(word, u64_t) << 32 | cast(~cast(at, u32_t), u64_t);
}

// The elements that keys belong to; -1 where there is none, of key 0.
inline Value sampled(const Value& keys) { return where(keys == 0, -1, cast(~cast(keys, u32_t), i32_t)); }

// For each of `batch` samples: K elements of class 0 and K of class 1, uniformly without replacement.
// docs/use/kernels.md defines it exactly. labels [n] (0, 1; others are in no class), x [n, cols]; index [batch, 2, K]
// (-1 where the class has fewer than K elements), rows [batch, 2, K, cols] (0 there), counts [batch, 2], the sizes of
// the classes. BC ≥ cols.
template <class T = f32>
const auto& class_balanced_sampler() {
  static const Kept def =
      kernel("class_balanced_sampler",
             {"labels", "x", "index", "rows", "counts", "batch", "n", "cols", "seed", "K=64", "BLOCK=16384", "BC=64"},
             [](Ptr<const i32> labels, Ptr<const T> x, Ptr<i32> index, Ptr<T> rows, Ptr<i32> counts, i32 batch, i32 n,
                i32 cols, i64 seed, Const K, Const BLOCK, Const BC) {
               grid(batch);
               const Value sample = program_id(0);
               Var best0 = zeros(u64_t, {K}), best1 = zeros(u64_t, {K});
               Var count0 = 0, count1 = 0;
               for (Value start : range(0, n, BLOCK)) {
                 const Value at = start + arange(0, BLOCK);
                 const Value label = tile(labels, {n}).load({start}, {BLOCK}, {.other = -1});
                 const Value key = sampler_keys(seed + sample, at);
                 auto take = [&](int which, Var& best, Var& count) {
                   const Value member = label == which;
                   count += sum(member, 0);
                   best = lang::topk(cat(best, where(member, key, 0), 0), K, 0).first;
                 };
                 take(0, best0, count0);
                 take(1, best1, count1);
               }
               auto give = [&](int which, const Value& best, const Value& count) {
                 const Value list = cast(sample, i64_t) * 2 + which;
                 const Value at = sampled(best);
                 store(counts + list, count);
                 row_of(index, list, K, K).store({0}, at);
                 const Value lane = expand_dims(arange(0, BC), 0);
                 const Value from = x + expand_dims(cast(at, i64_t) * cols, 1) + lane;
                 const Value row = load(from, {.mask = expand_dims(at >= 0, 1) & (lane < cols)});
                 tile(rows + list * K * cols, {K, cols}).store({0, 0}, row);
               };
               give(0, best0, count0);
               give(1, best1, count1);
             })
          .space({{"BLOCK", {1024, 4096, 16384}}})
          .where("le(cols, BC)")
          .array("labels", "n", "0", "2")
          .array("x", "n*cols")
          .array("index", "batch*2*K")
          .array("rows", "batch*2*K*cols")
          .array("counts", "batch*2")
          .defaults("amd", {{"BLOCK", 2048}})
          .defaults("cuda", {{"BLOCK", 2048}});
  return *def;
}

// The same sample of a long set, as one tile: BLOCK ≥ n. Its counts and its selection are plans of several launches, in
// which all of the device takes part, of up to 64 samples on a GPU.
template <class T = f32>
const auto& class_balanced_sampler_long() {
  static const Kept def =
      kernel("class_balanced_sampler_long",
             {"labels", "x", "index", "rows", "counts", "batch", "n", "cols", "seed", "K=64", "BLOCK=262144", "BC=64"},
             [](Ptr<const i32> labels, Ptr<const T> x, Ptr<i32> index, Ptr<T> rows, Ptr<i32> counts, i32 batch, i32 n,
                i32 cols, i64 seed, Const K, Const BLOCK, Const BC) {
               grid(batch);
               const Value sample = program_id(0), at = arange(0, BLOCK), which = expand_dims(arange(0, 2), 1);
               const Value label = tile(labels, {n}).load({0}, {BLOCK}, {.other = -1});
               const Value key = sampler_keys(seed + sample, at);
               const Value member = expand_dims(label, 0) == which;
               const Value best = lang::topk(where(member, expand_dims(key, 0), 0), K, 1).first;
               const Value list = cast(sample, i64_t) * 2;
               tile(counts + list, {2}).store({0}, sum(member, 1));
               const Value chosen = sampled(best);
               tile(index + list * K, {2, K}).store({0, 0}, chosen);
               const Value element = expand_dims(chosen, 2), lane = arange(0, BC);
               const Value row = load(x + cast(element, i64_t) * cols + lane, {.mask = (element >= 0) & (lane < cols)});
               tile(rows + list * K * cols, {2, K, cols}).store({0, 0, 0}, row);
             })
          .space({{"BLOCK", {65536, 262144, 1048576, 4194304, 16777216}}})
          .where("le(n, BLOCK)")
          .where("le(cols, BC)")
          .defaults("amd", {{"BLOCK", 2048}})
          .array("labels", "n", "0", "2")
          .array("x", "n*cols")
          .array("index", "batch*2*K")
          .array("rows", "batch*2*K*cols")
          .array("counts", "batch*2");
  return *def;
}

// The dynamic form: of each class as many as the smaller one has, which is known only as it runs. index [batch, 2, n/2]
// are the members with the largest words, largest first, -1 behind them; rows [batch, 2, n/2, cols] those of x, not
// written behind them; count [batch], how many of each class. BLOCK ≥ n.
template <class T = f32>
const auto& class_balanced_sampler_dynamic() {
  static const Kept def =
      kernel("class_balanced_sampler_dynamic",
             {"labels", "x", "index", "rows", "count", "batch", "n", "cols", "seed", "BLOCK=16384", "BC=64"},
             [](Ptr<const i32> labels, Ptr<const T> x, Ptr<i32> index, Ptr<T> rows, Ptr<i32> count, i32 batch, i32 n,
                i32 cols, i64 seed, Const BLOCK, Const BC) {
               grid(batch);
               const Value sample = program_id(0), at = arange(0, BLOCK), which = expand_dims(arange(0, 2), 1);
               const Value label = expand_dims(tile(labels, {n}).load({0}, {BLOCK}, {.other = -1}), 0);
               const Value member = label == which;
               const Value taken = reduce_min(sum(member, 1), 0), room = n / 2;
               store(count + sample, taken);
               const Value key = expand_dims(sampler_keys(seed + sample, at), 0);
               const Value best = sort(where(member, key, 0), 1, {.descending = true});
               const Value is_taken = expand_dims(at, 0) < taken;
               const Value chosen = where(is_taken, sampled(best), -1);
               const Value list = (cast(sample, i64_t) * 2 + which) * room + at;
               store(index + list, chosen, {.mask = expand_dims(at, 0) < room});
               const Value lane = arange(0, BC), mask = expand_dims(is_taken, 2) & (lane < cols);
               const Value row = load(x + expand_dims(cast(chosen, i64_t) * cols, 2) + lane, {.mask = mask});
               store(rows + expand_dims(list * cols, 2) + lane, row, {.mask = mask});
             })
          .space({{"BLOCK", {1024, 4096, 16384, 65536, 262144}}})
          .where("le(n, BLOCK)")
          .where("le(cols, BC)")
          .array("labels", "n", "0", "2")
          .array("x", "n*cols")
          .array("index", "batch*2*div(n, 2)")
          .array("rows", "batch*2*div(n, 2)*cols")
          .array("count", "batch")
          .defaults("amd", {{"BLOCK", 2048}})
          .defaults("cuda", {{"BLOCK", 2048}});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
