// What the fake compiler's "bytes" order gives, so that a test can tell the right code from any other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kiln::service_test {

inline std::vector<std::byte> fake_bytes(const std::string& salt, uint64_t size) {
  std::vector<std::byte> out;
  out.reserve(size);
  uint64_t state = std::hash<std::string>{}(salt) | 1;
  for (uint64_t i = 0; i < size; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    out.push_back(static_cast<std::byte>(state >> 56));
  }
  return out;
}

}  // namespace kiln::service_test
