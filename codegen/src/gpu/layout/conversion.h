// How a tile comes from one layout into another: the cheapest way that algebra finds.
//
// Let S and D be the two layouts, both on the same threads. Data moves only as far as it has to:
//   registers  what each register of D holds is in a register of S of the same thread, for all threads in the same one
//   shuffle    … is in some lane of the same warp
//   shared     … is in the same block
// Plans say what moves where as layouts again: maps linear over GF(2), of which code is generated, and which the tests
// execute on the host.
#pragma once

#include <variant>

#include "gpu/layout/layout.h"
#include "kiln/dsl/result.h"

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

// Register i of the result is register from[i] of the source.
struct RegisterMove {
  std::vector<int> from;
  bool nothing = false;  // every register stays where it is
};

// Rounds of one shuffle each, numbered by kRegister of these maps. In a round a lane offers a register, fetches what
// another lane offers, and puts it into a register of its own:
//   offer   (round, lane, warp, block) → the register this lane offers
//   fetch   … → the lane to fetch from
//   put     … → the register of the result
//   accept  … → what was fetched is for this lane where this is 0
// Narrow elements travel in packs: a round moves registers offer ^ offer_pack·j into put ^ put_pack·j, for all j.
// Where a lane's bits are among what `offer` or `put` depends on, code selects among registers.
struct Shuffle {
  Layout offer, fetch, put, accept;
  Columns offer_pack, put_pack;

  int64_t rounds() const { return offer.size(Dim::kRegister); }
  // Rounds that need an instruction: not those in which each lane fetches from itself.
  int64_t shuffles() const;
  // How many selects among registers code needs: all rounds' registers are permuted together, in a step for each bit
  // of the lane that they depend on.
  int64_t selects() const;
  // In each round a lane fetches from the one whose number differs from its own in the same bits.
  bool butterfly() const;
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

struct ConversionPlan {
  std::variant<RegisterMove, Shuffle, RoundTrip> how;
  // Shuffles and round trips number only registers with elements of their own:
  Columns source_registers;  // of each such bit: the source's register
  Columns result_registers;  // of each register bit of the result: such a number
};

// An error where data would have to leave its block, or does not fit into shared memory.
Result<ConversionPlan> plan_conversion(const Layout& source, const Layout& result, int element_bits,
                                       const LaneFacts& facts);

// How threads access a tile whose place in memory is given (`memory`: from offsets to elements), each for the registers
// of `layout`; in the fewest wavefronts. `facts` say whether matrix instructions may be used.
SharedAccess plan_shared_store(const Layout& memory, const Layout& layout, int element_bits, const LaneFacts& facts);
SharedAccess plan_shared_load(const Layout& memory, const Layout& layout, int element_bits, const LaneFacts& facts);

// The parts, of layouts without copies in registers. Nothing where the way is closed.
std::optional<RegisterMove> plan_registers(const Layout& source, const Layout& result);
std::optional<Shuffle> plan_shuffle(const Layout& source, const Layout& result, int element_bits);
std::optional<RoundTrip> plan_round_trip(const Layout& source, const Layout& result, int element_bits,
                                         const LaneFacts& facts);

}  // namespace kiln::codegen::gpu
