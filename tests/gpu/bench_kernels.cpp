#include "bench_kernels.h"

#include <functional>
#include <map>

#include "kiln/dsl/kernels.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;
using namespace dsl::lang;

using Table = std::map<std::string, std::function<Result<dsl::Kernel>()>>;

// C = A·Bᵀ of [M, K] and [N, K] through descriptors, for targets that move blocks with hardware of their own; the
// strides of all arrays must suit it.
template <class T, class Out>
const auto& matmul_nt_blocks() {
  static const auto def =
      kernel("matmul_nt_blocks", {"A", "B", "C", "M", "N", "K", "BM=128", "BN=128", "BK=64"},
             [](Ptr<const T> A, Ptr<const T> B, Ptr<Out> C, i32 M, i32 N, i32 K, Const BM, Const BN, Const BK) {
               grid(cdiv(M, BM) * cdiv(N, BN));
               const auto [m, n] = kernels::block_origin(M, N, BM, BN);
               const Descriptor a = descriptor(A, {M, K}, {}, {BM, BK}), b = descriptor(B, {N, K}, {}, {BN, BK});
               Var acc = zeros(kernels::accumulator_v<T>, {BM, BN});
               for (Value k : range(0, K, BK).stages(4)) acc = dot(a.load({m, k}), trans(b.load({n, k})), acc);
               descriptor(C, {M, N}, {}, {BM, BN}).store({m, n}, cast(acc, element_v<Out>));
             });
  return def;
}

template <class T>
const auto& matmul_blocks() {
  static const auto def =
      kernel("matmul_blocks", {"A", "B", "C", "M", "N", "K", "BM=128", "BN=128", "BK=64"},
             [](Ptr<const T> A, Ptr<const T> B, Ptr<T> C, i32 M, i32 N, i32 K, Const BM, Const BN, Const BK) {
               grid(cdiv(M, BM) * cdiv(N, BN));
               const auto [m, n] = kernels::block_origin(M, N, BM, BN);
               const Descriptor a = descriptor(A, {M, K}, {}, {BM, BK}), b = descriptor(B, {K, N}, {}, {BK, BN});
               Var acc = zeros(f32_t, {BM, BN});
               for (Value k : range(0, K, BK).stages(4)) acc = dot(a.load({m, k}), b.load({k, n}), acc);
               descriptor(C, {M, N}, {}, {BM, BN}).store({m, n}, cast(acc, element_v<T>));
             });
  return def;
}

// C[m, n] = scale[n] · Σ A[m, k]·B[n, k] of bf16 and quantised weights, which become bf16 in front of the matrix units.
template <class W>
const auto& matmul_nt_weights() {
  static const auto def =
      kernel("matmul_nt_weights", {"A", "B", "scale", "C", "M", "N", "K", "BM=128", "BN=128", "BK=64"},
             [](Ptr<const lang::bf16> A, Ptr<const W> B, Ptr<const f32> scale, Ptr<lang::bf16> C, i32 M, i32 N, i32 K,
                Const BM, Const BN, Const BK) {
               grid(cdiv(M, BM) * cdiv(N, BN));
               const auto [m, n] = kernels::block_origin(M, N, BM, BN);
               Var acc = zeros(f32_t, {BM, BN});
               for (Value k : range(0, K, BK).stages(3)) {
                 const Value weights = cast(tile(B, {N, K}).load({n, k}, {BN, BK}), bf16_t);
                 acc = dot(tile(A, {M, K}).load({m, k}, {BM, BK}), trans(weights), acc);
               }
               const Value factors = expand_dims(tile(scale, {N}).load({n}, {BN}), 0);
               tile(C, {M, N}).store({m, n}, cast(acc * factors, bf16_t));
             });
  return def;
}

