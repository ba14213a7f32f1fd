// Attention of a block of queries at a time over blocks of keys, by running maximum and sum ("flash").
#pragma once

#include "kiln/dsl/kernels/attention_mask.h"
#include "kiln/target/schedule_options.h"

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
// share a multiprocessor. Wider heads are faster by {"BM", 128}, {"BN", 128}, {"num_warps", 8} and
// warp_specialise persistent, under CAUSAL 1; narrow ones by {"BN", 128}.
template <class T>
ConstexprValues hopper_attention_blocks() {
  if (std::is_same_v<T, f32>) return {};
  return {{"BM", 64}, {"BN", 64}, {"num_warps", 4}, {"num_stages", 2}};
}

// Rows of 128 are what tcgen05 multiplies; a thread has a whole one.
template <class T>
ConstexprValues tensor_memory_attention_blocks() {
  if (std::is_same_v<T, f32>) return {};
  return {{"BM", 128}, {"BN", 64}, {"num_warps", 4}, {"num_stages", 2}};
}

// What attend_block leaves to be said of a block of queries: where the row of its head is, and of each query its
// position, the maximum of its products and the sum of its weights.
struct AttendedBlock {
  Value at, first, is_inside, top, total;
};

// What numbers of f8 stand for, by head: arrays of f32 by which q [batch, heads], k and v [batch, kv_heads] are
// multiplied. Values are given with keys as their fastest axis, [batch, kv_heads, D, seq], the only order in which
// matrix units read f8.
struct F8Scales {
  Value q, k, v;
};

// Weights of f8 are multiplied by 2^8, below the largest number of e4m3, 448, so that more of the small ones count.
inline constexpr float kF8WeightBits = 8;

// The block of queries that a program has: its head, and the position of its first query.
struct QueryBlock {
  Value head, first;
};

// Under CAUSAL the longest blocks first: what is left for the end is short. With TOGETHER those of several heads, as
// many as have that many MiB of keys and values, which an L2 cache keeps: a single head's do not fill a GPU, which
// would be waiting for the last head's longest blocks.
template <class T>
QueryBlock query_block(const Value& heads, const Value& seq, const Const& D, const AttentionMask& mask,
                       const Const& TOGETHER) {
  const Value blocks = num_programs(0), number = program_id(1) * blocks + program_id(0);
  const Const positions = TOGETHER * (1 << 20) / (D * (2 * dsl::info(element_v<T>).bytes));
  const Value most = max(min(positions / seq, heads), 1);
  const Value first_head = number / (blocks * most) * most;
  const Value count = min(heads - first_head, most), place = number - first_head * blocks;
  const Const is_grouped = mask.CAUSAL != 0 && TOGETHER != 0;
  const Value longest_first = if_(is_grouped, [&] { return place / count; }, [&] { return program_id(0); });
  return {if_(
              is_grouped, [&] { return max(first_head + place % count, 0); }, [&] { return program_id(1); }),
          if_(
              mask.CAUSAL != 0, [&] { return (blocks - 1 - longest_first) * mask.BM; },
              [&] { return program_id(0) * mask.BM; })};
}

// A program of attention. Of f8, `scales` are there.
template <class T, class Out = T>
AttendedBlock attend_block(const Value& q, const Value& k, const Value& v, const Value& out, const Value& lengths,
                           const Value& batch, const Value& heads, const Value& kv_heads, const Value& seq,
                           const Value& scale, const Const& D, const AttentionMask& mask, const Const& TOGETHER,
                           const F8Scales& scales = {}) {
  constexpr bool kIsF8 = std::is_same_v<T, f8e4m3>;
  const Const &BM = mask.BM, &BN = mask.BN;
  grid(cdiv(seq, BM), heads, batch);
  const auto [head, first] = query_block<T>(heads, seq, D, mask, TOGETHER);
  assume(first, {.low = 0});
  const Value b = cast(program_id(2), i64_t);
  const Value kv_head = head / (heads / kv_heads);
  assume(kv_head, {.low = 0});
  const Value length = load(lengths + program_id(2));
  const Value at = (b * heads + head) * seq, kv_at = (b * kv_heads + kv_head) * seq * D;
  // Rows behind the sequence's end are loaded too, which does not wait for its length.
  const Value query = tile(q + at * D, {seq, D}).load({first, 0}, {BM, D});
  const Value row = first + arange(0, BM);
  const auto of_kv_head = [&](const Value& array) { return load(array + (b * kv_heads + kv_head)); };
  // Powers of two: the scores are scaled by log2(e) too.
  Value factor = scale * 1.44269504088896341f;
  if constexpr (kIsF8) factor = factor * (load(scales.q + (b * heads + head)) * of_kv_head(scales.k));
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
    Value zero_at = next * -factor;
    if constexpr (kIsF8) zero_at = zero_at + kF8WeightBits;
    const Value weights = exp2(fma(products, factor, expand_dims(zero_at, 1)), fast);
    const Value rounded = cast(weights, element_v<T>);
    total = total * shrink + sum(weights, 1);
    acc = dot(rounded, value, acc * expand_dims(shrink, 1));
    top = next;
  };

  // Blocks without keys behind the sequence's end need no mask but that of the edges.
  const Value blocks = cdiv(end, BN), full_blocks = keys_end / BN;
  const Value whole = min(blocks, full_blocks) * BN;
  const auto load_keys = [&](const Value& count, const Value& start) {
    return tile(k + kv_at, {count, D}).load({start, 0}, {BN, D});
  };
  const auto load_values = [&](const Value& count, const Value& start) {
    if constexpr (kIsF8) return trans(tile(v + kv_at, {D, count}, {seq, 1}).load({0, start}, {D, BN}));
    return tile(v + kv_at, {count, D}).load({start, 0}, {BN, D});
  };
  for (Value start : range(mask.first_key(first), whole, BN).stages(3)) {
    const Value products = dot(query, trans(load_keys(seq, start)));
    const Value scores = if_(
        mask.is_any(),
        [&] {
          return if_(
              mask.is_edge(first, start), [&] { return where(sees(start), products, kLowest); },
              [&] { return products; });
        },
        [&] { return products; });
    attend(scores, load_values(seq, start));
  }
  for (Value start : range(whole, end, BN).stages(1)) {
    const Value products = dot(query, trans(load_keys(length, start)));
    const Value inside = expand_dims(start + arange(0, BN) < length, 0);
    const Value seen =
        if_(mask.is_any(), [&] { return inside & sees(start); }, [&] { return broadcast_to(inside, {BM, BN}); });
    attend(where(seen, products, kLowest), load_values(length, start));
  }
  const Value is_inside = row < length;
  Value unit = 1 / total;
  if constexpr (kIsF8) unit = unit * of_kv_head(scales.v);
  const Value mean = acc * expand_dims(unit, 1);
  const Value result = where(expand_dims(is_inside, 1), mean, 0);
  tile(out + at * D, {seq, D}).store({first, 0}, cast(result, element_v<Out>));
  return {at, first, is_inside, top, total};
}

