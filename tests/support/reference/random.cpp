#include "reference/random.h"

#include <cmath>
#include <numbers>

namespace kiln::reference {

Counter philox4x32(Counter counter, Key key, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    // Weyl steps: the golden ratio and sqrt(3)-1.
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

Counter philox(uint64_t seed, uint64_t offset) {
  return philox4x32({static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32), 0, 0},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

float rand(uint32_t word) { return std::ldexp(static_cast<float>(word >> 8), -24); }

Normals randn(uint32_t word_u, uint32_t word_v) {
  const long double radius = std::sqrt(-2 * std::log1p(-static_cast<long double>(rand(word_u))));
  const long double angle = 2 * std::numbers::pi_v<long double> * rand(word_v);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace kiln::reference
