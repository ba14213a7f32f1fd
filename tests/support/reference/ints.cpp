#include "reference/ints.h"

#include <algorithm>

namespace kiln::reference {

Wide int_value(Type type, Bits bits) {
  bits &= mask(type);
  const bool negative = is_signed(type) && (bits >> (width(type) - 1)) != 0;
  return static_cast<Wide>(bits) - (negative ? Wide{1} << width(type) : 0);
}

Bits wrap(Type type, Wide value) { return static_cast<Bits>(value) & mask(type); }

Wide int_min(Type type) { return is_signed(type) ? -(Wide{1} << (width(type) - 1)) : 0; }

Wide int_max(Type type) { return (Wide{1} << (is_signed(type) ? width(type) - 1 : width(type))) - 1; }

namespace ints {
namespace {

// Unsigned: the product of two u64 needs all 128 bits. Of signed operands its low 128 bits are those of the true
// product.
UWide product(Type type, Bits a, Bits b) {
  return static_cast<UWide>(int_value(type, a)) * static_cast<UWide>(int_value(type, b));
}

}  // namespace

Bits add(Type type, Bits a, Bits b) { return wrap(type, int_value(type, a) + int_value(type, b)); }

Bits sub(Type type, Bits a, Bits b) { return wrap(type, int_value(type, a) - int_value(type, b)); }

Bits mul(Type type, Bits a, Bits b) { return static_cast<Bits>(product(type, a, b)) & mask(type); }

Bits mulhi(Type type, Bits a, Bits b) { return static_cast<Bits>(product(type, a, b) >> width(type)) & mask(type); }

Bits div(Type type, Bits a, Bits b) {
  const Wide divisor = int_value(type, b);
  return divisor == 0 ? 0 : wrap(type, int_value(type, a) / divisor);
}

Bits rem(Type type, Bits a, Bits b) {
  const Wide divisor = int_value(type, b);
  return wrap(type, divisor == 0 ? int_value(type, a) : int_value(type, a) % divisor);
}

Bits neg(Type type, Bits a) { return wrap(type, -int_value(type, a)); }

Bits abs(Type type, Bits a) {
  const Wide value = int_value(type, a);
  return wrap(type, value < 0 ? -value : value);
}

Bits min(Type type, Bits a, Bits b) { return wrap(type, std::min(int_value(type, a), int_value(type, b))); }

Bits max(Type type, Bits a, Bits b) { return wrap(type, std::max(int_value(type, a), int_value(type, b))); }

Bits shl(Type type, Bits a, Bits amount) {
  amount &= mask(type);
  return amount >= static_cast<Bits>(width(type)) ? 0 : (a << amount) & mask(type);
}

Bits shr(Type type, Bits a, Bits amount) {
  amount &= mask(type);
  const Wide value = int_value(type, a);
  if (amount >= static_cast<Bits>(width(type))) return wrap(type, value < 0 ? -1 : 0);
  // Floor division by 2^amount, which is what an arithmetic shift is.
  const Wide power = Wide{1} << amount;
  return wrap(type, value >= 0 ? value / power : -((-value + power - 1) / power));
}

Bits bit_and(Type type, Bits a, Bits b) { return a & b & mask(type); }

Bits bit_or(Type type, Bits a, Bits b) { return (a | b) & mask(type); }

Bits bit_xor(Type type, Bits a, Bits b) { return (a ^ b) & mask(type); }

Bits floor_div(Type type, Bits a, Bits b) {
  const Wide x = int_value(type, a), y = int_value(type, b);
  if (y == 0) return 0;
  const bool below = x % y != 0 && (x < 0) != (y < 0);
  return wrap(type, x / y - (below ? 1 : 0));
}

Bits floor_mod(Type type, Bits a, Bits b) {
  const Wide x = int_value(type, a), y = int_value(type, b);
  if (y == 0) return wrap(type, x);
  const Wide remainder = x % y;
  return wrap(type, remainder != 0 && (remainder < 0) != (y < 0) ? remainder + y : remainder);
}

}  // namespace ints
}  // namespace kiln::reference
