#include "reference/cast.h"

#include <algorithm>

#include "reference/ints.h"

namespace kiln::reference {
namespace {

Bits truncated(Type to, const Dyadic& value) {
  if (value.is_nan()) return 0;
  const Wide end = value.negative ? int_min(to) : int_max(to);
  if (value.is_infinite() || bit_width(value.magnitude) + value.exponent > 64) return wrap(to, end);
  UWide magnitude = 0;
  if (value.exponent >= 0) {
    magnitude = value.magnitude << value.exponent;
  } else if (value.exponent > -128) {
    magnitude = value.magnitude >> -value.exponent;
  }
  const Wide whole = value.negative ? -static_cast<Wide>(magnitude) : static_cast<Wide>(magnitude);
  return wrap(to, value.negative ? std::max(whole, end) : std::min(whole, end));
}

Bits converted(Type to, const Dyadic& value, Overflow overflow) {
  if (is_float(to)) return encode(to, value, overflow);
  if (to == Type::kI1) return value.is_zero() ? 0 : 1;
  return truncated(to, value);
}

}  // namespace

Dyadic exact_value(Type type, Bits bits) {
  return is_float(type) ? decode(type, bits) : dyadic_of_int(int_value(type, bits));
}

long double real_value(Type type, Bits bits) { return to_long_double(exact_value(type, bits)); }

Bits cast(Type from, Type to, Bits bits, Overflow overflow) {
  if (from == to) return bits & mask(to);
  if (!is_float(from) && !is_float(to) && to != Type::kI1) return wrap(to, int_value(from, bits));
  return converted(to, exact_value(from, bits), overflow);
}

Bits cast_stochastic(Type from, Type to, Bits bits, uint32_t random, Overflow overflow) {
  return encode_stochastic(to, exact_value(from, bits), random, overflow);
}

std::vector<Bits> cast(Type from, Type to, const std::vector<Bits>& elements, Overflow overflow) {
  std::vector<Bits> out;
  out.reserve(elements.size());
  for (const Bits bits : elements) out.push_back(cast(from, to, bits, overflow));
  return out;
}

std::vector<long double> real_values(Type type, const std::vector<Bits>& elements) {
  std::vector<long double> out;
  out.reserve(elements.size());
  for (const Bits bits : elements) out.push_back(real_value(type, bits));
  return out;
}

Bits element_of(Type type, long double value) { return converted(type, dyadic(value), Overflow::kDefault); }

std::vector<Bits> elements_of(Type type, const std::vector<long double>& values) {
  std::vector<Bits> out;
  out.reserve(values.size());
  for (const long double value : values) out.push_back(element_of(type, value));
  return out;
}

}  // namespace kiln::reference
