// Conversions through shared memory (conversion.h), and other accesses to tiles there.
#pragma once

#include <optional>

#include "gpu/layout/layout.h"

namespace kiln::codegen::gpu {

// What conversions need to know of a target.
struct LaneFacts {
  int bank_count = 32;           // banks of four bytes; one wavefront serves as many
  int vector_bytes = 16;         // the widest access of shared memory
  Columns wide_load_lanes = {};  // lanes that loads of 16 bytes serve at once differ in these; else in the lowest bits
  bool matrix_load = false;      // ldmatrix
  bool matrix_store = false;     // stmatrix
  int barrier_cost = 16;         // of a round trip through shared memory beyond its wavefronts, in shuffles
  int64_t shared_bytes = 65536;  // a tile may take
};

// How one side of a round trip accesses shared memory.
enum class AccessKind : uint8_t {
  kVector,            // each lane so many elements of its own at once
  kMatrix,            // stmatrix or ldmatrix: 8 rows of 16 bytes, of which lane l has four bytes of row l / 4
  kTransposedMatrix,  // with .trans: of 16-bit elements lane l has two of column l / 4
};
struct SharedAccess {
  AccessKind kind = AccessKind::kVector;
  Layout offsets;  // (register, lane, warp, block) → offset in elements
  Columns group;   // registers that go together: register b ^ group·j is element j of what a lane accesses at once
  Columns each;    // one access (or matrix) for each b = each·i
  int64_t instructions = 0;  // of one warp; up to four matrices are one instruction
  int64_t wavefronts = 0;    // that they take, bank conflicts included
};

struct RoundTrip {
  Layout memory;  // from offsets to the elements of block 0
  SharedAccess store, load;
  int64_t bytes = 0;
};

// Of layouts without copies in registers. Nothing where the way is closed.
std::optional<RoundTrip> plan_round_trip(const Layout& source, const Layout& result, int element_bits,
                                         const LaneFacts& facts);

// How threads access a tile whose place in memory is given (`memory`: from offsets to elements), each for the registers
// of `layout`; in the fewest wavefronts. `facts` say whether matrix instructions may be used.
SharedAccess plan_shared_store(const Layout& memory, const Layout& layout, int element_bits, const LaneFacts& facts);
SharedAccess plan_shared_load(const Layout& memory, const Layout& layout, int element_bits, const LaneFacts& facts);

}  // namespace kiln::codegen::gpu
