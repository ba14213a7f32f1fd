// Functions that expand to the ops of builder.h. On f16, bf16 and f8 they compute in f32 and round once, at the end. An
// axis of -1 is the last one.
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
Value floor_div(Operand a, Operand b);  // ints, rounded down; x/0 = 0
Value floor_mod(Operand a, Operand b);  // a - floor_div(a, b)·b: the divisor's sign; x mod 0 = x
// The coordinates (m, n) of program `pid` of tiles_m·tiles_n such that neighbours share operands: `group` rows of tiles
// are walked column by column, so that a matrix product finds its operands in cache again.
std::pair<Value, Value> grouped_order(Operand pid, Operand tiles_m, Operand tiles_n, Operand group);
// The same from the coordinates (i, j) in row-major order.
std::pair<Value, Value> swizzle(Operand i, Operand j, Operand size_i, Operand size_j, Operand group);

// --- shapes ---
Value zeros_like(Operand x);
Value flip(Operand x, int axis);
Value interleave(Operand a, Operand b);  // a0, b0, a1, b1, … along the last axis
enum class Side : uint8_t { kLeft, kRight };
// How many elements of an ascending tile of rank 1 lie before each value, i32: those below it, with kRight also those
// equal to it. NaN is greatest.
Value searchsorted(Operand sorted, Operand values, Side side = Side::kLeft);

// --- elementwise ---
Value clamp(Operand x, Operand low, Operand high);
Value sigmoid(Operand x);
Value relu(Operand x);
Value silu(Operand x);                                            // x·sigmoid(x)
Value gelu_tanh(Operand x, Accuracy accuracy = Accuracy::kFull);  // the approximation with tanh
Value gelu_erf(Operand x);                                        // exact
Value softplus(Operand x);                                        // log(1 + e^x)

// --- along an axis ---
// exp(x - max) times the reciprocal of its sum: one division a row.
Value softmax(Operand x, int axis);
Value log_softmax(Operand x, int axis);
Value logsumexp(Operand x, int axis);
Value any(Operand x, int axis);  // i1: is an element not 0
Value all(Operand x, int axis);  // i1: is every element not 0
std::pair<Value, Value> max_with_index(Operand x, int axis);
std::pair<Value, Value> min_with_index(Operand x, int axis);

// Which elements count; the others may hold anything. Ints give f32.
struct MaskOptions {
  Operand mask = {};
};
struct VarOptions {
  Operand mask = {};
  double correction = 0;  // the divisor is the count less this: 1 for a sample
};
Value mean(Operand x, int axis, MaskOptions options = {});
// In two passes, the second corrected for the rounding of the mean.
Value var(Operand x, int axis, VarOptions options = {});
// (x - mean) / sqrt(var + eps) · weight + bias. Weight and bias may be absent ({}); of rank 1 they run along the axis.
Value layer_norm(Operand x, Operand weight, Operand bias, int axis, Operand eps, MaskOptions options = {});
// x / sqrt(mean of squares + eps) · weight
Value rms_norm(Operand x, Operand weight, int axis, Operand eps, MaskOptions options = {});

// --- random: of a seed and a tile of offsets, which should differ; see philox ---
Value rand(Operand seed, Operand offset);   // f32 in [0, 1)
Value randn(Operand seed, Operand offset);  // f32, mean 0, variance 1
// Ints of 32 bits in [low, high); low where that is empty.
Value randint(Operand seed, Operand offset, Operand low, Operand high);
// x/(1-p) with probability 1-p, else 0.
Value dropout(Operand x, Operand p, Operand seed, Operand offset);

}  // namespace kiln::dsl::lang
