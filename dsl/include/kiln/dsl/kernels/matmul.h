// Matrix products, and layers made of them. Arrays are dense and row-major.
#pragma once

#include "kiln/dsl/kernels/blocks.h"
#include "kiln/target/schedule_options.h"

namespace kiln::dsl::lang::kernels {

// i8 products are i32; those of floats are summed in f32 and rounded to the operands' type.
template <class T>
using ProductOf = std::conditional_t<std::is_same_v<T, i8>, i32, T>;
template <class T>
inline constexpr ElementType accumulator_v = std::is_same_v<T, i8> ? i32_t : f32_t;

struct MatmulBlock {
  Const m, n, k;
};

// The sum over k of a(k)·b(k), blocks of [m, k] and [k, n], as the dot accumulates it.
template <class A, class B>
Value sum_of_products(ElementType type, const i32& K, const MatmulBlock& block, A a, B b) {
  Var acc = zeros(type, {block.m, block.n});
  for (Value k : range(0, K, block.k).stages(3)) acc = dot(a(k), b(k), acc);
  return acc;
}

// A block of A·B of [M, K] and [K, N] at row m and column n.
inline Value product_block(const Value& A, const Value& B, const i32& M, const i32& N, const i32& K, const Value& m,
                           const Value& n, const MatmulBlock& block) {
  return sum_of_products(
      A.element() == i8_t ? i32_t : f32_t, K, block,
      [&](const Value& k) { return tile(A, {M, K}).load({m, k}, {block.m, block.k}); },
      [&](const Value& k) { return tile(B, {K, N}).load({k, n}, {block.k, block.n}); });
}

// The first row and column of this program's block of [M, N]. Programs go down columns of `group` blocks, one column
// after the other: neighbours share blocks of B, and those of a group come back to its blocks of A. With 1 they go
// along rows, with many down whole columns.
struct BlockOrigin {
  Value m, n;
};
inline BlockOrigin block_origin(const Value& M, const Value& N, const Const& BM, const Const& BN,
                                const Operand& group = 8) {
  auto [i, j] = grouped_order(program_id(0), cdiv(M, BM), cdiv(N, BN), group);
  return {i * BM, j * BN};
}

// Of workers that share iterations as many as Hopper's large GPUs have multiprocessors.
inline std::vector<SpaceAxis> product_space() {
  using enum target::Schedule;
  return {{"BM", {32, 64, 128, 256}},      {"BN", {32, 64, 128, 192, 256}},
          {"BK", {32, 64, 128, 256, 512}}, {"num_warps", {4, 8}},
          {"num_stages", {2, 3, 4}},       {"warp_specialise", target::values_of({kPlain, kPersistent, kPingPong})},
          {"split_k", {1, 2, 4, 8}},       {"stream_k", {0, 132}}};
}

// On CPUs blocks may be whole matrices, or single rows, and their order decides which operand stays in the cache.
inline std::vector<SpaceAxis> cpu_product_space(bool has_order) {
  std::vector<SpaceAxis> out = {{"BM", {1, 8, 32, 64, 128, 256, 512}},
                                {"BN", {32, 64, 128, 256, 512, 1024, 4096}},
                                {"BK", {16, 64, 128, 256, 512}}};
  if (has_order) out.push_back({"GROUP", {1, 8, 64}});
  return out;
}

// Blocks for GPUs. Small types are multiplied by matrix units, by 8 warps with 64 sums a thread, 128 on Hopper, where
// four stages of operands take 192 KiB of shared memory; three fit into 96 KiB elsewhere. f32 is not: a thread has 64
// sums.
template <class T>
ConstexprValues gpu_blocks() {
  if (std::is_same_v<T, f32>) return {{"BM", 128}, {"BN", 64}, {"BK", 32}, {"num_warps", 4}, {"num_stages", 3}};
  return {{"BM", 128}, {"BN", 128}, {"BK", 64}};
}
// On RDNA the registers of two blocks, which is what fits into LDS, suffice where they are asked to.
template <class T>
ConstexprValues rdna_blocks() {
  return std::is_same_v<T, f32> ? ConstexprValues() : ConstexprValues{{"waves_per_eu", 8}};
}
template <class T>
ConstexprValues hopper_blocks() {
  if (std::is_same_v<T, f32>) return {};
  constexpr bool is_byte = std::is_same_v<T, i8> || std::is_same_v<T, f8e4m3> || std::is_same_v<T, f8e5m2>;
  return {{"BN", 256}, {"BK", is_byte ? 128 : 64}, {"num_warps", 8}, {"num_stages", 4}};
}

// By tcgen05, which sm_103a has none of for bytes.
template <class T>
ConstexprValues sm_103a_blocks() {
  return std::is_same_v<T, i8> ? gpu_blocks<T>() : hopper_blocks<T>();
}

// The space of a product of T, and its defaults on GPUs.
template <class T, class Def>
Def product_hints(Def def) {
  const bool has_order = def.ir().ok() && def.ir()->find_constexpr("GROUP");
  return std::move(def)
      .space(product_space())
      .space("cpu", cpu_product_space(has_order))
      .defaults("amd", gpu_blocks<T>())
      .defaults("amd:gfx1100", rdna_blocks<T>())
      .defaults("amd:gfx1200", rdna_blocks<T>())
      .defaults("cuda", gpu_blocks<T>())
      .defaults("cuda:sm_90a", hopper_blocks<T>())
      .defaults("cuda:sm_100a", hopper_blocks<T>())
      .defaults("cuda:sm_103a", sm_103a_blocks<T>());
}

template <class T>
constexpr const char* matmul_name() {
  return std::is_same_v<T, f32> ? "matmul_f32" : std::is_same_v<T, i8> ? "matmul_i8" : "matmul";
}

// C = A·B of [M, K] and [K, N]; of i8 in i32
template <class T = f32>
const auto& matmul() {
  static const Kept def =
      product_hints<T>(kernel(matmul_name<T>(), {"A", "B", "C", "M", "N", "K", "BM=128", "BN=256", "BK=256", "GROUP=8"},
                              [](Ptr<const T> A, Ptr<const T> B, Ptr<ProductOf<T>> C, i32 M, i32 N, i32 K, Const BM,
                                 Const BN, Const BK, Const GROUP) {
                                grid(cdiv(M, BM) * cdiv(N, BN));
                                const auto [m, n] = block_origin(M, N, BM, BN, GROUP);
                                const Value product = product_block(A, B, M, N, K, m, n, {BM, BN, BK});
                                tile(C, {M, N}).store({m, n}, cast(product, element_v<ProductOf<T>>));
                              }))
          .array("A", "M*K")
          .array("B", "K*N")
          .array("C", "M*N");
  return *def;
}

// C[b] = A[b]·B[b] of [batch, M, K] and [batch, K, N], batch ≤ 65535
template <class T = f32>
const auto& batched_matmul() {
  static const Kept def =
      product_hints<T>(
          kernel("batched_matmul", {"A", "B", "C", "batch", "M", "N", "K", "BM=64", "BN=128", "BK=256", "GROUP=8"},
                 [](Ptr<const T> A, Ptr<const T> B, Ptr<ProductOf<T>> C, i32 batch, i32 M, i32 N, i32 K, Const BM,
                    Const BN, Const BK, Const GROUP) {
                   grid(cdiv(M, BM) * cdiv(N, BN), batch);
                   const auto [m, n] = block_origin(M, N, BM, BN, GROUP);
                   const Value b = cast(program_id(1), i64_t);
                   const Value product = product_block(A + b * M * K, B + b * K * N, M, N, K, m, n, {BM, BN, BK});
                   tile(C + b * M * N, {M, N}).store({m, n}, cast(product, element_v<ProductOf<T>>));
                 }))
          .array("A", "batch*M*K")
          .array("B", "batch*K*N")
          .array("C", "batch*M*N");
  return *def;
}

// Which group a program is of, and the place of its block there: its rows, and its first row and column.
struct GroupedBlock {
  Value group, end, m, n;
};

// Groups have as many blocks of rows as they need. Those of one column follow one another: they share a block of B.
inline GroupedBlock grouped_block(const Value& sizes, const Value& groups, const Value& N, const MatmulBlock& block,
                                  const Const& GROUPS) {
  const Value number = arange(0, GROUPS);
  const Value size = tile(sizes, {groups}).load({0}, {GROUPS});
  const Value end = cumsum(size, 0), columns = cdiv(N, block.n), rows = cdiv(size, block.m);
  const Value behind = cumsum(rows * columns, 0), before = behind - rows * columns;
  const Value mine = (before <= program_id(0)) & (program_id(0) < behind);
  const auto own = [&](const Value& x) { return sum(where(mine, x, 0), 0); };
  const Value count = max(own(rows), 1), place = program_id(0) - own(before);
  const Value m = own(end - size) + place % count * block.m, n = place / count * block.n;
  assume(m, {.low = 0});
  assume(n, {.low = 0});
  return {own(number), own(end), m, n};
}

// Rows of A times the matrix of their group, as in a mixture of experts: of A [M, K] the first sizes[0] rows times
// B[0], the next sizes[1] times B[1], … of B [groups, K, N]. Sizes may be 0 and add up to M at most; rows of C [M, N]
// behind them stay as they are. groups ≤ GROUPS.
template <class T = f32>
const auto& grouped_matmul() {
  static const Kept def =
      product_hints<T>(
          kernel("grouped_matmul",
                 {"A", "B", "sizes", "C", "M", "N", "K", "groups", "BM=64", "BN=256", "BK=256", "GROUPS=64"},
                 [](Ptr<const T> A, Ptr<const T> B, Ptr<const i32> sizes, Ptr<ProductOf<T>> C, i32 M, i32 N, i32 K,
                    i32 groups, Const BM, Const BN, Const BK, Const GROUPS) {
                   // Each group may have a block that is not full.
                   grid((M + groups * (BM - 1)) / BM * cdiv(N, BN));
                   const auto [group, end, m, n] = grouped_block(sizes, groups, N, {BM, BN, BK}, GROUPS);
                   const Value matrix = B + cast(group, i64_t) * K * N;
                   const Value product = product_block(A, matrix, M, N, K, m, n, {BM, BN, BK});
                   tile(C, {min(end, M), N}).store({m, n}, cast(product, element_v<ProductOf<T>>));
                 }))
          .where("le(groups, GROUPS)")
          .array("A", "M*K")
          .array("B", "groups*K*N")
          .array("sizes", "groups", "div(M, groups)", "div(M, groups) + 1")
          .array("C", "M*N");
  return *def;
}

// C = activation(A·B + bias), bias by column
template <class T>
auto matmul_bias(std::string_view name, Value (*activation)(Operand)) {
  return product_hints<T>(kernel(name, {"A", "B", "bias", "C", "M", "N", "K", "BM=128", "BN=256", "BK=256", "GROUP=8"},
                                 [activation](Ptr<const T> A, Ptr<const T> B, Ptr<const T> bias, Ptr<T> C, i32 M, i32 N,
                                              i32 K, Const BM, Const BN, Const BK, Const GROUP) {
                                   grid(cdiv(M, BM) * cdiv(N, BN));
                                   const auto [m, n] = block_origin(M, N, BM, BN, GROUP);
                                   const Value product = product_block(A, B, M, N, K, m, n, {BM, BN, BK});
                                   const Value b = load_f32(tile(bias, {N}), {n}, {BN});
                                   tile(C, {M, N}).store({m, n}, cast(activation(product + b), element_v<T>));
                                 }))
      .array("A", "M*K")
      .array("B", "K*N")
      .array("bias", "N")
      .array("C", "M*N");
}

// C = gelu(A·B + bias), gelu by its approximation with tanh
template <class T = f32>
const auto& matmul_bias_act() {
  static const Kept def =
      matmul_bias<T>("matmul_bias_act", [](Operand x) { return gelu_tanh(std::move(x), accuracy<T>()); });
  return *def;
}

// C = max(A·B + bias, 0)
template <class T = f32>
const auto& matmul_bias_relu() {
  static const Kept def = matmul_bias<T>("matmul_bias_relu", relu);
  return *def;
}

// x - λ above λ, x + λ below -λ, else 0
inline Value softshrink(const Value& x, const Value& lambda) {
  return where(x > lambda, x - lambda, where(x < -lambda, x + lambda, 0));
}

// Four layers in one program a block of rows: y = s(s(s(x·w1 + b1)·w2 + b2)·w3 + b3)·w4 + b4, s = softshrink. x is
// [rows, IN], w1 [IN, HIDDEN], w2 and w3 [HIDDEN, HIDDEN], w4 [HIDDEN, OUT]; the biases run along columns.
template <class T = f32>
const auto& mlp_softshrink() {
  static const Kept def =
      kernel("mlp_softshrink",
             {"x", "w1", "b1", "w2", "b2", "w3", "b3", "w4", "b4", "y", "rows", "lambda", "IN=784", "HIDDEN=256",
              "OUT=10", "BM=64", "BK=112"},
             [](Ptr<const T> x, Ptr<const T> w1, Ptr<const T> b1, Ptr<const T> w2, Ptr<const T> b2, Ptr<const T> w3,
                Ptr<const T> b3, Ptr<const T> w4, Ptr<const T> b4, Ptr<T> y, i32 rows, f32 lambda, Const IN,
                Const HIDDEN, Const OUT, Const BM, Const BK) {
               grid(cdiv(rows, BM));
               const Value row = program_id(0) * BM;
               auto hidden = [&](const Value& product, const Value& bias) {
                 return softshrink(product + load_f32(tile(bias, {HIDDEN}), {0}, {HIDDEN}), lambda);
               };
               auto layer = [&](const Value& input, const Value& weight, const Const& width) {
                 return dot(cast(input, element_v<T>), tile(weight, {HIDDEN, width}).load({0, 0}, {HIDDEN, width}));
               };
               Var acc = zeros(f32_t, {BM, HIDDEN});
               for (Value k : range(0, IN, BK)) {
                 acc = dot(tile(x, {rows, IN}).load({row, k}, {BM, BK}),
                           tile(w1, {IN, HIDDEN}).load({k, 0}, {BK, HIDDEN}), acc);
               }
               const Value first = hidden(acc, b1);
               const Value second = hidden(layer(first, w2, HIDDEN), b2);
               const Value third = hidden(layer(second, w3, HIDDEN), b3);
               const Value out = layer(third, w4, OUT) + load_f32(tile(b4, {OUT}), {0}, {OUT});
               tile(y, {rows, OUT}).store({row, 0}, cast(out, element_v<T>));
             })
          .space({{"BM", {16, 32, 64, 128}}, {"BK", {56, 112, 196, 392}}})
          .array("x", "rows*IN")
          .array("w1", "IN*HIDDEN")
          .array("b1", "HIDDEN")
          .array("w2", "HIDDEN*HIDDEN")
          .array("b2", "HIDDEN")
          .array("w3", "HIDDEN*HIDDEN")
          .array("b3", "HIDDEN")
          .array("w4", "HIDDEN*OUT")
          .array("b4", "OUT")
          .array("y", "rows*OUT")
          .defaults("amd", {{"BM", 16}})
          .defaults("amd:gfx906", {{"num_warps", 16}})
          .defaults("amd:gfx1100", {{"num_warps", 32}})
          .defaults("amd:gfx1200", {{"num_warps", 32}});
  return *def;
}

// The pairwise interaction of DLRM: of F features [batch, F, D] a row out[b] = (features[b, 0], then features[b, i] ·
// features[b, j] for all j < i, by i and then j), D + F·(F-1)/2 numbers.
template <class T = f32>
const auto& dlrm_interaction() {
  static const Kept def = kernel("dlrm_interaction", {"features", "out", "batch", "F=27", "D=128"},
                                 [](Ptr<const T> features, Ptr<T> out, i32 batch, Const F, Const D) {
                                   grid(batch);
                                   const Value sample = cast(program_id(0), i64_t);
                                   const Const width = D + F * (F - 1) / 2;
                                   const Value block = tile(features + sample * F * D, {F, D}).load({0, 0}, {F, D});
                                   const Value products = dot(block, trans(block));
                                   const Value to = out + sample * width;
                                   store(to + arange(0, D), load(features + sample * F * D + arange(0, D)));
                                   const Value i = expand_dims(arange(0, F), 1), j = expand_dims(arange(0, F), 0);
                                   store(to + D + i * (i - 1) / 2 + j, cast(products, element_v<T>), {.mask = j < i});
                                 })
                              .space({})
                              .array("features", "batch*F*D")
                              .array("out", "batch*(D + div(F*(F - 1), 2))")
                              .defaults("amd:gfx906", {{"num_warps", 4}})
                              .defaults("amd:gfx1100", {{"num_warps", 8}})
                              .defaults("amd:gfx1200", {{"num_warps", 8}})
                              .defaults("cuda", {{"num_warps", 8}});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
