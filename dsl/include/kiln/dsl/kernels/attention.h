// Attention of a block of queries at a time over blocks of keys, by running maximum and sum ("flash").
#pragma once

#include "kiln/dsl/kernels/attention_mask.h"

namespace kiln::dsl::lang::kernels {

// For GPUs: queries stay in registers, and f32 without matrix units takes smaller blocks, so that nothing spills.
template <class T>
ConstexprValues attention_blocks() {
  if (std::is_same_v<T, f32>) return {{"BM", 32}, {"BN", 16}};
  return {{"BM", 128}, {"BN", 64}, {"num_warps", 8}};
}

// Waves of 32 lanes hold fewer keys beside their sums.
template <class T>
ConstexprValues amd_attention_blocks() {
  if (std::is_same_v<T, f32>) return {{"BM", 64}, {"BN", 32}};
  return {{"BM", 128}, {"BN", 32}, {"num_warps", 8}};
}

// On AMD GPUs without matrix instructions: of any type on gfx906, of f32 on RDNA.
inline ConstexprValues plain_attention_blocks() { return {{"BM", 64}, {"BN", 16}, {"num_warps", 8}}; }
template <class T>
ConstexprValues rdna_attention_blocks() {
  return std::is_same_v<T, f32> ? plain_attention_blocks() : ConstexprValues();
}

// On Hopper the weights' products with values run beside the softmax of the next block; four or three of these programs
// share a multiprocessor. Wider heads are faster by {"BM", 128}, {"BN", 128}, {"num_warps", 8}, {"warp_specialise", 1},
// narrow ones by {"BN", 128}.
template <class T>
ConstexprValues hopper_attention_blocks() {
  if (std::is_same_v<T, f32>) return {};
  return {{"BM", 64}, {"BN", 64}, {"num_warps", 4}, {"num_stages", 2}};
}

// What attend_block leaves to be said of a block of queries: where the row of its head is, and of each query its
// position, the maximum of its products and the sum of its weights.
struct AttendedBlock {
  Value at, first, is_inside, top, total;
};

// A program of attention: the block of queries that it has.
template <class T>
AttendedBlock attend_block(const Value& q, const Value& k, const Value& v, const Value& out, const Value& lengths,
                           const Value& batch, const Value& heads, const Value& kv_heads, const Value& seq,
                           const Value& scale, const Const& D, const AttentionMask& mask) {
  const Const &BM = mask.BM, &BN = mask.BN;
  grid(cdiv(seq, BM), heads, batch);
  // Under CAUSAL the longest rows first: what is left for the end is short.
  const Value first = if_(
      mask.CAUSAL != 0, [&] { return (cdiv(seq, BM) - 1 - program_id(0)) * BM; }, [&] { return program_id(0) * BM; });
  assume(first, {.low = 0});
  const Value head = program_id(1), b = cast(program_id(2), i64_t);
  const Value kv_head = head / (heads / kv_heads);
  assume(kv_head, {.low = 0});
  const Value length = load(lengths + program_id(2));
  const Value at = (b * heads + head) * seq, kv_at = (b * kv_heads + kv_head) * seq * D;
  // Rows behind the sequence's end are loaded too, which does not wait for its length.
  const Value query = tile(q + at * D, {seq, D}).load({first, 0}, {BM, D});
  const Value row = first + arange(0, BM);
  // Powers of two: the scores are scaled by log2(e) too.
  const Value factor = scale * 1.44269504088896341f;
  const auto sees = [&](const Value& start) {
    return mask.sees(expand_dims(row, 1), expand_dims(start + arange(0, BN), 0));
  };

  const Value keys_end = where(first < length, length, 0);
  const Value end = mask.end_key(first, keys_end);
  // Without a window key 0 is in the first block and every query sees it: the maximum is finite from there on.
  Var top =
      if_(mask.WINDOW != 0, [&] { return full({BM}, kNoScore, f32_t); }, [&] { return full({BM}, kLowest, f32_t); });
  Var total = zeros(f32_t, {BM}), acc = zeros(f32_t, {BM, D});
  const auto attend = [&](const Value& products, const Value& value) {
    const Value next = max(top, reduce_max(products, 1));
    const Value shrink = exp2((top - next) * factor, fast);
    const Value weights = exp2(fma(products, factor, expand_dims(next * -factor, 1)), fast);
    total = total * shrink + sum(weights, 1);
    acc = dot(cast(weights, element_v<T>), value, acc * expand_dims(shrink, 1));
    top = next;
  };

  // Blocks without keys behind the sequence's end need no mask but that of the edges.
  const Value blocks = cdiv(end, BN), full_blocks = keys_end / BN;
  const Value whole = min(blocks, full_blocks) * BN;
  const Tile keys = tile(k + kv_at, {seq, D}), values = tile(v + kv_at, {seq, D});
  for (Value start : range(mask.first_key(first), whole, BN).stages(3)) {
    const Value products = dot(query, trans(keys.load({start, 0}, {BN, D})));
    const Value scores = if_(
        mask.is_any(),
        [&] {
          return if_(
              mask.is_edge(first, start), [&] { return where(sees(start), products, kLowest); },
              [&] { return products; });
        },
        [&] { return products; });
    attend(scores, values.load({start, 0}, {BN, D}));
  }
  const Tile last_keys = tile(k + kv_at, {length, D}), last_values = tile(v + kv_at, {length, D});
  for (Value start : range(whole, end, BN).stages(1)) {
    const Value products = dot(query, trans(last_keys.load({start, 0}, {BN, D})));
    const Value inside = expand_dims(start + arange(0, BN) < length, 0);
    const Value seen =
        if_(mask.is_any(), [&] { return inside & sees(start); }, [&] { return broadcast_to(inside, {BM, BN}); });
    attend(where(seen, products, kLowest), last_values.load({start, 0}, {BN, D}));
  }
  const Value is_inside = row < length;
  const Value mean = acc * expand_dims(1 / total, 1);
  const Value result = where(expand_dims(is_inside, 1), mean, 0);
  tile(out + at * D, {seq, D}).store({first, 0}, cast(result, element_v<T>));
  return {at, first, is_inside, top, total};
}

// How every form of attention is tuned, and what the tuner is to know of its arrays.
template <class T, class Def>
Def attention_hints(Def def) {
  return std::move(def)
      .space({{"BM", {16, 32, 64, 128}},
              {"BN", {32, 64, 128, 256}},
              {"num_warps", {4, 8}},
              {"num_stages", {1, 2, 3}},
              {"warp_specialise", {0, 1}}})
      .array("q", "batch*heads*seq*D")
      .array("k", "batch*kv_heads*seq*D")
      .array("v", "batch*kv_heads*seq*D")
      .array("out", "batch*heads*seq*D")
      .array("lengths", "batch", "seq", "seq + 1")
      .defaults("amd", amd_attention_blocks<T>())
      .defaults("amd:gfx906", plain_attention_blocks())
      .defaults("amd:gfx1100", rdna_attention_blocks<T>())
      .defaults("amd:gfx1200", rdna_attention_blocks<T>())
      .defaults("cuda", attention_blocks<T>())
      .defaults("cuda:sm_90a", hopper_attention_blocks<T>());
}

// out[b, h] = softmax(scale · q[b, h]·k[b, g]ᵀ) · v[b, g] with g = h / (heads/kv_heads). q and out are [batch, heads,
// seq, D], k and v [batch, kv_heads, seq, D]; heads is a multiple of kv_heads, scale is above 0. Sequence b has
// lengths[b] ≤ seq positions: later keys do not count, later rows of out are 0. Of the others CAUSAL and WINDOW say
// which a query sees (attention_mask.h).
template <class T = f32>
const auto& attention() {
  static const auto def = attention_hints<T>(
      kernel("attention",
             {"q", "k", "v", "out", "lengths", "batch", "heads", "kv_heads", "seq", "scale", "D=64", "CAUSAL=0",
              "WINDOW=0", "BM=64", "BN=128"},
             [](Ptr<const T> q, Ptr<const T> k, Ptr<const T> v, Ptr<T> out, Ptr<const i32> lengths, i32 batch,
                i32 heads, i32 kv_heads, i32 seq, f32 scale, Const D, Const CAUSAL, Const WINDOW, Const BM, Const BN) {
               attend_block<T>(q, k, v, out, lengths, batch, heads, kv_heads, seq, scale, D, {CAUSAL, WINDOW, BM, BN});
             }));
  return def;
}

// The same, and what the gradient wants: lse [batch, heads, seq], the logarithms of the sums of exp(scale · products)
// that a query sees; 0 behind a sequence's end.
template <class T = f32>
const auto& attention_with_lse() {
  static const auto def =
      attention_hints<T>(kernel("attention_with_lse",
                                {"q", "k", "v", "out", "lse", "lengths", "batch", "heads", "kv_heads", "seq", "scale",
                                 "D=64", "CAUSAL=0", "WINDOW=0", "BM=64", "BN=128"},
                                [](Ptr<const T> q, Ptr<const T> k, Ptr<const T> v, Ptr<T> out, Ptr<f32> lse,
                                   Ptr<const i32> lengths, i32 batch, i32 heads, i32 kv_heads, i32 seq, f32 scale,
                                   Const D, Const CAUSAL, Const WINDOW, Const BM, Const BN) {
                                  const AttendedBlock rows =
                                      attend_block<T>(q, k, v, out, lengths, batch, heads, kv_heads, seq, scale, D,
                                                      {CAUSAL, WINDOW, BM, BN});
                                  const Value sums = fma(rows.top, scale, log(rows.total));
                                  tile(lse + rows.at, {seq}).store({rows.first}, where(rows.is_inside, sums, 0));
                                }))
          .array("lse", "batch*heads*seq");
  return def;
}

}  // namespace kiln::dsl::lang::kernels
