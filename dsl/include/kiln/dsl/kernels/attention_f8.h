// Attention to keys and values of f8.
#pragma once

#include "kiln/dsl/kernels/attention.h"

namespace kiln::dsl::lang::kernels {

// Weights take half of the registers that those of 16 bits do, so blocks of keys are longer. Wide heads of long
// sequences without a mask are faster by {"BM", 128}, {"num_warps", 8} and warp_specialise
// producers.
inline ConstexprValues hopper_f8_attention_blocks() {
  return {{"BM", 64}, {"BN", 128}, {"num_warps", 4}, {"num_stages", 2}};
}

// As `attention`, of q, k and v in e4m3: out = softmax(scale · q·kᵀ) · v of q times its head's q_scale, and k and v
// times theirs, all above 0. q_scale is [batch, heads], k_scale and v_scale are [batch, kv_heads]. v is [batch,
// kv_heads, D, seq]: matrix units read f8 with keys as the fastest axis alone. Products are summed in f32, weights are
// rounded to e4m3 before they multiply values, and their sum is that before.
template <class Out = bf16>
const auto& attention_f8() {
  static const Kept def =
      attention_hints<Out>(
          kernel("attention_f8",
                 {"q", "k", "v", "q_scale", "k_scale", "v_scale", "out", "lengths", "batch", "heads", "kv_heads", "seq",
                  "scale", "D=64", "CAUSAL=0", "WINDOW=0", "BM=64", "BN=128", "TOGETHER=8"},
                 [](Ptr<const f8e4m3> q, Ptr<const f8e4m3> k, Ptr<const f8e4m3> v, Ptr<const f32> q_scale,
                    Ptr<const f32> k_scale, Ptr<const f32> v_scale, Ptr<Out> out, Ptr<const i32> lengths, i32 batch,
                    i32 heads, i32 kv_heads, i32 seq, f32 scale, Const D, Const CAUSAL, Const WINDOW, Const BM,
                    Const BN, Const TOGETHER) {
                   attend_block<f8e4m3, Out>(q, k, v, out, lengths, batch, heads, kv_heads, seq, scale, D,
                                             {CAUSAL, WINDOW, BM, BN}, TOGETHER, {q_scale, k_scale, v_scale});
                 }))
          .array("q_scale", "batch*heads")
          .array("k_scale", "batch*kv_heads")
          .array("v_scale", "batch*kv_heads")
          .defaults("cuda:sm_90a", hopper_f8_attention_blocks());
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
