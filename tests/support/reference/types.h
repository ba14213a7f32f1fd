// Element types of the reference library. It includes nothing of Kiln, so that a mistake there cannot hide itself here;
// the enumerators stand in the order of kiln::dsl::ElementType, so that a test may convert with a static_cast.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace kiln::reference {

enum class Type : uint8_t {
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
  kF8E5M2
};

inline constexpr std::initializer_list<Type> kIntTypes = {Type::kI8, Type::kI16, Type::kI32, Type::kI64,
                                                          Type::kU8, Type::kU16, Type::kU32, Type::kU64};
inline constexpr std::initializer_list<Type> kFloatTypes = {Type::kF16, Type::kBF16,   Type::kF32,
                                                            Type::kF64, Type::kF8E4M3, Type::kF8E5M2};
inline constexpr std::initializer_list<Type> kAllTypes = {
    Type::kI1,  Type::kI8,  Type::kI16,  Type::kI32, Type::kI64, Type::kU8,     Type::kU16,   Type::kU32,
    Type::kU64, Type::kF16, Type::kBF16, Type::kF32, Type::kF64, Type::kF8E4M3, Type::kF8E5M2};

// An element: the low bits of a word, the others zero.
using Bits = uint64_t;

// Sums and products of two 64-bit ints fit without wrapping, but for u64 times u64, which needs all 128 bits.
using Wide = __int128;
using UWide = unsigned __int128;

int width(Type type);  // in bits; i1 has 1
bool is_float(Type type);
bool is_signed(Type type);  // floats and i8…i64; i1 counts as an unsigned int of one bit
std::string_view name(Type type);

// The bits that an element of the type may have.
inline Bits mask(Type type) { return width(type) == 64 ? ~Bits{0} : (Bits{1} << width(type)) - 1; }

}  // namespace kiln::reference
