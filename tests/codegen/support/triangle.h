// A product of persistent blocks whose loops are not of one length: that of program i has 2 (i + 1) iterations.
#pragma once

#include "kiln/dsl/kernel.h"

namespace kiln::test {

inline const dsl::Kernel& triangle() {
  namespace lang = dsl::lang;
  using lang::i32, lang::Ptr, lang::Value;
  static const auto out =
      lang::kernel("triangle", {"A", "B", "C", "M", "N"},
                   [](Ptr<const lang::bf16> A, Ptr<const lang::bf16> B, Ptr<lang::bf16> C, i32 M, i32 N) {
                     lang::grid(lang::cdiv(M, 128));
                     const Value m = lang::program_id(0) * 128;
                     lang::Var acc = lang::zeros(lang::f32_t, {128, 128});
                     for (Value k : lang::range(0, m + 128, 64).stages(3)) {
                       acc = lang::dot(lang::tile(A, {M, M}).load({m, k}, {128, 64}),
                                       lang::tile(B, {M, N}).load({k, 0}, {64, 128}), acc);
                     }
                     lang::tile(C, {M, N}).store({m, 0}, lang::cast(acc, lang::bf16_t));
                   });
  return *out.ir();
}

}  // namespace kiln::test
