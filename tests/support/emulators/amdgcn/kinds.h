// The types of operands: how a value is held in a register's bits, and what the modifiers make of it.
#pragma once

#include <cmath>
#include <limits>

#include "small_floats.h"
#include "wave.h"

namespace kiln::amdgcn_emulator {

enum class Format : uint8_t { kBits, kSigned, kF16, kBf16, kF32, kF64 };

// A kind has: Value (what operations compute with), Bits (what registers hold), its width and format.
template <class V, class B, unsigned W, Format F>
struct IntegerKind {
  using Value = V;
  using Bits = B;
  static constexpr unsigned width = W;
  static constexpr Format format = F;
  static constexpr bool is_float = false;
  static Value decode(Bits bits) { return static_cast<Value>(bits); }
  // Results may come in a wider type; `clamp` saturates.
  template <class R>
  static Bits encode(R result, bool clamp) {
    if (!clamp || sizeof(R) <= sizeof(Value)) return static_cast<Bits>(static_cast<std::make_unsigned_t<V>>(result));
    constexpr auto low = static_cast<R>(std::numeric_limits<V>::min());
    constexpr auto high = static_cast<R>(std::numeric_limits<V>::max());
    return static_cast<Bits>(static_cast<std::make_unsigned_t<V>>(result < low ? low : result > high ? high : result));
  }
};

using U32 = IntegerKind<uint32_t, uint32_t, 32, Format::kBits>;
using I32 = IntegerKind<int32_t, uint32_t, 32, Format::kSigned>;
using U16 = IntegerKind<uint16_t, uint32_t, 16, Format::kBits>;
using I16 = IntegerKind<int16_t, uint32_t, 16, Format::kSigned>;
using U64 = IntegerKind<uint64_t, uint64_t, 64, Format::kBits>;
using I64 = IntegerKind<int64_t, uint64_t, 64, Format::kSigned>;

struct F32 {
  using Value = float;
  using Bits = uint32_t;
  static constexpr unsigned width = 32;
  static constexpr Format format = Format::kF32;
  static constexpr bool is_float = true;
  static Value decode(Bits bits) { return std::bit_cast<float>(bits); }
  static Bits encode(float value, bool) { return std::bit_cast<uint32_t>(value); }
  static constexpr Bits default_nan = 0x7fc00000;
};

struct F64 {
  using Value = double;
  using Bits = uint64_t;
  static constexpr unsigned width = 64;
  static constexpr Format format = Format::kF64;
  static constexpr bool is_float = true;
  static Value decode(Bits bits) { return std::bit_cast<double>(bits); }
  static Bits encode(double value, bool) { return std::bit_cast<uint64_t>(value); }
  static constexpr Bits default_nan = 0x7ff8000000000000;
};

// Computed in f32, which holds sums, products, quotients and roots well enough to round once more exactly; an
// operation that needs more returns double.
struct F16 {
  using Value = float;
  using Bits = uint32_t;
  static constexpr unsigned width = 16;
  static constexpr Format format = Format::kF16;
  static constexpr bool is_float = true;
  static Value decode(Bits bits) { return half_to_float(bits); }
  static Bits encode(float value, bool) { return float_to_half(value); }
  static Bits encode(double value, bool) { return encode_small(value, kHalf, Rounding::kNearestEven); }
  static constexpr Bits default_nan = 0x7e00;
};

struct BF16 {
  using Value = float;
  using Bits = uint32_t;
  static constexpr unsigned width = 16;
  static constexpr Format format = Format::kBf16;
  static constexpr bool is_float = true;
  static Value decode(Bits bits) { return brain_to_float(bits); }
  static Bits encode(float value, bool) { return float_to_brain(value); }
  static constexpr Bits default_nan = 0x7fc0;
};

template <class K>
inline constexpr uint64_t kSignBit = uint64_t{1} << (K::width - 1);

// The bits of a constant operand read as a kind.
uint64_t constant_bits(const Operand& operand, Format format, unsigned width);

inline Rounding rounding_of(const Wave& wave, unsigned width) {
  return static_cast<Rounding>(width == 32 ? wave.mode & 3 : wave.mode >> 2 & 3);
}

inline bool flushes_inputs(const Wave& wave, unsigned width) {
  return !(wave.mode & (width == 32 ? kModeDenormIn32 : kModeDenormIn64));
}
inline bool flushes_outputs(const Wave& wave, unsigned width) {
  return !(wave.mode & (width == 32 ? kModeDenormOut32 : kModeDenormOut64));
}

template <class K>
typename K::Bits flush(typename K::Bits bits) {
  constexpr uint64_t exponent = K::width == 16 ? 0x7c00 : K::width == 32 ? 0x7f800000 : 0x7ff0000000000000;
  return bits & exponent ? bits : static_cast<typename K::Bits>(bits & kSignBit<K>);
}

}  // namespace kiln::amdgcn_emulator
