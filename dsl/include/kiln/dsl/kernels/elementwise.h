// Kernels that treat each element, or each pair of elements, on its own.
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// out[i] = x[i] + y[i], i < n
template <class T = f32>
const auto& vector_add() {
  static const Kept def = kernel("vector_add", {"x", "y", "out", "n", "BLOCK=4096"},
                                 [](Ptr<const T> x, Ptr<const T> y, Ptr<T> out, i32 n, Const BLOCK) {
                                   grid(cdiv(n, BLOCK));
                                   const Value start = program_id(0) * BLOCK;
                                   const Value total =
                                       tile(x, {n}).load({start}, {BLOCK}) + tile(y, {n}).load({start}, {BLOCK});
                                   tile(out, {n}).store({start}, total);
                                 })
                              .space({{"BLOCK", {1024, 2048, 4096, 8192, 16384}}})
                              .array("x", "n")
                              .array("y", "n")
                              .array("out", "n")
                              .defaults("amd", {{"BLOCK", 1024}})
                              .defaults("cuda", {{"BLOCK", 1024}});
  return *def;
}

// y[i] = sin(x[i])² + cos(x[i])², i < n
template <class T = f32>
const auto& sin2_cos2() {
  static const Kept def = kernel("sin2_cos2", {"x", "y", "n", "BLOCK=4096"},
                                 [](Ptr<const T> x, Ptr<T> y, i32 n, Const BLOCK) {
                                   grid(cdiv(n, BLOCK));
                                   const Value start = program_id(0) * BLOCK;
                                   const Value v = load_f32(tile(x, {n}), {start}, {BLOCK});
                                   const Value s = sin(v), c = cos(v);
                                   tile(y, {n}).store({start}, cast(s * s + c * c, element_v<T>));
                                 })
                              .space({{"BLOCK", {1024, 2048, 4096, 8192, 16384}}})
                              .array("x", "n")
                              .array("y", "n")
                              .defaults("amd", {{"BLOCK", 1024}})
                              .defaults("cuda", {{"BLOCK", 1024}});
  return *def;
}

// y[i] = gelu(x[i]), exact (with erf), i < n
template <class T = f32>
const auto& gelu() {
  static const Kept def = kernel("gelu", {"x", "y", "n", "BLOCK=4096"},
                                 [](Ptr<const T> x, Ptr<T> y, i32 n, Const BLOCK) {
                                   grid(cdiv(n, BLOCK));
                                   const Value start = program_id(0) * BLOCK;
                                   tile(y, {n}).store({start}, gelu_erf(tile(x, {n}).load({start}, {BLOCK})));
                                 })
                              .space({{"BLOCK", {1024, 2048, 4096, 8192, 16384}}})
                              .array("x", "n")
                              .array("y", "n")
                              .defaults("amd", {{"BLOCK", 1024}})
                              .defaults("cuda", {{"BLOCK", 1024}});
  return *def;
}

// y[r, c] = gelu(x[r, c] + bias[c]), the approximation with tanh
template <class T = f32>
const auto& bias_gelu() {
  static const Kept def =
      kernel("bias_gelu", {"x", "bias", "y", "rows", "cols", "BR=2", "BC=4096"},
             [](Ptr<const T> x, Ptr<const T> bias, Ptr<T> y, i32 rows, i32 cols, Const BR, Const BC) {
               grid(cdiv(cols, BC), cdiv(rows, BR));
               const Value col = program_id(0) * BC, row = program_id(1) * BR;
               const Value v = load_f32(tile(x, {rows, cols}), {row, col}, {BR, BC});
               const Value b = load_f32(tile(bias, {cols}), {col}, {BC});
               tile(y, {rows, cols}).store({row, col}, cast(gelu_tanh(v + b, accuracy<T>()), element_v<T>));
             })
          .space({{"BR", {1, 2, 4, 8, 16}}, {"BC", {256, 512, 1024, 2048, 4096}}})
          .array("x", "rows*cols")
          .array("bias", "cols")
          .array("y", "rows*cols")
          .defaults("amd", {{"BR", 2}, {"BC", 512}})
          .defaults("cuda", {{"BR", 2}, {"BC", 512}});
  return *def;
}

// y[i] = x[i]/(1-p) with probability 1-p, else 0; i < n. Philox gives four words at an offset: with q = ⌈n/4⌉, element
// i keeps its value where word i/q of philox(seed, offset + i%q) as a number in [0, 1) is at least p. The backward pass
// is the same kernel on dy, with the same n, seed, offset and p.
template <class T = f32>
const auto& dropout() {
  static const Kept def = kernel("dropout", {"x", "y", "n", "p", "seed", "offset", "BLOCK=1024"},
                                 [](Ptr<const T> x, Ptr<T> y, i32 n, f32 p, i64 seed, i64 offset, Const BLOCK) {
                                   const Value quarter = cdiv(n, 4);
                                   grid(cdiv(quarter, BLOCK));
                                   const Value start = program_id(0) * BLOCK;
                                   const Value lane = cast(start + arange(0, BLOCK), i64_t);
                                   const Value scale = 1 / (1 - p);
                                   const auto words = philox(seed, offset + lane);
                                   for (int i = 0; i < 4; ++i) {
                                     const Value first = min(quarter * i, n);
                                     const Value count = min(n - first, quarter);
                                     const Value v = load_f32(tile(x + first, {count}), {start}, {BLOCK});
                                     // The high 24 bits of a word are a number in [0, 1), exactly.
                                     const Value kept = cast(words[i] >> 8, f32_t) * 0x1p-24f >= p;
                                     const Value out = where(kept, v * scale, 0);
                                     tile(y + first, {count}).store({start}, cast(out, element_v<T>));
                                   }
                                 })
                              .space({{"BLOCK", {256, 512, 1024, 2048, 4096}}})
                              .array("x", "n")
                              .array("y", "n")
                              .defaults("amd", {{"BLOCK", 512}})
                              .defaults("cuda", {{"BLOCK", 512}})
                              .defaults("cuda:sm_86", {{"BLOCK", 512}, {"num_warps", 8}})
                              .defaults("cuda:sm_89", {{"BLOCK", 512}, {"num_warps", 8}});
  return *def;
}

