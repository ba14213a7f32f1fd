// Persistent blocks: as many as the device runs at once, each of which takes one program after another.
//
//   %first = 0; %place = block's number
//   loop:
//     %number = %first + %place               ; of all programs, in the order of the grid
//     …
//     %first += blocks; %place = blocks - 1 - %place
//   while %first + %place < programs
//
// The place is turned round where programs are not of one length (attention under a causal mask): neighbours in the
// grid are most often alike, so who had one of the longer programs has one of the shorter ones next. Else it stays.
//
// From a queue, which all blocks share, %number comes of program_queue.h.
//
// By the schedules persistent, queue and ping_pong (warp_specialise), in kernels that have warps for copies alone
// (producer_warps.h): these go on to the next program while the others finish the last one. The kernel gets the grid's
// extents from the launch (docs/reference/artifact.md), whose grid is that of the blocks.
// Consumer groups: two sets of a program's warps, each in a program of its own (the schedule ping_pong). The thread
// that copies fills one multi-buffer for both, program after program, so that their loops take turns at the products,
// and what one does behind its loop, the other multiplies beside:
//
//   copies:   0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3
//   consumer group 0:   loop of 0; stores  | loop of 2; stores
//   consumer group 1:           loop of 1; stores  | loop of 3; stores
//
// Each waits for its turn, a transaction barrier at which the other arrives behind its loop, and passes over the stages
// of the other's programs, which are as many: its loop is alike in all programs.
#pragma once

#include "gpu/analysis/linear_index.h"
#include "gpu/context.h"
#include "gpu/pipeline/program_queue.h"

namespace kiln::codegen::gpu {

// In a cluster (cluster.h) neighbours go on together: where one has a program, but the other has none left, that one
// runs the last one of the grid again.
//
// Whose loop it is: that of the thread that copies, or of the program's warps.
enum class ProgramRole : uint8_t { kProduces, kComputes };
// The loop over programs: the builder is left inside, and `program_id` is that of the iteration.
struct ProgramLoop {
  llvm::BasicBlock *head = nullptr, *body = nullptr, *after = nullptr;
  llvm::PHINode *first = nullptr, *place = nullptr;
  Value* number = nullptr;
  llvm::PHINode* given = nullptr;  // of who hands numbers on
  int consumer_groups = 1;         // who share the programs
};
ProgramLoop begin_programs(Context& ctx, ProgramRole role);
// Whether a loop has as many iterations in all programs.
bool is_alike_in_all_programs(const Op& loop, LinearForms& forms);
// A consumer group multiplies by itself.
inline constexpr int kConsumerGroupWarps = 4;
bool is_fit_for_consumer_groups(const dsl::Kernel& kernel, const Op& loop, const std::vector<AxisInfo>& info,
                                const Pipeline& pipeline);
// The program of this number of the cluster's.
void set_program(Context& ctx, Value* number);
// Behind what a program computes.
void end_programs(Context& ctx, const ProgramLoop& loop);

}  // namespace kiln::codegen::gpu
