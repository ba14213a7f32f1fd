// Scalar arithmetic of the element types: what the ops of tiles and of graphs mean, element by element. Templates over
// lanes (scalar_lanes.h) or their numbers; pure functions.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>

#include "kiln/dsl/ops.h"
#include "kiln/dsl/scalar_lanes.h"

namespace kiln::dsl::scalar {

// --- arithmetic ---
template <class T>
T float_min_max(T a, T b, bool is_min, bool numeric) {
  if (std::isnan(a)) return numeric ? b : a;
  if (std::isnan(b)) return numeric ? a : b;
  return is_min ? (b < a ? b : a) : (a < b ? b : a);
}

// Of ints: the result in `out`, and whether the exact one wrapped.
template <class T>
bool divide(T a, T b, T& out) {
  const bool wraps = std::is_signed_v<T> && b == static_cast<T>(-1) && a == std::numeric_limits<T>::min() && a != 0;
  out = b == 0 ? T{0} : wraps ? a : static_cast<T>(a / b);
  return wraps;
}

template <class T>
bool remainder(T a, T b, T& out) {
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) {
    out = 0;  // MIN % -1 would trap
  } else {
    out = b == 0 ? a : static_cast<T>(a % b);
  }
  return false;
}

template <class T>
bool multiply_high(T a, T b, T& out) {
  // Of u64 the product needs all 128 bits, unsigned.
  using Product = std::conditional_t<std::is_signed_v<T>, Wide, unsigned __int128>;
  out = static_cast<T>((Product{a} * Product{b}) >> (8 * sizeof(T)));
  return false;
}

template <class T>
bool shift_left(T x, T amount, T& out) {
  using U = std::make_unsigned_t<T>;
  const bool all = static_cast<U>(amount) >= 8 * sizeof(T);
  out = all ? T{0} : static_cast<T>(uint64_t{static_cast<U>(x)} << static_cast<U>(amount));
  // A left shift is a product; whoever shifts bits out of an index has wrapped it.
  return x != (all ? T{0} : static_cast<T>(out >> amount));
}

template <class T>
bool shift_right(T x, T amount, T& out) {
  constexpr unsigned kWidth = 8 * sizeof(T);
  const bool all = static_cast<std::make_unsigned_t<T>>(amount) >= kWidth;
  out = !all ? static_cast<T>(x >> amount) : x < 0 ? static_cast<T>(-1) : T{0};
  return false;
}

// --- elementary functions: one precision more than the element has, then one rounding: f32 and below through double,
// f64 through long double ---
// y is x for functions of one operand.
template <class T>
T math(MathFn function, T x, T y) {
  switch (function) {
    case MathFn::kExp:
      return std::exp(x);
    case MathFn::kExp2:
      return std::exp2(x);
    case MathFn::kExpm1:
      return std::expm1(x);
    case MathFn::kLog:
      return std::log(x);
    case MathFn::kLog2:
      return std::log2(x);
    case MathFn::kLog10:
      return std::log10(x);
    case MathFn::kLog1p:
      return std::log1p(x);
    case MathFn::kSin:
      return std::sin(x);
    case MathFn::kCos:
      return std::cos(x);
    case MathFn::kTan:
      return std::tan(x);
    case MathFn::kAsin:
      return std::asin(x);
    case MathFn::kAcos:
      return std::acos(x);
    case MathFn::kAtan:
      return std::atan(x);
    case MathFn::kAtan2:
      return std::atan2(x, y);
    case MathFn::kSinh:
      return std::sinh(x);
    case MathFn::kCosh:
      return std::cosh(x);
    case MathFn::kTanh:
      return std::tanh(x);
    case MathFn::kErf:
      return std::erf(x);
    case MathFn::kErfc:
      return std::erfc(x);
    case MathFn::kSqrt:
      return std::sqrt(x);
    case MathFn::kRsqrt:
      return T{1} / std::sqrt(x);
    case MathFn::kPow:
      return std::pow(x, y);
    case MathFn::kHypot:
      return std::hypot(x, y);
    case MathFn::kCopysign:
      break;  // copy_signs
    case MathFn::kSignbit:
      return std::signbit(x);
    case MathFn::kFloor:
      return std::floor(x);
    case MathFn::kCeil:
      return std::ceil(x);
    case MathFn::kRound:
      return std::nearbyint(x);  // to even in the default rounding mode
    case MathFn::kTrunc:
      return std::trunc(x);
    case MathFn::kIsnan:
      return std::isnan(x);
    case MathFn::kIsinf:
      return std::isinf(x);
  }
  return x;
}