// Rotary embedding of x [tokens, heads, D], by halves ("neox"): with a = x[t, h, j], b = x[t, h, j + D/2], j < D/2, and
// the angles' cosines and sines of row positions[t] of tables [positions, D/2],
//   y[t, h, j] = a·cos - b·sin,   y[t, h, j + D/2] = b·cos + a·sin.
// Not in place.
template <class T = f32>
const auto& rotary() {
  static const Kept def =
      kernel("rotary", {"x", "cosine", "sine", "positions", "y", "tokens", "heads", "D=128", "BH=8"},
             [](Ptr<const T> x, Ptr<const T> cosine, Ptr<const T> sine, Ptr<const i32> positions, Ptr<T> y, i32 tokens,
                i32 heads, Const D, Const BH) {
               require(D % 2 == 0, "D must be even");
               grid(tokens);
               const Const half = D / 2;
               const Value token = program_id(0);
               const Value start = cast(token, i64_t) * heads * D;
               const Value angle = cast(load(positions + token), i64_t) * half;
               const Value c = load_f32(tile(cosine + angle, {half}), {0}, {half});
               const Value s = load_f32(tile(sine + angle, {half}), {0}, {half});
               const Tile from = tile(x + start, {heads, D}), to = tile(y + start, {heads, D});
               for (Value head : range(0, heads, BH)) {
                 const Value a = load_f32(from, {head, 0}, {BH, half}), b = load_f32(from, {head, half}, {BH, half});
                 to.store({head, 0}, cast(a * c - b * s, element_v<T>));
                 to.store({head, half}, cast(b * c + a * s, element_v<T>));
               }
             })
          .space({{"BH", {1, 4, 8, 16, 32}}})
          .array("x", "tokens*heads*D")
          .array("cosine", "tokens*div(D, 2)")
          .array("sine", "tokens*div(D, 2)")
          .array("positions", "tokens", "0", "tokens")
          .array("y", "tokens*heads*D");
  return *def;
}

// One step of AdamW, in place on p, m and v; `step` counts from 1:
//   m = beta1·m + (1-beta1)·g,   v = beta2·v + (1-beta2)·g²
//   p = p·(1 - lr·weight_decay) - lr/(1 - beta1^step) · m / (sqrt(v / (1 - beta2^step)) + eps)
// g has the type of p; m and v are f32. The factors are computed in f64.
template <class T = f32>
const auto& adamw() {
  static const Kept def =
      kernel("adamw", {"p", "g", "m", "v", "n", "lr", "beta1", "beta2", "eps", "weight_decay", "step", "BLOCK=4096"},
             [](Ptr<T> p, Ptr<const T> g, Ptr<f32> m, Ptr<f32> v, i32 n, f64 lr, f64 beta1, f64 beta2, f64 eps,
                f64 weight_decay, i32 step, Const BLOCK) {
               grid(cdiv(n, BLOCK));
               const Value start = program_id(0) * BLOCK;
               const Value steps = cast(step, f64_t);
               const Value rate = cast(lr / (1 - pow(beta1, steps)), f32_t);
               const Value decay = cast(1 - lr * weight_decay, f32_t);
               const Value root = cast(1 / sqrt(1 - pow(beta2, steps)), f32_t);
               const Tile parameters = tile(p, {n}), first = tile(m, {n}), second = tile(v, {n});
               const Value gradient = load_f32(tile(g, {n}), {start}, {BLOCK});
               const Value mean = first.load({start}, {BLOCK}) * cast(beta1, f32_t) + gradient * cast(1 - beta1, f32_t);
               const Value square =
                   second.load({start}, {BLOCK}) * cast(beta2, f32_t) + gradient * gradient * cast(1 - beta2, f32_t);
               const Value move = mean / (sqrt(square) * root + cast(eps, f32_t));
               const Value next = load_f32(parameters, {start}, {BLOCK}) * decay - move * rate;
               parameters.store({start}, cast(next, element_v<T>));
               first.store({start}, mean);
               second.store({start}, square);
             })
          .space({{"BLOCK", {1024, 2048, 4096, 8192, 16384}}})
          .array("p", "n")
          .array("g", "n")
          .array("m", "n")
          .array("v", "n", "0", "1")
          .defaults("amd", {{"BLOCK", 1024}})
          .defaults("cuda", {{"BLOCK", 1024}});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
