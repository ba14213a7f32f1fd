// What the metadata of a GPU artifact say about its launches (docs/reference/artifact.md, "GPU artifacts"), checked and
// laid out.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "driver.h"
#include "kiln/abi/metadata.h"
#include "kiln/dsl/ir.h"

namespace kiln::client::gpu {

using abi::kMaxBlockBytes;

struct LaunchStep {
  std::string entry;
  uint64_t chunks = 1;  // the step's grid is the kernel's with axis 0 times this
  uint32_t threads = 1;
  uint32_t shared_bytes = 0;
};

struct TensorMapPlan : abi::TensorMap {
  uint32_t block_offset = 0;
};

struct LaunchSequence {
  std::string target, emit;
  std::vector<LaunchStep> steps;
  std::array<uint32_t, 3> cluster = {1, 1, 1};
  uint32_t programs = 1;  // of a block
  // Blocks that a multiprocessor runs at once, each of which takes one program after another; 0: a block is launched
  // for each of its programs.
  uint32_t persistent = 0;
  bool waits = false;            // kernels wait for what the stream ran before by themselves: KernelLaunch::early
  uint64_t workspace_bytes = 0;  // for each program of the grid
  std::vector<TensorMapPlan> tensor_maps;
  // Of fields of the parameter block (kiln/abi/launch_block.h).
  std::optional<uint32_t> workspace_offset, failure_offset, extents_offset, print_offset, programs_offset, grid_offset,
      queue_offset;
  uint32_t block_bytes = 0;
  // Of kernels with tensor maps, all of these: where such a kernel has its parameters is the assembler's affair.
  std::vector<uint32_t> offsets;
};

// The error is the rest of a sentence about the artifact.
Result<LaunchSequence> parse_launches(const dsl::Kernel& kernel, const abi::Metadata& metadata);

}  // namespace kiln::client::gpu