// Of f32 operands, by the matrix units' tf32.
const auto& matmul_tf32() {
  static const auto def =
      kernel("matmul_tf32", {"A", "B", "C", "M", "N", "K", "BM=128", "BN=128", "BK=32"},
             [](Ptr<const f32> A, Ptr<const f32> B, Ptr<f32> C, i32 M, i32 N, i32 K, Const BM, Const BN, Const BK) {
               grid(cdiv(M, BM) * cdiv(N, BN));
               const auto [m, n] = kernels::block_origin(M, N, BM, BN);
               Var acc = zeros(f32_t, {BM, BN});
               for (Value k : range(0, K, BK).stages(3)) {
                 const Value a = tile(A, {M, K}).load({m, k}, {BM, BK}), b = tile(B, {K, N}).load({k, n}, {BK, BN});
                 acc = dot(a, b, acc, Precision::kTf32);
               }
               tile(C, {M, N}).store({m, n}, acc);
             });
  return def;
}

// total[0] += sum of x[0…n-1], block by block; the caller clears it.
const auto& sum_all() {
  static const auto def = kernel("sum_all", {"x", "total", "n", "BLOCK=4096", "STEPS=8"},
                                 [](Ptr<const f32> x, Ptr<f32> total, i32 n, Const BLOCK, Const STEPS) {
                                   grid(cdiv(n, BLOCK * STEPS));
                                   const Value start = program_id(0) * (BLOCK * STEPS);
                                   Var partial = zeros(f32_t, {BLOCK});
                                   for (Value step : range(0, STEPS)) {
                                     partial += tile(x, {n}).load({start + step * BLOCK}, {BLOCK});
                                   }
                                   atomic_add(total, sum(partial, 0), {.order = MemoryOrder::kRelaxed});
                                 });
  return def;
}

// The sum of a row, and all its partial sums, of a tile as long as the row: plans of several launches where rows are
// long and few.
const auto& sum_tile() {
  static const auto def = kernel("sum_tile", {"x", "y", "rows", "cols", "BLOCK=1024"},
                                 [](Ptr<const f32> x, Ptr<f32> y, i32 rows, i32 cols, Const BLOCK) {
                                   grid(rows);
                                   const Tile row = kernels::row_of(x, program_id(0), cols, cols);
                                   store(y + program_id(0), sum(row.load({0}, {BLOCK}), 0));
                                 });
  return def;
}
const auto& cumsum_tile() {
  static const auto def = kernel("cumsum_tile", {"x", "y", "rows", "cols", "BLOCK=1024"},
                                 [](Ptr<const f32> x, Ptr<f32> y, i32 rows, i32 cols, Const BLOCK) {
                                   grid(rows);
                                   const Value row = kernels::row_of(x, program_id(0), cols, cols).load({0}, {BLOCK});
                                   kernels::row_of(y, program_id(0), cols, cols).store({0}, cumsum(row, 0));
                                 });
  return def;
}

template <class Def>
void add(Table& table, const std::string& name, const Def& (*def)()) {
  table[name] = [def] { return def().ir(); };
}

