// Element types and their names: the same words in C++, in `.kiln` text, in NumPy-facing messages and in code.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln::dsl {

enum class ElementType : uint8_t {
  kI1,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kF8E4M3,
  kF8E5M2,
};
inline constexpr int kElementTypeCount = 15;

struct ElementTypeInfo {
  std::string_view name;  // "f32"
  int bits;               // width of a value; i1 has 1
  int bytes;              // size in memory; i1 has 1
  bool is_float;
  bool is_signed;  // floats and i8…i64; i1 and u8…u64 are unsigned
};

const ElementTypeInfo& info(ElementType type);
std::optional<ElementType> parse_element_type(std::string_view name);

inline bool is_float(ElementType type) { return info(type).is_float; }
inline bool is_int(ElementType type) { return !info(type).is_float; }
// Floats below 32 bits: their arithmetic is computed in f32 and rounded once at the op's result.
inline bool is_small_float(ElementType type) { return is_float(type) && info(type).bits < 32; }

// Values travel as bits: the low `bits` bits of a word hold the element, the rest is zero.
// Conversions follow `cast` of docs/reference/ops.md: truncation with saturation to ints, round to nearest even to
// floats.
uint64_t bits_from_double(ElementType type, double value);
double double_from_bits(ElementType type, uint64_t bits);
// The ends of a type: infinities where it has them, which no conversion to f8 gives.
uint64_t lowest_bits(ElementType type);
uint64_t highest_bits(ElementType type);
uint64_t bits_from_int(ElementType type, int64_t value);  // wraps for ints, rounds for floats
// True when the integer is exactly a value of `type`.
bool int_fits(ElementType type, int64_t value);

}  // namespace kiln::dsl
