// Data whose products and sums are exact in any order.
#pragma once

#include <algorithm>
#include <random>

#include "differential.h"

namespace kiln::test {

// Integers from -3 to 3; at least one of them.
inline TestArgument small_numbers(dsl::ElementType type, int64_t count, std::mt19937_64& random) {
  TestArgument out;
  out.is_buffer = true;
  const auto bytes = static_cast<size_t>(dsl::info(type).bytes);
  for (int64_t i = 0; i < std::max<int64_t>(count, 1); ++i) {
    const uint64_t bits = dsl::bits_from_int(type, static_cast<int64_t>(random() % 7) - 3);
    for (size_t byte = 0; byte < bytes; ++byte) out.buffer.push_back(static_cast<std::byte>(bits >> (8 * byte)));
  }
  return out;
}

inline int64_t elements(const TextKernel::Shape& shape) {
  int64_t out = 1;
  for (int64_t extent : shape) out *= extent;
  return out;
}

}  // namespace kiln::test
