#include "reference/floats.h"

#include <bit>
#include <cmath>

namespace kiln::reference::floats {
namespace {

template <class Function, class... Operands>
Bits computed(Type type, Function function, Operands... operands) {
  if (type == Type::kF64) return std::bit_cast<uint64_t>(function(std::bit_cast<double>(operands)...));
  const float result = function(static_cast<float>(to_real(type, operands))...);
  return from_real(type, result);
}

template <class Better>
Bits chosen(Type type, Bits a, Bits b, bool numeric, Better better) {
  const bool a_is_nan = is_nan(type, a), b_is_nan = is_nan(type, b);
  if (a_is_nan || b_is_nan) return a_is_nan != numeric || (a_is_nan && b_is_nan) ? a : b;
  return better(to_real(type, b), to_real(type, a)) ? b : a;
}

}  // namespace

Bits add(Type type, Bits a, Bits b) {
  return computed(type, [](auto x, auto y) { return x + y; }, a, b);
}

Bits sub(Type type, Bits a, Bits b) {
  return computed(type, [](auto x, auto y) { return x - y; }, a, b);
}

Bits mul(Type type, Bits a, Bits b) {
  return computed(type, [](auto x, auto y) { return x * y; }, a, b);
}

Bits div(Type type, Bits a, Bits b) {
  return computed(type, [](auto x, auto y) { return x / y; }, a, b);
}

Bits rem(Type type, Bits a, Bits b) {
  return computed(type, [](auto x, auto y) { return std::fmod(x, y); }, a, b);
}

Bits fma(Type type, Bits a, Bits b, Bits c) {
  return computed(type, [](auto x, auto y, auto z) { return std::fma(x, y, z); }, a, b, c);
}

Bits sqrt(Type type, Bits a) {
  return computed(type, [](auto x) { return std::sqrt(x); }, a);
}

Bits neg(Type type, Bits a) { return (a ^ format(type).sign_bit()) & mask(type); }

Bits abs(Type type, Bits a) { return a & (format(type).sign_bit() - 1); }

Bits min(Type type, Bits a, Bits b, bool numeric) {
  return chosen(type, a, b, numeric, [](auto x, auto y) { return x < y; });
}

Bits max(Type type, Bits a, Bits b, bool numeric) {
  return chosen(type, a, b, numeric, [](auto x, auto y) { return x > y; });
}

}  // namespace kiln::reference::floats