// Functions that give a number of the operand's type without rounding; sqrt is rounded, if correctly.
inline bool is_exact(MathFn function) {
  return function == MathFn::kFloor || function == MathFn::kCeil || function == MathFn::kRound ||
         function == MathFn::kTrunc;
}

template <class Lane>
uint64_t math_bits(MathFn function, uint64_t x, uint64_t y) {
  using Number = typename Lane::Number;
  using Finer = std::conditional_t<std::is_same_v<Number, double>, long double, double>;
  // sqrt of f64 is correctly rounded as it is; through long double it would round twice.
  if (std::is_same_v<Number, double> && function == MathFn::kSqrt) {
    return Lane::encode(static_cast<Number>(std::sqrt(static_cast<double>(Lane::decode(x)))));
  }
  // The powers of infinity are exact as they are; glibc's long double has inf for (-inf)^(-2^63).
  if (std::is_same_v<Number, double> && function == MathFn::kPow && std::isinf(Lane::decode(x))) {
    return Lane::encode(
        static_cast<Number>(std::pow(static_cast<double>(Lane::decode(x)), static_cast<double>(Lane::decode(y)))));
  }
  const Finer result = math<Finer>(function, Lane::decode(x), Lane::decode(y));
  if (is_float_test(function)) return result != 0;
  if (is_exact(function)) return encode_own<Lane>(static_cast<Number>(result));
  return Lane::encode(static_cast<Number>(result));
}

// --- reductions and order ---
template <class T>
T combine_extreme(T left, T right, bool is_min) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(left)) return left;
    if (std::isnan(right)) return right;
  }
  return (is_min ? right < left : left < right) ? right : left;
}

// One step of a kind; of ints it wraps.
template <class T>
T combine_two(ReduceKind kind, T left, T right) {
  if (kind == ReduceKind::kMin || kind == ReduceKind::kMax)
    return combine_extreme(left, right, kind == ReduceKind::kMin);
  if constexpr (std::is_floating_point_v<T>) {
    return kind == ReduceKind::kSum ? left + right : left * right;
  } else {
    const auto a = static_cast<uint64_t>(left), b = static_cast<uint64_t>(right);
    switch (kind) {
      case ReduceKind::kSum:
        return static_cast<T>(a + b);
      case ReduceKind::kProd:
        return static_cast<T>(a * b);
      case ReduceKind::kAnd:
        return static_cast<T>(a & b);
      case ReduceKind::kOr:
        return static_cast<T>(a | b);
      default:  // kXor
        return static_cast<T>(a ^ b);
    }
  }
}

// min and max give an element as it is, sums and products are rounded.
template <class Lane>
uint64_t encode_combined(ReduceKind kind, typename Lane::Number number) {
  const bool chosen = kind == ReduceKind::kMin || kind == ReduceKind::kMax;
  return chosen ? encode_own<Lane>(number) : Lane::encode(number);
}

// The error of a pairwise sum grows with log n: 2^25 ones give 33554432.
template <class T>
T pairwise_sum(std::span<const T> x) {
  if (x.size() <= 8) {
    T sum = x[0];
    for (T value : x.subspan(1)) sum = static_cast<T>(sum + value);
    return sum;
  }
  const size_t half = x.size() / 2;
  return static_cast<T>(pairwise_sum(x.first(half)) + pairwise_sum(x.subspan(half)));
}

// The lowest index of the extreme; NaN is the extreme of both.
template <class T>
size_t extreme_index(std::span<const T> x, bool is_min) {
  size_t best = 0;
  for (size_t i = 1; i < x.size(); ++i) {
    if (x[best] != x[best]) break;
    if (x[i] != x[i] || (is_min ? x[i] < x[best] : x[i] > x[best])) best = i;
  }
  return best;
}

template <class T>
bool goes_before(T a, T b) {
  if (a != a) return false;  // NaN
  return b != b || a < b;
}

// --- products, random words ---
// f32 with a mantissa of 10 bits, rounded to nearest even; infinities and NaN stay.
inline float round_to_tf32(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  bits += 0xfffu + (bits >> 13 & 1u);
  return std::bit_cast<float>(bits & ~0x1fffu);
}

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers, As Easy as 1, 2, 3).
inline std::array<uint32_t, 4> philox(uint64_t seed, uint64_t offset) {
  std::array<uint32_t, 4> counter = {static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32), 0, 0};
  std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

}  // namespace kiln::dsl::scalar
