#include "kiln/dsl/wide.h"

namespace kiln::dsl {

Wide number_from_bits(ElementType element, uint64_t bits) {
  const ElementTypeInfo& type = info(element);
  const int shift = 64 - type.bits;
  return type.is_signed ? Wide{static_cast<int64_t>(bits << shift) >> shift} : Wide{bits};
}

uint64_t bits_from_number(ElementType element, Wide number) {
  const int bits = info(element).bits;
  return static_cast<uint64_t>(number) & (bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1);
}

Wide lowest(ElementType element) {
  const ElementTypeInfo& type = info(element);
  return type.is_signed ? -(Wide{1} << (type.bits - 1)) : Wide{0};
}

Wide highest(ElementType element) {
  const ElementTypeInfo& type = info(element);
  return (Wide{1} << (type.is_signed ? type.bits - 1 : type.bits)) - 1;
}

}  // namespace kiln::dsl
