#include "reference/types.h"

namespace kiln::reference {

int width(Type type) {
  switch (type) {
    case Type::kI1:
      return 1;
    case Type::kI8:
    case Type::kU8:
    case Type::kF8E4M3:
    case Type::kF8E5M2:
      return 8;
    case Type::kI16:
    case Type::kU16:
    case Type::kF16:
    case Type::kBF16:
      return 16;
    case Type::kI32:
    case Type::kU32:
    case Type::kF32:
      return 32;
    case Type::kI64:
    case Type::kU64:
    case Type::kF64:
      return 64;
  }
  return 0;
}

bool is_float(Type type) { return type >= Type::kF16; }

bool is_signed(Type type) { return is_float(type) || (type >= Type::kI8 && type <= Type::kI64); }

std::string_view name(Type type) {
  constexpr std::string_view kNames[] = {"i1",  "i8",  "i16",  "i32", "i64", "u8",     "u16",   "u32",
                                         "u64", "f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"};
  return kNames[static_cast<int>(type)];
}

}  // namespace kiln::reference
