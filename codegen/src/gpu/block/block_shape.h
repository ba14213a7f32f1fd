// The threads of a program, and how tiles are padded for it.
#pragma once

#include <climits>

#include "gpu/layout/layout.h"
#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

struct BlockShape {
  int lanes = 32;           // a warp
  int warps = 4;            // of a program
  int programs = 1;         // of a block, side by side; several only of one warp each, which then wait for nobody else
  int consumer_groups = 1;  // so many times these warps, each group in a program of its own (persistent.h)
  int producers = 0;        // warps of a block, behind those of programs, that only copy for them (producer_warps.h)
  bool persistent = false;  // takes one program after another (persistent.h)
  bool balanced = false;    // takes them in an order that evens out their lengths
  bool queued = false;      // takes them from a queue that all blocks share (program_queue.h)
  int cluster = 1;          // blocks that load for each other (cluster.h)
  int most_stages = INT_MAX;                     // of loops, whatever they ask for
  int threads() const { return lanes * warps; }  // of a program
  int computing_threads() const { return threads() * programs * consumer_groups; }
  int block_threads() const { return computing_threads() + lanes * producers; }
};

// The extents rounded up to powers of two.
std::vector<int64_t> padded_shape(const dsl::Type& type);
// All registers in all threads.
Layout replicated(const std::vector<int64_t>& shape, const BlockShape& block);

}  // namespace kiln::codegen::gpu
