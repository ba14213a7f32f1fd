// Products, reductions, scans and orders of tiles. An axis of -1 is the last one.
#pragma once

#include "kiln/dsl/control.h"

namespace kiln::dsl::lang {

using dsl::Precision;
using dsl::ReduceKind;

// --- products ---
// acc + a·b of [M, K] and [K, N], or of a batch [B, M, K] and [B, K, N]; without acc from zero. Floats below 64 bits
// accumulate in f32, i8 and u8 in i32. A precision other than kIeee is for f32 operands.
Value dot(Operand a, Operand b, Operand acc = {}, Precision precision = Precision::kIeee);
// The same of OCP MX operands: f8e4m3, f8e5m2, or u8 that packs two e2m1 along K, low half first. The scales are e8m0
// in u8, one per 32 elements along K: [M, K/32] and [N, K/32].
Value dot_scaled(Operand a, Operand a_scale, Operand b, Operand b_scale, Operand acc = {});

// --- reductions: the axis disappears ---
Value reduce(Operand x, int axis, ReduceKind kind);
// Widens i1, i8 and i16 to i32, u8 and u16 to u32; f16, bf16 and f8 accumulate in f32.
Value sum(Operand x, int axis);
Value prod(Operand x, int axis);
Value reduce_max(Operand x, int axis);  // NaN wins
Value reduce_min(Operand x, int axis);  // NaN wins
Value reduce_and(Operand x, int axis);
Value reduce_or(Operand x, int axis);
Value reduce_xor(Operand x, int axis);
// The i32 index of the extreme, the lowest of several; NaN is the extreme.
Value argmax(Operand x, int axis);
Value argmin(Operand x, int axis);

// --- scans: each element with all before it, itself included ---
struct ScanOptions {
  bool reverse = false;  // from the end; what is accumulated stays on the left
};
Value scan(Operand x, int axis, ReduceKind kind, ScanOptions options = {});
Value cumsum(Operand x, int axis, ScanOptions options = {});   // widens like sum
Value cumprod(Operand x, int axis, ScanOptions options = {});  // widens like sum

namespace tracing {

struct Combination {
  OpCode code;
  int axis;
  bool reverse;
};
// One result per tile, from a function of as many left and right elements.
std::vector<Value> combine(Combination how, const Operands& xs, const Combine& function, SourceLocation loc);

template <class Fn>
std::vector<Value> combine_one(Combination how, const Operand& x, Fn& fn) {
  auto call = [&](const std::vector<Value>& left, const std::vector<Value>& right) {
    return GivenBy<Fn, Value, Value>::operands(fn(left[0], right[0]), x.loc());
  };
  return combine(how, {x}, call, x.loc());
}

// Values: an array, vector, … of values.
template <class Values, class Fn>
Values combine_all(Combination how, const Operands& xs, Fn& fn, SourceLocation loc) {
  auto call = [&](const std::vector<Value>& left, const std::vector<Value>& right) {
    const Values a = Given<Values>::values(left), b = Given<Values>::values(right);
    return GivenBy<Fn, const Values&, const Values&>::operands(fn(a, b), loc);
  };
  return Given<Values>::values(combine(how, xs, call, loc));
}

template <class T>
concept Values = !std::convertible_to<T, Operand> && requires { typename Given<T>::Values; };

}  // namespace tracing

// With a function of a left and a right element, associative; it need not commute. It is traced once, on scalars, and
// consists of elementwise ops. Reading variables of outside is fine, assigning them is not.
//
//   reduce(x, axis, [](Value l, Value r) { return l + r; })
//   auto [top, at] = reduce({x, index}, axis, [](auto l, auto r) { … return std::array{…}; });  // l, r: std::array
//   reduce(values, axis, fn)                           // a vector, array, pair or tuple of values: l, r of that type
//
// Several tiles broadcast to one shape.
template <class Fn>
Value reduce(Operand x, int axis, Fn fn) {
  return tracing::at(tracing::combine_one({OpCode::kReduce, axis, false}, x, fn), 0);
}
template <size_t N, class Fn>
std::array<Value, N> reduce(const Operand (&xs)[N], int axis, Fn fn) {
  return tracing::combine_all<std::array<Value, N>>({OpCode::kReduce, axis, false}, {xs, xs + N}, fn, xs[0].loc());
}
template <tracing::Values T, class Fn>
auto reduce(const T& xs, int axis, Fn fn, SourceLocation loc = SourceLocation::current()) {
  using Given = tracing::Given<T>;
  return tracing::combine_all<typename Given::Values>({OpCode::kReduce, axis, false}, Given::operands(xs, loc), fn,
                                                      loc);
}
// Likewise.
template <class Fn>
Value scan(Operand x, int axis, Fn fn, ScanOptions options = {}) {
  return tracing::at(tracing::combine_one({OpCode::kScan, axis, options.reverse}, x, fn), 0);
}
template <size_t N, class Fn>
std::array<Value, N> scan(const Operand (&xs)[N], int axis, Fn fn, ScanOptions options = {}) {
  return tracing::combine_all<std::array<Value, N>>({OpCode::kScan, axis, options.reverse}, {xs, xs + N}, fn,
                                                    xs[0].loc());
}
template <tracing::Values T, class Fn>
auto scan(const T& xs, int axis, Fn fn, ScanOptions options = {}, SourceLocation loc = SourceLocation::current()) {
  using Given = tracing::Given<T>;
  return tracing::combine_all<typename Given::Values>({OpCode::kScan, axis, options.reverse}, Given::operands(xs, loc),
                                                      fn, loc);
}

// --- orders: NaN is greatest ---
struct SortOptions {
  bool descending = false;
};
Value sort(Operand x, int axis, SortOptions options = {});  // stable
// Keys and the values that move with them.
std::pair<Value, Value> sort(Operand keys, Operand values, int axis, SortOptions options = {});
struct TopkOptions {
  bool largest = true;
};
// The k largest in order, and their i32 indices, the lowest of equal ones first.
std::pair<Value, Value> topk(Operand x, Const k, int axis, TopkOptions options = {});
// How many elements of an int tile equal 0, 1, …, bins-1, i32; others are ignored.
Value histogram(Operand x, Const bins);

}  // namespace kiln::dsl::lang
