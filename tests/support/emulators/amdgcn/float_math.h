// The functions of AMD's floating-point units where they differ from the host's.
#pragma once

#include <cmath>
#include <limits>
#include <numbers>

#include "kinds.h"

namespace kiln::amdgcn_emulator {

inline bool is_signalling(float value) { return std::isnan(value) && !(std::bit_cast<uint32_t>(value) & 0x400000); }
inline bool is_signalling(double value) {
  return std::isnan(value) && !(std::bit_cast<uint64_t>(value) & 0x8000000000000);
}
inline float quiet(float value) { return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | 0x400000); }
inline double quiet(double value) { return std::bit_cast<double>(std::bit_cast<uint64_t>(value) | 0x8000000000000); }

// v_min, v_max: a NaN gives way to the other operand, but a signalling one wins in IEEE mode; -0 < +0.
template <class V>
V minimum_number(V a, V b, bool ieee) {
  if (ieee && is_signalling(a)) return quiet(a);
  if (ieee && is_signalling(b)) return quiet(b);
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class V>
V maximum_number(V a, V b, bool ieee) {
  if (ieee && is_signalling(a)) return quiet(a);
  if (ieee && is_signalling(b)) return quiet(b);
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

// v_minimum, v_maximum of gfx12: NaN wins.
template <class V>
V minimum(V a, V b) {
  return std::isnan(a) ? quiet(a) : std::isnan(b) ? quiet(b) : minimum_number(a, b, false);
}
template <class V>
V maximum(V a, V b) {
  return std::isnan(a) ? quiet(a) : std::isnan(b) ? quiet(b) : maximum_number(a, b, false);
}

template <class V>
V median(V a, V b, V c, bool ieee) {
  if (std::isnan(a) || std::isnan(b) || std::isnan(c)) return minimum_number(minimum_number(a, b, ieee), c, ieee);
  V largest = maximum_number(maximum_number(a, b, ieee), c, ieee);
  if (largest == a) return maximum_number(b, c, ieee);
  if (largest == b) return maximum_number(a, c, ieee);
  return maximum_number(a, b, ieee);
}

// x - floor(x), below 1 even where that rounds up.
template <class V>
V fraction(V x, V below_one) {
  if (std::isinf(x)) return std::numeric_limits<V>::quiet_NaN();
  V result = x - std::floor(x);
  return result >= 1 ? below_one : result;
}

template <class V>
V frexp_mantissa(V x) {
  int exponent = 0;
  return std::isfinite(x) ? std::frexp(x, &exponent) : x;
}
template <class V>
int frexp_exponent(V x) {
  int exponent = 0;
  if (!std::isfinite(x) || x == 0) return 0;
  std::frexp(x, &exponent);
  return exponent;
}

inline float flush(float x) { return F32::decode(flush<F32>(F32::encode(x, false))); }

// Approximations in hardware, here rounded once; those of f32 flush subnormal numbers whatever MODE says.
struct Transcendental {
  static float rcp(float a) { return flush(1 / flush(a)); }
  static float sqrt(float a) { return std::sqrt(flush(a)); }
  static float rsq(float a) { return static_cast<float>(1 / std::sqrt(double{flush(a)})); }
  static float exp(float a) { return flush(static_cast<float>(std::exp2(double{a}))); }
  static float log(float a) { return static_cast<float>(std::log2(double{flush(a)})); }
};
struct HalfTranscendental {
  static double rcp(float a) { return 1 / double{a}; }
  static double sqrt(float a) { return std::sqrt(double{a}); }
  static double rsq(float a) { return 1 / std::sqrt(double{a}); }
  static double exp(float a) { return std::exp2(double{a}); }
  static double log(float a) { return std::log2(double{a}); }
};

// sin and cos take turns, and give 0 (1) beyond ±256 turns.
template <bool Cosine>
double of_turns(double x) {
  if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  if (std::fabs(x) > 256) return Cosine ? 1 : 0;
  double turns = x - std::nearbyint(x);
  double angle = 2 * std::numbers::pi * turns;
  if (Cosine) return std::fabs(turns) == 0.25 ? 0 : std::cos(angle);
  return std::fabs(turns) == 0.5 ? std::copysign(0.0, x) : std::sin(angle);
}

// v_trig_preop_f64: 53 bits of 2/π from the segment-th on, counted from where x's exponent makes them matter.
double two_over_pi_segment(double x, uint32_t segment);

// The reciprocals of f64 are good to about 24 bits: what refines them must do its work.
inline double coarse(double value) {
  if (!std::isfinite(value)) return value;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(value) & ~uint64_t{0xfffffff});
}

}  // namespace kiln::amdgcn_emulator
