// Functions that expand to the ops of builder.h. On f16 and bf16 they compute in f32 and round once, at the end.
#pragma once

#include <utility>

#include "kiln/dsl/builder.h"

namespace kiln::dsl::lang {

// --- integers ---
Const cdiv(const Const& a, const Const& b);  // a/b rounded up, for a ≥ 0 and b > 0
Value cdiv(Operand a, Operand b);
template <std::integral A, std::integral B>
constexpr auto cdiv(A a, B b) {
  return (a + b - 1) / b;
}
// The coordinates (m, n) of program `pid` of tiles_m·tiles_n such that neighbours share operands: `group` rows of tiles
// are walked column by column, so that a matrix product finds its operands in cache again.
std::pair<Value, Value> grouped_order(Operand pid, Operand tiles_m, Operand tiles_n, Operand group);

// --- elementwise ---
Value clamp(Operand x, Operand low, Operand high);
Value sigmoid(Operand x);
Value relu(Operand x);
Value silu(Operand x);       // x·sigmoid(x)
Value gelu_tanh(Operand x);  // the approximation with tanh
Value gelu_erf(Operand x);   // exact

// --- along an axis ---
// exp(x - max) times the reciprocal of its sum: one division a row.
Value softmax(Operand x, int axis);

}  // namespace kiln::dsl::lang
