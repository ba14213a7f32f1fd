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
HeldTiles most_held(const dsl::Kernel& kernel, const Placement& placement);

// More than any thread has registers for.
bool holds_too_much(const dsl::Kernel& kernel, const Placement& placement);
// The kernel with loads, and what is made of one alone, where they are wanted first: in the order in which a kernel
// reaches the compiler all tiles that a long sum adds up may be loaded before the first is added.
dsl::Kernel load_late(dsl::Kernel kernel);

// Error: a thread would hold twice what it has registers for; it names the op, and the num_warps that would
// do. Less than that is compiled, if with spills.
Result<void> check_held_tiles(const dsl::Kernel& kernel, const Placement& placement, const TargetInfo& target,
                              const BlockShape& block, const std::string& processor);

// A product of several warps whose sums the registers of the block's threads do not hold, which no assembler spills,
// and the warps of a block that has registers for it; 0: none has.
struct CrampedProduct {
  const dsl::Op* dot;
  int warps;
};
std::optional<CrampedProduct> cramped_product(const dsl::Kernel& kernel, const TargetInfo& target,
                                              const BlockShape& block);

}  // namespace kiln::codegen::gpu
