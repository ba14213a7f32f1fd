// Attention of a block of queries at a time over blocks of keys, by running maximum and sum ("flash").
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// For GPUs: queries stay in registers, and f32 without matrix units takes smaller blocks.
template <class T>
ConstexprValues attention_blocks() {
  if (std::is_same_v<T, f32>) return {{"BM", 64}, {"BN", 32}};
  return {{"BM", 128}, {"BN", 64}, {"num_warps", 8}};
}

// out[b, h] = softmax(scale · q[b, h]·k[b, g]ᵀ) · v[b, g] with g = h / (heads/kv_heads). q and out are [batch, heads,
// seq, D], k and v [batch, kv_heads, seq, D]; heads is a multiple of kv_heads. Sequence b has lengths[b] ≤ seq
// positions: later keys do not count, later rows of out are 0. With CAUSAL = 1 a query sees the keys up to its own
// position.
template <class T = f32>
const auto& attention() {
  static const auto def =
      kernel("attention",
             {"q", "k", "v", "out", "lengths", "batch", "heads", "kv_heads", "seq", "scale", "D=64", "CAUSAL=0",
              "BM=64", "BN=128"},
             [](Ptr<const T> q, Ptr<const T> k, Ptr<const T> v, Ptr<T> out, Ptr<const i32> lengths, i32 batch,
                i32 heads, i32 kv_heads, i32 seq, f32 scale, Const D, Const CAUSAL, Const BM, Const BN) {
               grid(cdiv(seq, BM), heads, batch);
               const Value first = program_id(0) * BM, head = program_id(1), b = cast(program_id(2), i64_t);
               const Value kv_head = head / (heads / kv_heads);
               const Value length = load(lengths + program_id(2));
               const Value at = (b * heads + head) * seq * D, kv_at = (b * kv_heads + kv_head) * seq * D;
               const Value query = tile(q + at, {length, D}).load({first, 0}, {BM, D});
               const Tile keys = tile(k + kv_at, {length, D}), values = tile(v + kv_at, {length, D});
               const Value row = first + arange(0, BM);
               // Powers of two: the scores are scaled by log2(e) too.
               const Value factor = scale * 1.44269504088896341f;

               Value end = where(first < length, length, 0);
               end = if_(CAUSAL != 0, [&] { return min(end, first + BM); }, [&] { return end; });
               Var top = full({BM}, kLowest, f32_t), total = zeros(f32_t, {BM}), acc = zeros(f32_t, {BM, D});
               for (Value start : range(0, end, BN).stages(2)) {
                 const Value col = start + arange(0, BN);
                 const Value products = dot(query, trans(keys.load({start, 0}, {BN, D}))) * factor;
                 const Value inside = expand_dims(col < length, 0);
                 const Value seen = if_(
                     CAUSAL != 0, [&] { return inside & (expand_dims(row, 1) >= expand_dims(col, 0)); },
                     [&] { return broadcast_to(inside, {BM, BN}); });
                 const Value scores = where(seen, products, kLowest);
                 // Key 0 is in the first block and every query sees it: the maximum is finite from there on.
                 const Value next = max(top, reduce_max(scores, 1));
                 const Value shrink = exp2(top - next);
                 const Value weights = exp2(scores - expand_dims(next, 1));
                 total = total * shrink + sum(weights, 1);
                 acc = dot(cast(weights, element_v<T>), values.load({start, 0}, {BN, D}), acc * expand_dims(shrink, 1));
                 top = next;
               }
               const Value mean = acc * expand_dims(1 / total, 1);
               const Value result = where(expand_dims(row < length, 1), mean, 0);
               tile(out + at, {seq, D}).store({first, 0}, cast(result, element_v<T>));
             })
          .space({{"BM", {16, 32, 64, 128}}, {"BN", {32, 64, 128, 256}}})
          .defaults("cuda", attention_blocks<T>());
  return def;
}

}  // namespace kiln::dsl::lang::kernels
