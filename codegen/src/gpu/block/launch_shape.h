// How many threads a program gets.
#pragma once

#include <climits>

#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

// What code is for. Where no fact is known of the arguments it bridges the time until there is code that knows them
// (docs/inside/architecture.md), so that it is to be there soon: it is short rather than fast.
enum class Effort : uint8_t { kShort, kFast };
Effort effort_for(const dsl::Facts& facts);

struct LaunchShape {
  int warps = 4;              // of a program
  bool is_given = false;      // by the config
  int programs = 1;           // of a block
  bool specialise = false;    // warps of their own may copy (producer_warps.h)
  bool persistent = false;    // blocks take one program after another (persistent.h)
  bool queued = false;        // they take them from a queue that all blocks share (program_queue.h)
  int consumer_groups = 1;    // so many programs at a time, whose loops take turns (persistent.h)
  int cluster = 1;            // so many neighbouring blocks load for each other (cluster.h)
  bool bulk_stores = true;    // large tiles may be stored by the bulk engine
  int most_stages = INT_MAX;  // of loops, whatever they ask for
  Effort effort = Effort::kFast;
};

// What the config says (num_warps, warp_specialise, cluster), else what suits an instantiated kernel's largest tile.
// `lanes`: of a warp. Blocks of a warp would leave most of a GPU idle: a few programs of one warp share a block, unless
// the kernel has products.
LaunchShape launch_shape(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, int lanes);

// Of a stage of several (launches/launch_sequence.h). What the config says is about products. Stores are the threads'
// own: the host describes arguments to the bulk engine, of the first stage alone, and the workspace is none.
LaunchShape step_shape(const dsl::Kernel& kernel, const dsl::ConstexprValues& config, int lanes);

// Bytes of the largest tile that a program loads.
int64_t largest_load(const dsl::Kernel& kernel);

// Whether the region multiplies matrices; what does not waits for memory, mostly.
bool has_products(const dsl::Region& region);

// So many that each is short beside the kernel, whose code is no loop of few of them.
bool has_many_products(const dsl::Region& region);

}  // namespace kiln::codegen::gpu