template <class T>
void add_floats(Table& table, const std::string& type) {
  add(table, "vector_add<" + type, kernels::vector_add<T>);
  add(table, "gelu<" + type, kernels::gelu<T>);
  add(table, "bias_gelu<" + type, kernels::bias_gelu<T>);
  add(table, "dropout<" + type, kernels::dropout<T>);
  add(table, "rotary<" + type, kernels::rotary<T>);
  add(table, "adamw<" + type, kernels::adamw<T>);
  add(table, "softmax<" + type, kernels::softmax<T>);
  add(table, "softmax_long<" + type, kernels::softmax_long<T>);
  add(table, "softmax_narrow<" + type, kernels::softmax_narrow<T>);
  add(table, "log_softmax<" + type, kernels::log_softmax<T>);
  add(table, "cross_entropy<" + type, kernels::cross_entropy<T>);
  add(table, "cross_entropy_backward<" + type, kernels::cross_entropy_backward<T>);
  add(table, "layer_norm<" + type, kernels::layer_norm<T>);
  add(table, "layer_norm_narrow<" + type, kernels::layer_norm_narrow<T>);
  add(table, "layer_norm_backward<" + type, kernels::layer_norm_backward<T>);
  add(table, "rms_norm<" + type, kernels::rms_norm<T>);
  add(table, "rms_norm_narrow<" + type, kernels::rms_norm_narrow<T>);
  add(table, "residual_rms_norm<" + type, kernels::residual_rms_norm<T>);
  add(table, "row_sum<" + type, kernels::row_sum<T>);
  add(table, "column_sum<" + type, kernels::column_sum<T>);
  add(table, "cumsum_rows<" + type, kernels::cumsum_rows<T>);
  add(table, "cumsum_columns<" + type, kernels::cumsum_columns<T>);
  add(table, "argmax<" + type, kernels::argmax<T>);
  add(table, "sort_rows<" + type, kernels::sort_rows<T>);
  add(table, "topk<" + type, kernels::topk<T>);
  add(table, "transpose<" + type, kernels::transpose<T>);
  add(table, "embedding<" + type, kernels::embedding<T>);
  add(table, "matmul<" + type, kernels::matmul<T>);
  add(table, "batched_matmul<" + type, kernels::batched_matmul<T>);
  add(table, "grouped_matmul<" + type, kernels::grouped_matmul<T>);
  add(table, "matmul_bias_act<" + type, kernels::matmul_bias_act<T>);
  add(table, "matmul_f8<" + type, kernels::matmul_f8<T>);
  add(table, "matmul_nt<" + type, kernels::matmul_nt<T>);
  add(table, "matmul_tn<" + type, kernels::matmul_tn<T>);
  add(table, "matmul_blocks<" + type, matmul_blocks<T>);
  add(table, "matmul_nt_blocks<" + type, matmul_nt_blocks<T, T>);
  add(table, "attention<" + type, kernels::attention<T>);
  add(table, "attention_backward_keys<" + type, kernels::attention_backward_keys<T>);
  add(table, "attention_backward_queries<" + type, kernels::attention_backward_queries<T>);
  add(table, "attention_combine<" + type, kernels::attention_combine<T>);
  add(table, "attention_decode<" + type, kernels::attention_decode<T>);
  add(table, "attention_delta<" + type, kernels::attention_delta<T>);
  add(table, "attention_f8<" + type, kernels::attention_f8<T>);
  add(table, "attention_with_lse<" + type, kernels::attention_with_lse<T>);
}

Table make_table() {
  Table table;
  add_floats<f32>(table, "f32");
  add_floats<lang::bf16>(table, "bf16");
  add_floats<lang::f16>(table, "f16");
  add(table, "matmul<i8", kernels::matmul<lang::i8>);
  add(table, "matmul_nt<i8", kernels::matmul_nt<lang::i8>);
  add(table, "matmul_nt_blocks<i8", matmul_nt_blocks<lang::i8, lang::i32>);
  add(table, "matmul_nt<f8e4m3", kernels::matmul_nt<lang::f8e4m3, lang::bf16>);
  add(table, "matmul_nt_blocks<f8e4m3", matmul_nt_blocks<lang::f8e4m3, lang::bf16>);
  add(table, "matmul_nt_weights<i8", matmul_nt_weights<lang::i8>);
  add(table, "matmul_nt_weights<f8e4m3", matmul_nt_weights<lang::f8e4m3>);
  add(table, "matmul_tf32<f32", matmul_tf32);
  add(table, "sum_all<f32", sum_all);
  add(table, "sum_tile<f32", sum_tile);
  add(table, "cumsum_tile<f32", cumsum_tile);
  add(table, "histogram<i32", kernels::histogram);
  add(table, "class_balanced_sampler<f32", kernels::class_balanced_sampler<f32>);
  add(table, "class_balanced_sampler_long<f32", kernels::class_balanced_sampler_long<f32>);
  return table;
}

}  // namespace

Result<dsl::Kernel> bench_kernel(const std::string& name, const std::string& type) {
  const Table table = make_table();
  const auto found = table.find(name + "<" + type);
  if (found == table.end()) return invalid_argument("no kernel `" + name + "` of `" + type + "`");
  return found->second();
}

}  // namespace kiln::test
