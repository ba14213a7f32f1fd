// Little-endian fields at fixed offsets. Every host that Kiln runs on is little-endian.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>

namespace kiln::wire {

static_assert(std::endian::native == std::endian::little);

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <class T>
T take(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace kiln::wire
