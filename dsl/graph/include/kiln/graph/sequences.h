// Functions of sequences, made of those of functions.h, whose gradients they have. B sequences, H heads, M queries, N
// keys, D features of a head. Attention itself, rope and cross_entropy stand in functions.h.
#pragma once

#include "kiln/graph/functions.h"

namespace kiln::graph {

// --- positions ---
// cos and sin of position·base^(-2i/width) for i below width/2, f32 [N, width/2]; positions [N].
struct RopeTables {
  Tensor cos, sin;
};
RopeTables rope_tables(Operand positions, int64_t width, double base = 10000);
// rope of the first features, twice as many as the tables' columns; what stands behind them stays.
Tensor rope_partial(Operand x, const RopeTables& tables, bool interleaved = false);
// What ALiBi (Press and others 2022) adds to scores, [heads, M, N]: -slope·distance, where place m of the queries is
// place m + N - M of the keys. Slopes are 2^(-8i/heads); those of a number of heads that is no power of 2 are as there.
std::vector<double> alibi_slopes(int64_t heads);
Tensor alibi(int64_t heads, Dim queries, Dim keys, ElementType type = f32,
             SourceLocation loc = SourceLocation::current());
// i1 [M, N]: keys less than `window` places behind, and the first `sinks` ones (Xiao and others 2024).
Tensor window_mask(Dim queries, Dim keys, int64_t window, int64_t sinks,
                   SourceLocation loc = SourceLocation::current());
// i1 [B, 1, 1, N]: the keys in front of each length [B], as a mask of attention.
Tensor length_mask(Operand lengths, Dim keys);
// Attention whose softmax has one more score in each row, by head, of a value of zeros: sinks [H].
Tensor attention_with_sinks(Operand q, Operand k, Operand v, Operand sinks, bool causal = true, double scale = 0);

// --- layers ---
enum class GateKind : uint8_t { kSwiglu, kGeglu, kReglu, kGlu };
// activation(a)·b of x […, 2F], a in front of b.
Tensor gated(Operand x, GateKind kind = GateKind::kSwiglu);
// activation(x·w1ᵀ)·(x·w2ᵀ), one product: w [2F, in] is w1 in front of w2, and so is bias [2F].
Tensor gated_linear(Operand x, Operand w, GateKind kind = GateKind::kSwiglu, Operand bias = {});
// The loss of logits x·wᵀ that are never in memory as a whole: x [T, D], w [V, D], targets [T], so many of T at a time.
// Those equal to `ignore` count nowhere; without any other the mean is 0.
Tensor linear_cross_entropy(Operand x, Operand w, Operand targets, int64_t chunk = 256, int64_t ignore = -100);

// --- mixtures of experts ---
// Of each token's scores [T, E] the `count` best experts, [T, count], and their weights: softmax, made to add up to 1.
struct Routes {
  Tensor weights, experts;
};
Routes route(Operand scores, int64_t count, bool renormalise = true);
// Rows sorted by expert: `order` i64 [T·count] says which of experts [T, count] in row-major order each row is, token
// order[r] / count; sizes i32 [E] how many rows each expert has.
struct Dispatch {
  Tensor order, sizes;
};
Dispatch dispatch(Operand experts, int64_t count);
// The first sizes[0] rows of x [R, in] by w[0], the next by w[1], …: w [E, in, out], sizes i32 [E]; [R, out].
Tensor grouped_linear(Operand x, Operand w, Operand sizes);
// Sums of weights times what experts give: x [T, D], gate [E, D], w_in [E, D, 2F] (gates in front), w_out [E, F, D].
Tensor mixture_of_experts(Operand x, Operand gate, Operand w_in, Operand w_out, int64_t count,
                          GateKind kind = GateKind::kSwiglu);

// --- caches ---
// Pages [P, G, S, D] with tokens [B, G, M, D] put behind the lengths [B] that sequences have; page i of sequence b is
// table[b, i], as in paged_attention.
Tensor append_pages(Operand pages, Operand table, Operand lengths, Operand tokens);
// The same of pages of i8 or f8 with a factor for each token and head, f32 [P, G, S].
struct QuantisedPages {
  Tensor pages, scales;
};
QuantisedPages append_pages(const QuantisedPages& pages, Operand table, Operand lengths, Operand tokens);
Tensor dequantise_pages(const QuantisedPages& pages, ElementType type = f32);

// --- recurrences ---
// Mamba's selective scan (Gu, Dao 2023): of u and rate [B, L, D], a [D, N], b and c [B, L, N], skip [D],
// state = e^(rate·a)·state + rate·b·u, y = c·state + skip·u. state [B, D, N], zeros where it is left out.
struct Scanned {
  Tensor y, state;
};
Scanned selective_scan(Operand u, Operand rate, Operand a, Operand b, Operand c, Operand skip = {}, Operand state = {});
// y[t] = Σ over s ≤ t of e^(g[s+1] + … + g[t])·(q[t]·k[s])·v[s], in chunks: q and k [B, H, L, D], v [B, H, L, E],
// log_decay g [B, H, L] of 0 or less (retention, gated linear attention, state spaces with one rate a head).
Tensor linear_attention(Operand q, Operand k, Operand v, Operand log_decay = {}, int64_t chunk = 64);
// RWKV's (Peng and others 2023) weighted mean of v: k and v [B, L, C]. What lies d places behind weighs
// e^(k - (d-1)·decay), the place itself e^(k + bonus); decay of 0 or more, and bonus, [C].
Tensor wkv(Operand k, Operand v, Operand decay, Operand bonus);

// --- what comes next ---
struct SampleChoice {
  double temperature = 1;
  int64_t top_k = 0;  // 0: all
  double top_p = 1;   // the fewest tokens, most likely first, that reach this probability
};
// Logits [..., V] over the temperature, -inf where a token is left out. Of equal ones the lower number is first.
Tensor filter_logits(Operand logits, SampleChoice choice);
// A token of each row by these probabilities, i64 (Gumbel's trick on philox words).
Tensor sample(Operand logits, Operand seed, Operand offset, SampleChoice choice = {});
// One step of beam search. log_probs [B, K, V] and scores [B, K] of the beams; gives the K best sums of each B, with
// the beam and the token of each, i64 [B, K]. A beam that is finished (i1 [B, K]) goes on by `end` alone, for nothing.
struct BeamStep {
  Tensor scores, beams, tokens;
};
BeamStep beam_step(Operand log_probs, Operand scores, Operand finished = {}, int64_t end = 0);

}  // namespace kiln::graph
