// Programs of persistent blocks from a queue that all blocks share ("dynamic scheduling"): who is done early takes one
// more. By the schedule queue.
//
//   the thread that copies:                          warps of the program:
//     %number = block's number                         loop:
//     loop:                                              wait for a number; its place is free
//       wait for a free place; hand on %number           while %number < programs
//     while %number < programs                           …
//       …                                              end
//       %number = blocks + counter++
//     end
//
// The counter is the launch's (docs/reference/artifact.md, `queue_param`), 0 at first. Blocks count as often as there
// are programs, each until it gets a number behind the last, and who comes last sets it to 0: atom.inc wraps round.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// How far one side has come: the place of the next number, and the parity of its phase.
struct QueueEnd {
  llvm::AllocaInst *place = nullptr, *parity = nullptr;
};

ProgramQueue make_program_queue(Context& ctx);
// Its barriers, by one thread; a barrier of all threads has to follow.
void init_program_queue(Context& ctx, const ProgramQueue& queue, Value* chosen);
// `gives`: of the thread that copies.
QueueEnd begin_queue(Context& ctx, bool gives);
void give_program(Context& ctx, const QueueEnd& end, Value* number);
Value* take_program(Context& ctx, const QueueEnd& end);
// What the counter gives; `programs`: how many there are.
Value* count_program(Context& ctx, Value* programs);

}  // namespace kiln::codegen::gpu