// What blocks of queries and keys may be tried.
inline std::vector<SpaceAxis> attention_space() {
  using enum target::Schedule;
  return {{"BM", {16, 32, 64, 128}},
          {"BN", {32, 64, 128, 256}},
          {"num_warps", {4, 8}},
          {"num_stages", {1, 2, 3}},
          {"warp_specialise", target::values_of({kPlain, kProducers, kPersistent, kQueue})}};
}

// How every form of attention is tuned, and what the tuner is to know of its arrays.
template <class T, class Def>
Def attention_hints(Def def) {
  return std::move(def)
      .where("eq(rem(heads, kv_heads), 0)")
      .space(attention_space())
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
      .defaults("cuda:sm_90a", hopper_attention_blocks<T>())
      .defaults("cuda:sm_100a", tensor_memory_attention_blocks<T>())
      .defaults("cuda:sm_103a", tensor_memory_attention_blocks<T>());
}

// out[b, h] = softmax(scale · q[b, h]·k[b, g]ᵀ) · v[b, g] with g = h / (heads/kv_heads). q and out are [batch, heads,
// seq, D], k and v [batch, kv_heads, seq, D]; heads is a multiple of kv_heads, scale is above 0. Sequence b has
// lengths[b] ≤ seq positions: later keys do not count, later rows of out are 0. Of the others CAUSAL and WINDOW say
// which a query sees (attention_mask.h).
template <class T = f32>
const auto& attention() {
  static const Kept def = attention_hints<T>(kernel(
      "attention",
      {"q", "k", "v", "out", "lengths", "batch", "heads", "kv_heads", "seq", "scale", "D=64", "CAUSAL=0", "WINDOW=0",
       "BM=64", "BN=128", "TOGETHER=8"},
      [](Ptr<const T> q, Ptr<const T> k, Ptr<const T> v, Ptr<T> out, Ptr<const i32> lengths, i32 batch, i32 heads,
         i32 kv_heads, i32 seq, f32 scale, Const D, Const CAUSAL, Const WINDOW, Const BM, Const BN, Const TOGETHER) {
        attend_block<T>(q, k, v, out, lengths, batch, heads, kv_heads, seq, scale, D, {CAUSAL, WINDOW, BM, BN},
                        TOGETHER);
      }));
  return *def;
}

// The same, and what the gradient wants: lse [batch, heads, seq], the logarithms of the sums of exp(scale · products)
// that a query sees; 0 behind a sequence's end.
template <class T = f32>
const auto& attention_with_lse() {
  static const Kept def =
      attention_hints<T>(kernel("attention_with_lse",
                                {"q", "k", "v", "out", "lse", "lengths", "batch", "heads", "kv_heads", "seq", "scale",
                                 "D=64", "CAUSAL=0", "WINDOW=0", "BM=64", "BN=128", "TOGETHER=8"},
                                [](Ptr<const T> q, Ptr<const T> k, Ptr<const T> v, Ptr<T> out, Ptr<f32> lse,
                                   Ptr<const i32> lengths, i32 batch, i32 heads, i32 kv_heads, i32 seq, f32 scale,
                                   Const D, Const CAUSAL, Const WINDOW, Const BM, Const BN, Const TOGETHER) {
                                  const AttendedBlock rows =
                                      attend_block<T>(q, k, v, out, lengths, batch, heads, kv_heads, seq, scale, D,
                                                      {CAUSAL, WINDOW, BM, BN}, TOGETHER);
                                  const Value sums = fma(rows.top, scale, log(rows.total));
                                  tile(lse + rows.at, {seq}).store({rows.first}, where(rows.is_inside, sums, 0));
                                }))
          .array("lse", "batch*heads*seq");
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
