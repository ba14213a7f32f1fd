// The first layer of a gated perceptron: two products that read A once, and an activation of one times the other.
#pragma once

#include "kiln/dsl/kernels/matmul.h"

namespace kiln::dsl::lang::kernels {

// B [K, 2N] has the gates' columns in front of the values'. Two sums of BM × BN are kept: blocks are half as wide.
template <class T>
auto gated_matmul(std::string_view name, Value (*activation)(Operand)) {
  auto def = kernel(name, {"A", "B", "C", "M", "N", "K", "BM=128", "BN=128", "BK=256", "GROUP=8"},
                    [activation](Ptr<const T> A, Ptr<const T> B, Ptr<T> C, i32 M, i32 N, i32 K, Const BM, Const BN,
                                 Const BK, Const GROUP) {
                      grid(cdiv(M, BM) * cdiv(N, BN));
                      const auto [m, n] = block_origin(M, N, BM, BN, GROUP);
                      const auto columns = [&](const Value& from, const Value& k) {
                        return tile(from, {K, N}, {2 * N, 1}).load({k, n}, {BK, BN});
                      };
                      Var gate = zeros(f32_t, {BM, BN}), value = zeros(f32_t, {BM, BN});
                      for (Value k : range(0, K, BK).stages(3)) {
                        const Value a = tile(A, {M, K}).load({m, k}, {BM, BK});
                        gate = dot(a, columns(B, k), gate);
                        value = dot(a, columns(B + N, k), value);
                      }
                      tile(C, {M, N}).store({m, n}, cast(activation(gate) * value, element_v<T>));
                    })
                 .space({{"BM", {32, 64, 128}},
                         {"BN", {32, 64, 128}},
                         {"BK", {32, 64, 128, 256}},
                         {"num_warps", {4, 8}},
                         {"num_stages", {2, 3, 4}}})
                 .space("cpu", cpu_product_space(true))
                 .array("A", "M*K")
                 .array("B", "2*K*N")
                 .array("C", "M*N");
  ConstexprValues gpu = {{"BM", 128}, {"BN", 64}, {"BK", 64}, {"num_warps", 8}};
  if (std::is_same_v<T, f32>) gpu = {{"BM", 64}, {"BN", 64}, {"BK", 32}, {"num_warps", 4}};
  return std::move(def).defaults("amd", gpu).defaults("cuda", gpu);
}

// C = silu(A·B[:, :N]) · (A·B[:, N:])
template <class T = f32>
const auto& matmul_swiglu() {
  static const Kept def = gated_matmul<T>("matmul_swiglu", [](Operand x) { return silu(std::move(x)); });
  return *def;
}

// C = gelu(A·B[:, :N]) · (A·B[:, N:]), gelu by its approximation with tanh
template <class T = f32>
const auto& matmul_geglu() {
  static const Kept def =
      gated_matmul<T>("matmul_geglu", [](Operand x) { return gelu_tanh(std::move(x), accuracy<T>()); });
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
