// The gradient of attention, in three kernels without atomics: attention_delta, then attention_backward_keys for dk and
// dv and attention_backward_queries for dq. Both compute the weights anew, from the logarithms of their sums.
//
// With P = exp(scale · q·kᵀ - lse), the weights, and S = P ∘ (dout·vᵀ - delta), the gradient of the scores:
//   dv = Pᵀ·dout   dk = scale · Sᵀ·q   dq = scale · S·k   delta = row sums of dout ∘ out
#pragma once

#include "kiln/dsl/kernels/attention_mask.h"

namespace kiln::dsl::lang::kernels {

// For GPUs: sums of up to two arrays stay in registers beside two products, and f32 without matrix units takes smaller
// blocks.
template <class T>
ConstexprValues backward_blocks() {
  if (std::is_same_v<T, f32>) return {{"BM", 16}, {"BN", 32}, {"num_warps", 8}};
  return {{"BM", 64}, {"BN", 64}, {"num_warps", 8}};
}
template <class T>
ConstexprValues amd_backward_blocks() {
  return {{"BM", std::is_same_v<T, f32> ? 16 : 32}, {"BN", std::is_same_v<T, f32> ? 32 : 64}, {"num_warps", 8}};
}

// On Hopper a group of warps has 64 rows. Gradients of keys 128 wide want {"BM", 32}, {"BN", 128}, {"num_warps", 8}, so
// that nothing spills.
template <class T>
ConstexprValues hopper_backward_blocks() {
  return std::is_same_v<T, f32> ? ConstexprValues() : ConstexprValues{{"num_warps", 4}};
}

// The weights of scores and the gradient of the scores, each of one shape or of one that broadcasts to it.
struct ScoreGradient {
  Value weights, slope;
};
inline ScoreGradient score_gradient(const Value& products, const Value& weight_slope, const Value& scale,
                                    const Value& lse, const Value& delta) {
  constexpr float kLog2E = 1.44269504088896341f;
  const Value weights = exp2(fma(products, scale * kLog2E, lse * -kLog2E), fast);
  return {weights, weights * (weight_slope - delta)};
}

// delta[r] = Σ dout[r, :] ∘ out[r, :], of rows [rows, D]; rows = batch · heads · seq.
template <class T = f32>
const auto& attention_delta() {
  static const Kept def = kernel("attention_delta", {"out", "dout", "delta", "rows", "D=64", "BM=64"},
                                 [](Ptr<const T> out, Ptr<const T> dout, Ptr<f32> delta, i32 rows, Const D, Const BM) {
                                   grid(cdiv(rows, BM));
                                   const Value first = program_id(0) * BM;
                                   const Value o = load_f32(tile(out, {rows, D}), {first, 0}, {BM, D});
                                   const Value slope = load_f32(tile(dout, {rows, D}), {first, 0}, {BM, D});
                                   tile(delta, {rows}).store({first}, sum(o * slope, 1));
                                 })
                              .space({{"BM", {16, 32, 64, 128}}, {"num_warps", {2, 4, 8}}})
                              .array("out", "rows*D")
                              .array("dout", "rows*D")
                              .array("delta", "rows");
  return *def;
}

// The gradients of keys and values, a block of them a program, over the blocks of queries that see it. q, dout, k, v as
// those of attention, dk and dv as k and v; lse and delta are [batch, heads, seq]. Rows behind a sequence's end are 0.
template <class T = f32>
const auto& attention_backward_keys() {
  static const Kept def =
      kernel("attention_backward_keys",
             {"q", "k", "v", "dout", "lse", "delta", "dk", "dv", "lengths", "batch", "heads", "kv_heads", "seq",
              "scale", "D=64", "CAUSAL=0", "WINDOW=0", "BM=64", "BN=64"},
             [](Ptr<const T> q, Ptr<const T> k, Ptr<const T> v, Ptr<const T> dout, Ptr<const f32> lse,
                Ptr<const f32> delta, Ptr<T> dk, Ptr<T> dv, Ptr<const i32> lengths, i32 batch, i32 heads, i32 kv_heads,
                i32 seq, f32 scale, Const D, Const CAUSAL, Const WINDOW, Const BM, Const BN) {
               const AttentionMask mask = {CAUSAL, WINDOW, BM, BN};
               grid(cdiv(seq, BN), kv_heads, batch);
               const Value first = program_id(0) * BN, kv_head = program_id(1), b = cast(program_id(2), i64_t);
               const Value length = load(lengths + program_id(2));
               const Value kv_at = (b * kv_heads + kv_head) * seq * D;
               const Value keys = tile(k + kv_at, {seq, D}).load({first, 0}, {BN, D});
               const Value values = tile(v + kv_at, {seq, D}).load({first, 0}, {BN, D});
               const Value key = first + arange(0, BN);
               Var dkeys = zeros(f32_t, {BN, D}), dvalues = zeros(f32_t, {BN, D});

               const Value begin = mask.first_query(first);
               const Value end = mask.end_query(first, where(first < length, length, 0));
               const Value whole = min(cdiv(end, BM), length / BM) * BM;
               for (Value member : range(0, heads / kv_heads)) {
                 const Value at = (b * heads + (kv_head * (heads / kv_heads) + member)) * seq;
                 // Scores are transposed, a row a key, so that they are a product's left factor where they are
                 // computed.
                 const auto add = [&](const Value& start, const Value& rows) {
                   const Value queries = tile(q + at * D, {rows, D}).load({start, 0}, {BM, D});
                   const Value slopes = tile(dout + at * D, {rows, D}).load({start, 0}, {BM, D});
                   const Value sums = tile(lse + at, {rows}).load({start}, {BM}, {.other = -kLowest});
                   const Value deltas = tile(delta + at, {rows}).load({start}, {BM});
                   const Value products = dot(keys, trans(queries));
                   const Value scores = if_(
                       mask.is_any(),
                       [&] {
                         return if_(
                             mask.is_edge(start, first),
                             [&] {
                               const Value query = start + arange(0, BM);
                               return where(mask.sees(expand_dims(query, 0), expand_dims(key, 1)), products, kLowest);
                             },
                             [&] { return products; });
                       },
                       [&] { return products; });
                   const auto [weights, slope] = score_gradient(scores, dot(values, trans(slopes)), scale,
                                                                expand_dims(sums, 0), expand_dims(deltas, 0));
                   dvalues = dot(cast(weights, element_v<T>), slopes, dvalues);
                   dkeys = dot(cast(slope, element_v<T>), queries, dkeys);
                 };
                 for (Value start : range(begin, whole, BM).stages(2)) add(start, seq);
                 for (Value start : range(whole, end, BM).stages(1)) add(start, length);
               }
               const Value is_inside = expand_dims(key < length, 1);
               tile(dk + kv_at, {seq, D}).store({first, 0}, cast(where(is_inside, dkeys * scale, 0), element_v<T>));
               tile(dv + kv_at, {seq, D}).store({first, 0}, cast(where(is_inside, dvalues, 0), element_v<T>));
             })
          .space(
              {{"BM", {16, 32, 64, 128}}, {"BN", {16, 32, 64, 128}}, {"num_warps", {4, 8}}, {"num_stages", {1, 2, 3}}})
          .where("eq(rem(heads, kv_heads), 0)")
          .array("q", "batch*heads*seq*D")
          .array("k", "batch*kv_heads*seq*D")
          .array("v", "batch*kv_heads*seq*D")
          .array("dout", "batch*heads*seq*D")
          .array("lse", "batch*heads*seq")
          .array("delta", "batch*heads*seq")
          .array("dk", "batch*kv_heads*seq*D")
          .array("dv", "batch*kv_heads*seq*D")
          .array("lengths", "batch", "seq", "seq + 1")
          .defaults("amd", amd_backward_blocks<T>())
          .defaults("cuda", backward_blocks<T>())
          .defaults("cuda:sm_90a", hopper_backward_blocks<T>());
  return *def;
}

// The gradient of queries, a block of them a program, over the blocks of keys that it sees. dq is as q; the rest as for
// attention_backward_keys.
template <class T = f32>
const auto& attention_backward_queries() {
  static const Kept def =
      kernel("attention_backward_queries",
             {"q", "k", "v", "dout", "lse", "delta", "dq", "lengths", "batch", "heads", "kv_heads", "seq", "scale",
              "D=64", "CAUSAL=0", "WINDOW=0", "BM=64", "BN=64"},
             [](Ptr<const T> q, Ptr<const T> k, Ptr<const T> v, Ptr<const T> dout, Ptr<const f32> lse,
                Ptr<const f32> delta, Ptr<T> dq, Ptr<const i32> lengths, i32 batch, i32 heads, i32 kv_heads, i32 seq,
                f32 scale, Const D, Const CAUSAL, Const WINDOW, Const BM, Const BN) {
               const AttentionMask mask = {CAUSAL, WINDOW, BM, BN};
               grid(cdiv(seq, BM), heads, batch);
               // Under CAUSAL the longest rows first: what is left for the end is short.
               const Value first = if_(
                   CAUSAL != 0, [&] { return (cdiv(seq, BM) - 1 - program_id(0)) * BM; },
                   [&] { return program_id(0) * BM; });
               assume(first, {.low = 0});
               const Value head = program_id(1), b = cast(program_id(2), i64_t);
               const Value kv_head = head / (heads / kv_heads);
               assume(kv_head, {.low = 0});
               const Value length = load(lengths + program_id(2));
               const Value at = (b * heads + head) * seq, kv_at = (b * kv_heads + kv_head) * seq * D;
               const Value queries = tile(q + at * D, {seq, D}).load({first, 0}, {BM, D});
               const Value slopes = tile(dout + at * D, {seq, D}).load({first, 0}, {BM, D});
               const Value sums = expand_dims(tile(lse + at, {seq}).load({first}, {BM}), 1);
               const Value deltas = expand_dims(tile(delta + at, {seq}).load({first}, {BM}), 1);
               const Value row = first + arange(0, BM);
               Var dqueries = zeros(f32_t, {BM, D});

               const Value end = mask.end_key(first, where(first < length, length, 0));
               const Value whole = min(cdiv(end, BN), length / BN) * BN;
               const auto sees = [&](const Value& start) {
                 return mask.sees(expand_dims(row, 1), expand_dims(start + arange(0, BN), 0));
               };
               const auto add = [&](const Value& scores, const Value& keys, const Value& values) {
                 const Value slope = score_gradient(scores, dot(slopes, trans(values)), scale, sums, deltas).slope;
                 dqueries = dot(cast(slope, element_v<T>), keys, dqueries);
               };
               for (Value start : range(mask.first_key(first), whole, BN).stages(2)) {
                 const Value keys = tile(k + kv_at, {seq, D}).load({start, 0}, {BN, D});
                 const Value values = tile(v + kv_at, {seq, D}).load({start, 0}, {BN, D});
                 const Value products = dot(queries, trans(keys));
                 const Value scores = if_(
                     mask.is_any(),
                     [&] {
                       return if_(
                           mask.is_edge(first, start), [&] { return where(sees(start), products, kLowest); },
                           [&] { return products; });
                     },
                     [&] { return products; });
                 add(scores, keys, values);
               }
               for (Value start : range(whole, end, BN).stages(1)) {
                 const Value keys = tile(k + kv_at, {length, D}).load({start, 0}, {BN, D});
                 const Value values = tile(v + kv_at, {length, D}).load({start, 0}, {BN, D});
                 const Value inside = expand_dims(start + arange(0, BN) < length, 0);
                 const Value seen = if_(
                     mask.is_any(), [&] { return inside & sees(start); },
                     [&] { return broadcast_to(inside, {BM, BN}); });
                 add(where(seen, dot(queries, trans(keys)), kLowest), keys, values);
               }
               const Value result = where(expand_dims(row < length, 1), dqueries * scale, 0);
               tile(dq + at * D, {seq, D}).store({first, 0}, cast(result, element_v<T>));
             })
          .space(
              {{"BM", {16, 32, 64, 128}}, {"BN", {16, 32, 64, 128}}, {"num_warps", {4, 8}}, {"num_stages", {1, 2, 3}}})
          .where("eq(rem(heads, kv_heads), 0)")
          .array("q", "batch*heads*seq*D")
          .array("k", "batch*kv_heads*seq*D")
          .array("v", "batch*kv_heads*seq*D")
          .array("dout", "batch*heads*seq*D")
          .array("lse", "batch*heads*seq")
          .array("delta", "batch*heads*seq")
          .array("dq", "batch*heads*seq*D")
          .array("lengths", "batch", "seq", "seq + 1")
          .defaults("amd", amd_backward_blocks<T>())
          .defaults("cuda", backward_blocks<T>())
          .defaults("cuda:sm_90a", hopper_backward_blocks<T>());
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
