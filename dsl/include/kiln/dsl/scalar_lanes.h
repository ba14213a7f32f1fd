// Element types as C++ types: how the bits of a lane become a number that C++ computes with, and back. What the tile
// interpreter and the evaluator of graphs compute with. Pure functions.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kiln/dsl/types.h"

namespace kiln::dsl::scalar {

inline uint64_t low_bits(uint64_t bits, int width) { return width == 64 ? bits : bits & ((uint64_t{1} << width) - 1); }

using Wide = __int128;  // holds every int element and every sum and product of two
// An int element as a number: sign- or zero-extended.
inline Wide wide_from_bits(const ElementTypeInfo& type, uint64_t bits) {
  const int shift = 64 - type.bits;
  return type.is_signed ? Wide{static_cast<int64_t>(bits << shift) >> shift} : Wide{bits};
}

template <class T>
struct IntLane {
  using Number = T;
  static T decode(uint64_t bits) { return static_cast<T>(bits); }
  static uint64_t encode(T number) { return static_cast<std::make_unsigned_t<T>>(number); }
};

struct F64Lane {
  using Number = double;
  static double decode(uint64_t bits) { return std::bit_cast<double>(bits); }
  static uint64_t encode(double number) { return std::bit_cast<uint64_t>(number); }
};

struct F32Lane {
  using Number = float;
  static float decode(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
  static uint64_t encode(float number) { return std::bit_cast<uint32_t>(number); }
};

// Floats below 32 bits compute in f32. Going through types.h bit by bit would make them the slowest lanes by far.
struct BF16Lane {
  using Number = float;
  static float decode(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  static uint64_t encode(float number) {
    const uint32_t bits = std::bit_cast<uint32_t>(number);
    if (std::isnan(number)) return bits >> 31 << 15 | 0x7fc0;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;  // to nearest even; a carry runs into the exponent, at last to inf
  }
};

struct F16Lane {
  using Number = float;
  static float decode(uint64_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, rest = static_cast<uint32_t>(bits & 0x7fff) << 13;
    if (rest >= 0x0f800000) return std::bit_cast<float>(sign | 0x7f800000 | rest);                       // inf and NaN
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(rest) * 0x1p112f));  // f32's bias
  }
  static uint64_t encode(float number) {
    const uint32_t bits = std::bit_cast<uint32_t>(number), magnitude = bits & 0x7fffffff;
    const uint32_t sign = bits >> 31 << 15;
    if (magnitude > 0x7f800000) return sign | 0x7e00;
    if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65520 and more
    if (magnitude < 0x38800000) {
      // Subnormal: adding 0.5 leaves steps of 2^-24 in the mantissa, rounded to nearest even.
      return sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000);
    }
    return sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  }
};

template <ElementType kType>
struct F8Lane {
  using Number = float;
  static float decode(uint64_t bits) {
    static const std::array<float, 256> values = [] {
      std::array<float, 256> table;
      for (uint64_t i = 0; i < 256; ++i) table[i] = static_cast<float>(double_from_bits(kType, i));
      return table;
    }();
    return values[bits & 0xff];
  }
  static uint64_t encode(float number) { return bits_from_double(kType, number); }
};

// The bits of a number that is one of the lane's own: an infinity stays one, which rounding to f8 would saturate.
template <class Lane>
uint64_t encode_own(typename Lane::Number number) {
  if constexpr (std::is_same_v<Lane, F8Lane<ElementType::kF8E5M2>>) {
    if (std::isinf(number)) return number > 0 ? 0x7c : 0xfc;
  }
  return Lane::encode(number);
}

// function(Lane{}) for the lane of an int type; i1 is the byte 0 or 1.
template <class Function>
auto with_int(ElementType type, Function function) {
  switch (type) {
    case ElementType::kI8:
      return function(IntLane<int8_t>{});
    case ElementType::kI16:
      return function(IntLane<int16_t>{});
    case ElementType::kI32:
      return function(IntLane<int32_t>{});
    case ElementType::kI64:
      return function(IntLane<int64_t>{});
    case ElementType::kU16:
      return function(IntLane<uint16_t>{});
    case ElementType::kU32:
      return function(IntLane<uint32_t>{});
    case ElementType::kU64:
      return function(IntLane<uint64_t>{});
    default:
      return function(IntLane<uint8_t>{});
  }
}

template <class Function>
auto with_float(ElementType type, Function function) {
  switch (type) {
    case ElementType::kF16:
      return function(F16Lane{});
    case ElementType::kBF16:
      return function(BF16Lane{});
    case ElementType::kF8E4M3:
      return function(F8Lane<ElementType::kF8E4M3>{});
    case ElementType::kF8E5M2:
      return function(F8Lane<ElementType::kF8E5M2>{});
    case ElementType::kF64:
      return function(F64Lane{});
    default:
      return function(F32Lane{});
  }
}

template <class Function>
auto with_element(ElementType type, Function function) {
  return is_float(type) ? with_float(type, function) : with_int(type, function);
}

}  // namespace kiln::dsl::scalar
