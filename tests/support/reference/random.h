// Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC'11), and what the
// builder's library makes of its words.
#pragma once

#include <array>
#include <cstdint>

namespace kiln::reference {

using Counter = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

Counter philox4x32(Counter counter, Key key, int rounds = 10);
// The op: counter (offset_lo, offset_hi, 0, 0), key (seed_lo, seed_hi).
Counter philox(uint64_t seed, uint64_t offset);

// (word >> 8)·2^-24: in [0, 1), never 1; exact in f32.
float rand(uint32_t word);

// Box–Muller on two words: with u, v = rand of each, sqrt(-2·log(1-u))·cos(2πv), and with sin. 1-u is never 0.
struct Normals {
  long double cosine, sine;
};
Normals randn(uint32_t word_u, uint32_t word_v);

}  // namespace kiln::reference
