// Attention of the last few tokens of sequences whose keys and values lie in the pages of a cache: each sequence is
// split over programs, whose results a second kernel combines.
#pragma once

#include "kiln/dsl/kernels/attention_mask.h"

namespace kiln::dsl::lang::kernels {

// Where there are no matrix units for the type, smaller blocks.
template <class T>
ConstexprValues decode_blocks() {
  if (std::is_same_v<T, f32>) return {{"BN", 16}};
  return {{"BN", 32}, {"num_warps", 2}, {"num_stages", 2}};
}

template <class T>
ConstexprValues amd_decode_blocks() {
  if (std::is_same_v<T, f32>) return {{"BN", 16}};
  return {{"BN", 64}, {"num_warps", 4}, {"num_stages", 3}};
}

// The `tokens` last tokens of sequence b, whose queries are q[b], see the keys up to their own: keys 0…lengths[b]-1 are
// in the cache, their own among them. q is [batch, tokens, heads, D]. k_pages and v_pages are [pages, PAGE, kv_heads,
// D]; key j of sequence b is row j mod PAGE of page table[b, j / PAGE], with a table of [batch, max_pages] whose
// entries behind a sequence's end are not read. heads is a multiple of kv_heads, scale is above 0.
//
// Split s of a sequence has every splits-th part of its keys, in whole blocks of BN. partial [batch, tokens, heads,
// splits, D] is the attention to those alone, and lse [batch, tokens, heads, splits] the logarithm of the sum of
// exp(scale · products) over them: -inf where there are none, and partial is not written. attention_combine finishes.
//
// A program has ROWS queries of the tokens and heads that share keys: each key is read once, if ROWS ≥ tokens ·
// heads/kv_heads.
template <class T = f32>
const auto& attention_decode() {
  static const Kept def =
      kernel("attention_decode",
             {"q", "k_pages", "v_pages", "table", "lengths", "partial", "lse", "batch", "tokens", "heads", "kv_heads",
              "max_pages", "splits", "scale", "D=64", "PAGE=16", "ROWS=16", "BN=64"},
             [](Ptr<const T> q, Ptr<const T> k_pages, Ptr<const T> v_pages, Ptr<const i32> table,
                Ptr<const i32> lengths, Ptr<f32> partial, Ptr<f32> lse, i32 batch, i32 tokens, i32 heads, i32 kv_heads,
                i32 max_pages, i32 splits, f32 scale, Const D, Const PAGE, Const ROWS, Const BN) {
               grid(splits, kv_heads * cdiv(tokens * (heads / kv_heads), ROWS), batch);
               const Value split = program_id(0), b = program_id(2);
               const Value group = heads / kv_heads, rows = tokens * group;
               const Value row_blocks = cdiv(rows, ROWS);
               const Value kv_head = program_id(1) / row_blocks;
               const Value row = program_id(1) % row_blocks * ROWS + arange(0, ROWS);
               const Value token = row / group;
               // Of q and of what is written: the row of its array.
               const Value query_row = cast(b * tokens + token, i64_t) * heads + (kv_head * group + row % group);
               const Value is_row = row < rows;
               const Value lane = expand_dims(arange(0, D), 0);
               const Value query = load(q + (expand_dims(query_row * D, 1) + lane), {.mask = expand_dims(is_row, 1)});

               const Value length = load(lengths + b);
               const Value part = cdiv(cdiv(length, BN), splits) * BN;
               const Value start = split * part, end = min(start + part, length);
               const Value last_seen = length - tokens + token;
               const Value factor = scale * 1.44269504088896341f;  // the weights are powers of two
               Var top = full({ROWS}, kNoScore, f32_t), total = zeros(f32_t, {ROWS}), acc = zeros(f32_t, {ROWS, D});
               for (Value first : range(start, end, BN).stages(3)) {
                 const Value key = first + arange(0, BN);
                 const Value is_key = key < length;
                 const Value page = load(table + (cast(b, i64_t) * max_pages + key / PAGE), {.mask = is_key});
                 const Value cached = (cast(page, i64_t) * PAGE + key % PAGE) * kv_heads + kv_head;
                 const Value at = expand_dims(cached * D, 1) + lane;
                 const Value keys = load(k_pages + at, {.mask = expand_dims(is_key, 1)});
                 const Value values = load(v_pages + at, {.mask = expand_dims(is_key, 1)});
                 const Value is_seen = expand_dims(key, 0) <= expand_dims(last_seen, 1);
                 const Value scores = where(is_seen, dot(query, trans(keys)), kLowest);
                 const Value next = max(top, reduce_max(scores, 1));
                 const Value shrink = exp2((top - next) * factor, fast);
                 const Value weights = exp2(fma(scores, factor, expand_dims(next * -factor, 1)), fast);
                 total = total * shrink + sum(weights, 1);
                 acc = dot(cast(weights, element_v<T>), values, acc * expand_dims(shrink, 1));
                 top = next;
               }
               const Value to = query_row * splits + split;
               const Value is_any = is_row & (total > 0);
               store(partial + (expand_dims(to * D, 1) + lane), acc * expand_dims(1 / total, 1),
                     {.mask = expand_dims(is_any, 1)});
               store(lse + to, where(total > 0, fma(top, scale, log(total)), kLowest), {.mask = is_row});
             })
          .where("eq(rem(heads, kv_heads), 0)")
          .space({{"ROWS", {16, 32, 64}},
                  {"BN", {16, 32, 64, 128}},
                  {"num_warps", {1, 2, 4, 8}},
                  {"num_stages", {1, 2, 3, 4}}})
          .array("q", "batch*tokens*heads*D")
          .array("k_pages", "batch*max_pages*PAGE*kv_heads*D")
          .array("v_pages", "batch*max_pages*PAGE*kv_heads*D")
          .array("table", "batch*max_pages", "0", "batch*max_pages")
          .array("lengths", "batch", "max_pages*PAGE", "max_pages*PAGE + 1")
          .array("partial", "batch*tokens*heads*splits*D")
          .array("lse", "batch*tokens*heads*splits")
          .defaults("amd", amd_decode_blocks<T>())
          .defaults("cuda", decode_blocks<T>());
  return *def;
}

// out[r] of the rows [rows, splits, D] of partial and [rows, splits] of lse that attention_decode writes, with rows =
// batch · tokens · heads. Rows that saw no key are 0.
template <class T = f32>
const auto& attention_combine() {
  static const Kept def =
      kernel("attention_combine", {"partial", "lse", "out", "rows", "splits", "D=64", "BLOCK=8"},
             [](Ptr<const f32> partial, Ptr<const f32> lse, Ptr<T> out, i32 rows, i32 splits, Const D, Const BLOCK) {
               grid(rows);
               const Value row = cast(program_id(0), i64_t);
               const Tile parts = tile(lse + row * splits, {splits});
               const auto sums = [&](const Value& split) { return parts.load({split}, {BLOCK}, {.other = kLowest}); };
               Var tops = full({BLOCK}, kNoScore, f32_t);
               for (Value split : range(0, splits, BLOCK)) tops = max(tops, sums(split));
               const Value top = reduce_max(tops, 0);
               const Value lane = expand_dims(arange(0, D), 0);
               Var totals = zeros(f32_t, {BLOCK}), acc = zeros(f32_t, {BLOCK, D});
               for (Value split : range(0, splits, BLOCK)) {
                 const Value weights = exp(sums(split) - top);
                 const Value from = (row * splits + split + arange(0, BLOCK)) * D;
                 // What has no weight was not written.
                 const Value part =
                     load(partial + (expand_dims(from, 1) + lane), {.mask = expand_dims(weights > 0, 1)});
                 totals += weights;
                 acc += part * expand_dims(weights, 1);
               }
               const Value total = sum(totals, 0);
               const Value mean = where(total > 0, sum(acc, 0) / total, 0);
               tile(out + row * D, {D}).store({0}, cast(mean, element_v<T>));
             })
          .space({{"BLOCK", {4, 8, 16, 32}}, {"num_warps", {1, 2, 4}}})
          .array("partial", "rows*splits*D")
          .array("lse", "rows*splits")
          .array("out", "rows*D");
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
