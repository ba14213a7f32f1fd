// Which layouts a dot wants: by matrix instructions where the target has one for its types and extents, of several
// warps before those of one; else each thread has a block of the result.
#pragma once

#include <optional>

#include "gpu/block_shape.h"
#include "gpu/target_info.h"
#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

struct DotLayouts {
  Layout accumulator;
  // By matrix instructions: the operands' layouts (of several warps: of A alone, where it is in registers), and how
  // many fragments a warp has along m, n and k.
  std::optional<MatrixInstruction> instruction;
  std::optional<GroupInstruction> group;
  int columns = 0;  // of a group's fragment
  Layout a, b;
  int64_t m_fragments = 0, n_fragments = 0, k_fragments = 0;
};

DotLayouts dot_layouts(const dsl::Kernel& kernel, const dsl::Op& dot, const TargetInfo& target,
                       const BlockShape& block);

}  // namespace kiln::codegen::gpu
