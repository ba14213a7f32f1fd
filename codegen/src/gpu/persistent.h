// Persistent blocks: as many as the device runs at once, each of which takes one program after another.
//
//   %number = block's number                  ; of all blocks, in the order of the grid
//   loop:
//     %program = %number's place in the grid
//     …
//     %number += blocks; while %number < programs
//
// Where the launch option warp_specialise is 2, in kernels that have warps for copies alone (copying_warps.h): these go
// on to the next program while the others finish the last one. The kernel gets the grid's extents from the launch
// (docs/artifact.md), whose grid is that of the blocks.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// In a cluster (cluster.h) neighbours go on together: where one has a program, but the other has none left, that one
// runs the last one of the grid again.
//
// The loop over programs: the builder is left inside, and `program_id` is that of the iteration.
struct ProgramLoop {
  llvm::BasicBlock *body = nullptr, *after = nullptr;
  llvm::PHINode* number = nullptr;
};
ProgramLoop begin_programs(Context& c);
// The program of this number of the cluster's.
void set_program(Context& c, Value* number);
// … and behind.
void end_programs(Context& c, const ProgramLoop& loop);

}  // namespace kiln::codegen::gpu
