// Products of f8 with factors by blocks of 128, whose partial sums are promoted.
#pragma once

#include <optional>

#include "kiln/dsl/kernels/matmul.h"
#include "kiln/target/schedule_options.h"

namespace kiln::dsl::lang::kernels {

inline constexpr int64_t kScaledBlock = 128;

// C = A·Bᵀ of A [M, K] and B [N, K], as layers store their weights, in e4m3. Element (m, k) of A stands for itself
// times a_scale[k/128, m], element (n, k) of B for itself times b_scale[n/128, k/128]: the blocks of DeepSeek-V3's
// report (arXiv 2412.19437, 3.3.2), activations' factors with rows the fastest axis. Matrix units keep 14 bits of a sum
// of f8; here they add up 128 products at a time, and f32 adds those. BN is 128 or a divisor of it. With SPANS of 2 an
// iteration takes 256 of K: the second span's products run while threads add the first one's.
template <class Out = bf16>
const auto& matmul_f8() {
  using enum target::Schedule;
  static const Kept def =
      kernel("matmul_f8", {"A", "B", "a_scale", "b_scale", "C", "M", "N", "K", "BM=128", "BN=128", "SPANS=1"},
             [](Ptr<const f8e4m3> A, Ptr<const f8e4m3> B, Ptr<const f32> a_scale, Ptr<const f32> b_scale, Ptr<Out> C,
                i32 M, i32 N, i32 K, Const BM, Const BN, Const SPANS) {
               require(SPANS == 1 || SPANS == 2, "SPANS is 1 or 2");
               require(Const(kScaledBlock) % BN == 0, "BN is no divisor of 128, the side of a block of b_scale");
               grid(cdiv(M, BM) * cdiv(N, BN));
               const auto [m, n] = block_origin(M, N, BM, BN);
               const Value spans = cdiv(K, kScaledBlock);
               const Value b_factors = b_scale + n / kScaledBlock * spans;
               Var acc = zeros(f32_t, {BM, BN});
               const Value row = m + arange(0, BM);
               // A span that there may be none of, or each of which there is one.
               const auto add = [&](const Value& span, const std::optional<Value>& exists) {
                 const Value k = span * kScaledBlock;
                 const Value a = tile(A, {M, K}).load({m, k}, {BM, kScaledBlock});
                 const Value b = tile(B, {K, N}, {1, K}).load({k, n}, {kScaledBlock, BN});
                 const Value in_m = row < M, at = a_scale + cast(span, i64_t) * M + row;
                 const Value rows = load(at, {.mask = exists ? in_m & *exists : in_m});
                 const Value column = exists ? load(b_factors + span, {.mask = *exists}) : load(b_factors + span);
                 acc = fma(dot(a, b, zeros(f32_t, {BM, BN})), expand_dims(rows * column, 1), acc);
               };
               for (Value span : range(0, spans, SPANS).stages(3)) {
                 add(span, std::nullopt);
                 if_(SPANS == 2, [&] { add(span + 1, span + 1 < spans); });
               }
               tile(C, {M, N}).store({m, n}, cast(acc, element_v<Out>));
             })
          .space({{"BM", {32, 64, 128}},
                  {"BN", {32, 64, 128}},
                  {"SPANS", {1, 2}},
                  {"num_warps", {4, 8}},
                  {"num_stages", {2, 3, 4, 5, 6}},
                  {"warp_specialise", target::values_of({kPlain, kProducers, kPersistent})}})
          .array("A", "M*K")
          .array("B", "N*K")
          .array("a_scale", "div(127 + K, 128)*M")
          .array("b_scale", "div(127 + N, 128)*div(127 + K, 128)")
          .array("C", "M*N")
          .defaults("amd", {{"BM", 32}, {"BN", 64}, {"num_warps", 8}})
          .defaults("cuda", {{"BM", 64}, {"BN", 64}, {"num_warps", 8}})
          .defaults("cuda:sm_90a", {{"BM", 128},
                                    {"BN", 128},
                                    {"SPANS", 2},
                                    {"num_warps", 8},
                                    {"num_stages", 3},
                                    {"warp_specialise", target::value_of(kPersistent)}});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
