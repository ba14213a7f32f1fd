// Inputs for tests: elements and shapes. Everything follows from the seed alone, on every machine: the random numbers
// come from Philox and not from <random>, whose distributions differ between standard libraries.
#pragma once

#include <vector>

#include "reference/arrays.h"
#include "reference/types.h"

namespace kiln::reference {

// Floats: ±0, ±infinity, NaN, the ends of the subnormals, of the normals, ±1 and its neighbours. Ints: both ends and
// their neighbours, 0, 1, 2 and -1, -2 as the type has them.
std::vector<Bits> specials(Type type);
// Every value of a type of at most 16 bits.
std::vector<Bits> all_values(Type type);

// Ints over the whole range, floats from N(0, 1); with `specials` about one element in eight is one of those.
std::vector<Bits> random_elements(Type type, int64_t size, uint64_t seed, bool with_specials = true);
// N(0, 1) for floats, whole range for ints, none special: for dots, sums and norms, whose references must be finite.
inline std::vector<Bits> plain_elements(Type type, int64_t size, uint64_t seed) {
  return random_elements(type, size, seed, false);
}
// Uniformly random bits: floats over all magnitudes, NaN and infinity among them.
std::vector<Bits> random_bits(Type type, int64_t size, uint64_t seed);
// Ints of [low, high], for indices, shifts and bins.
std::vector<Bits> random_ints(Type type, int64_t size, Wide low, Wide high, uint64_t seed);

// Extents to test, ascending, up to `limit`: 1, primes up to 31 and then the first above each power of two, and the
// powers of two with their neighbours.
std::vector<int64_t> extents(int64_t limit);
// Shapes of a rank whose axes run through extents(limit) in different orders, so that each extent meets each axis, of
// at most `max_count` elements.
std::vector<Shape> shapes(size_t rank, int64_t limit, int64_t max_count);

}  // namespace kiln::reference
