// Conversions by shuffles (conversion.h).
#pragma once

#include <optional>

#include "gpu/layout/layout.h"

namespace kiln::codegen::gpu {

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

// Of layouts without copies in registers. Nothing where the way is closed.
std::optional<Shuffle> plan_shuffle(const Layout& source, const Layout& result, int element_bits);

}  // namespace kiln::codegen::gpu
