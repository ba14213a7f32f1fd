// Factors that a persistent block multiplies in all iterations of its loop: what is loaded before it, and read from
// shared memory by products of several warps alone (the queries of attention). The thread that copies fetches the next
// program's while the warps finish this one's, and nobody has to wait at a barrier of all.
//
//   the thread that copies, for each program:        warps of the program:
//     wait until the places are free; copy             wait for the copies
//     …                                                … products …
//                                                      the places are free
#pragma once

#include "gpu/context.h"
#include "gpu/pipeline/pipeline.h"

namespace kiln::codegen::gpu {

// Of a pipeline that has such operands.
OperandPlaces make_operand_places(Context& ctx, const Pipeline& pipeline);
// Their barriers, by one thread; a barrier of all threads has to follow.
void init_operand_places(Context& ctx, const OperandPlaces& places, Value* chosen);
// The parity of the next phase, of either side.
llvm::AllocaInst* begin_operands(Context& ctx, bool copies);
void copy_operands(Context& ctx, const Pipeline& pipeline, llvm::AllocaInst* parity);
void take_operands(Context& ctx, const Pipeline& pipeline, llvm::AllocaInst* parity);
void leave_operands(Context& ctx);
// The last op of the kernel's body that reads one of them, or has such an op in its regions.
const Op* last_reader(const dsl::Kernel& kernel, const Pipeline& pipeline);

}  // namespace kiln::codegen::gpu
