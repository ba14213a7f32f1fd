// Which layouts a dot wants: by matrix instructions where the target has one for its types, of several warps before
// those of one; else each thread has a block of the result.
#pragma once

#include <optional>

#include "gpu/block/block_shape.h"
#include "gpu/dot/dot_instruction.h"
#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

// Of a dot_scaled that the target scales itself. The scales of fragments of a count m fastest, those of b n, then k.
struct ScaledFragments {
  ScaledInstruction instruction;
  Layout a_scales, b_scales;
};

// By matrix instructions. A tile smaller than the instruction's has copies in what threads hold of the rest; along the
// inner axis these count as zeros, which is told by where they would lie in the whole fragments.
struct DotFragments {
  MatrixInstruction instruction;
  Layout a, b, accumulators;
  Layout whole_a, whole_b;
  // So many fragments a warp has; its registers count n fastest, then m, then k (of sums: none), then the batch.
  int64_t batch = 1, m = 1, n = 1, k = 1;
  std::optional<ScaledFragments> scaled = {};
};

// By products of several warps: A's layout where it is in registers, and so many fragments a warp has. Registers of the
// sums count n fastest, then m.
struct DotGroup {
  GroupInstruction instruction;
  Layout a;
  int columns = 0;  // of a fragment
  int64_t m = 1, n = 1;
  int64_t k = 1, padded_k = 1;  // steps, and those that A's layout has
  // Of sums in tensor memory: where in the kernel's columns those of the first group of warps begin, and how many all
  // groups have.
  int64_t first_column = 0, all_columns = 0;
};

struct DotLayouts {
  Layout accumulator;  // without copies in registers
  std::optional<DotFragments> fragments = {};
  std::optional<DotGroup> group = {};
};

// Whether the target multiplies all packed e2m1 of a kernel as they are, and there are some.
bool multiplies_packed(const dsl::Kernel& kernel, const TargetInfo& target);

// The columns of tensor memory that sums of a kernel's products take in a program.
int64_t tensor_columns(const dsl::Kernel& kernel, const TargetInfo& target, const BlockShape& block);

// Of a dot or a dot_scaled, whose operands are f8 by then, or all multiplied packed.
DotLayouts dot_layouts(const dsl::Kernel& kernel, const dsl::Op& dot, const TargetInfo& target,
                       const BlockShape& block);

}  // namespace kiln::codegen::gpu
