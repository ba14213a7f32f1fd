// Numbers of 16 and 8 bits: conversions exactly as the formats and MODE define them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace kiln::amdgcn_emulator {

// As MODE counts them.
enum class Rounding : uint8_t { kNearestEven, kUp, kDown, kTowardZero };

// A binary format with a sign: its exponent's and its mantissa's bits, and what its largest exponent means.
struct SmallFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool infinity;       // the largest exponent holds infinity and NaNs
  bool unsigned_zero;  // FNUZ: one zero, and its negative is the only NaN
};

inline constexpr SmallFormat kHalf{5, 10, 15, true, false};
inline constexpr SmallFormat kBrain{8, 7, 127, true, false};
inline constexpr SmallFormat kFp8{4, 3, 7, false, false};  // OCP E4M3: S.1111.111 is NaN
inline constexpr SmallFormat kBf8{5, 2, 15, true, false};  // OCP E5M2
inline constexpr SmallFormat kFp8Fnuz{4, 3, 8, false, true};
inline constexpr SmallFormat kBf8Fnuz{5, 2, 16, false, true};

double decode_small(uint32_t bits, const SmallFormat& format);
// As decode_small, by a table: of formats with eight bits.
float decode_byte(uint32_t bits, const SmallFormat& format);
// Rounds once. `saturate`: what is too large becomes the largest finite number instead of infinity (or NaN).
uint32_t encode_small(double value, const SmallFormat& format, Rounding rounding, bool saturate = false);
// Adds the bits of `noise` below the last place and truncates.
uint32_t encode_stochastic(float value, const SmallFormat& format, uint32_t noise, bool saturate);

// The numbers of matrices of 8, 6 and 4 bits, by the kinds that instructions number: fp8, bf8, fp6, bf6, fp4.
unsigned bits_of_kind(unsigned kind);
double decode_kind(uint32_t bits, unsigned kind);

// f16 → f32, exactly, without branches: compilers vectorise it.
inline float half_to_float(uint32_t half) {
  uint32_t shifted = (half & 0x7fff) << 13;
  uint32_t exponent = shifted & 0x0f800000;
  // Normal numbers: the exponent's bias; infinity and NaN: twice. Subnormal ones: a subtraction normalises them.
  uint32_t normal = shifted + 0x38000000;
  uint32_t special = shifted + 0x70000000;
  float subnormal = std::bit_cast<float>(shifted + 0x38800000) - std::bit_cast<float>(0x38800000u);
  uint32_t bits = exponent == 0x0f800000 ? special : exponent == 0 ? std::bit_cast<uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(bits | (half & 0x8000) << 16);
}

// f32 → f16, to nearest, ties to even.
inline uint32_t float_to_half(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = bits >> 16 & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  // Adding a power of two aligns the last place of a subnormal result with that of the sum.
  uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  uint32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
  uint32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
  uint32_t result = magnitude > 0x7f800000 ? nan : magnitude >= 0x47800000 ? 0x7c00 : finite;
  return sign | result;
}

// a * b + c of halves, rounded to odd in f32: rounding that to f16 gives the sum rounded once. The product is exact.
inline float half_fma(float a, float b, float c) {
  float product = a * b;
  float sum = product + c;
  float part = sum - product;
  float error = (product - (sum - part)) + (c - part);
  uint32_t bits = std::bit_cast<uint32_t>(sum);
  uint32_t step = (error > 0) == (sum > 0) ? 1u : ~0u;  // away from zero or back
  bool inexact = (error > 0 || error < 0) && !(bits & 1);
  return std::bit_cast<float>(inexact ? bits + step : bits);
}

inline float brain_to_float(uint32_t brain) { return std::bit_cast<float>(brain << 16); }

inline uint32_t float_to_brain(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16 | 0x40) : rounded;
}

}  // namespace kiln::amdgcn_emulator
