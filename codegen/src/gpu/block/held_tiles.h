// What a thread holds of tiles at once, before any code is made: a tile that its warps cannot hold is refused at once,
// and not after minutes in an assembler that spills it to memory.
#pragma once

#include "gpu/placement.h"
#include "gpu/target_info.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen::gpu {

// Where most is held, and how many words of 32 bits of a thread. Of tiles that have a home alone, and no more than is
// in registers for sure: operands of products may lie in shared memory.
struct HeldTiles {
  const dsl::Op* op = nullptr;  // that makes or reads some of it; null: there are no tiles
  int64_t words = 0;
};
// In the order in which the ops stand, each of them for its whole tile.
HeldTiles most_held(const dsl::Kernel& kernel, const Placement& placement);
// In whatever order an assembler finds: what is computed, and used, element by element needs no place for its tile,
// unless a thread had thousands of them to compute. A lower bound.
HeldTiles surely_held(const dsl::Kernel& kernel, const Placement& placement);

// More than any thread has registers for.
bool holds_too_much(const dsl::Kernel& kernel, const Placement& placement);
// The kernel with loads, and what is computed of them by element, where they are wanted first, and of the operands of
// an op that one first which needs most: in the order in which a kernel reaches the compiler all tiles that a long sum
// adds up may be loaded before the first is added.
dsl::Kernel load_late(dsl::Kernel kernel);

// A thread would surely hold twice what it has registers for. Less than that is compiled, if with spills.
struct OverfullTiles {
  HeldTiles held;
  int warps;  // of a block that has registers for it; 0: none has
};
std::optional<OverfullTiles> overfull_tiles(const dsl::Kernel& kernel, const Placement& placement,
                                            const TargetInfo& target, const BlockShape& block);

// A product of several warps whose sums the registers of the block's threads do not hold, which no assembler spills,
// and the warps of a block that has registers for it; 0: none has.
struct CrampedProduct {
  const dsl::Op* dot;
  int warps;
};
std::optional<CrampedProduct> cramped_product(const dsl::Kernel& kernel, const TargetInfo& target,
                                              const BlockShape& block);

}  // namespace kiln::codegen::gpu
