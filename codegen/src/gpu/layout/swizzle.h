// The order of a tile in shared memory under which two access patterns meet the fewest bank conflicts.
#pragma once

#include "gpu/layout/gf2.h"

namespace kiln::codegen::gpu {

struct SwizzleRequest {
  Columns space;      // a basis of the tile's elements, in the order that is preferred where all else is equal
  Columns vector;     // the lowest bits of the offset stand for these
  int word_bits = 0;  // so many low bits of the offset are one word, within a bank
  int line_bits = 0;  // so many are a line: all the banks once
  // What the lanes differ in that are served at once: of stores and of loads.
  Columns stores, loads;
};

// What each bit of the offset stands for. As few conflicts as can be, for words of at least `vector`'s size.
Columns choose_swizzle(const SwizzleRequest& request);

// So many wavefronts serve lanes that differ in `lanes`, each accessing the offsets that share all but `low_bits` bits.
int64_t bank_conflicts(const Columns& swizzle, const Columns& lanes, int low_bits, int line_bits);

}  // namespace kiln::codegen::gpu
